/* tally tokenize: what a model's tokenizer makes of a text, and what text ids stand for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/model_tokenizer.h"
#include "tools/options.h"
#include "tools/session.h"
#include "tools/show.h"

typedef struct {
    const char *model, *tokenizer, *text, *file, *ids;
    bool decode, add_special, parse_special, json;
} tokenize_options;

/* A piece in quotes; control characters, quotes and bytes that are no UTF-8 as \n, \", \xNN. */
static void print_piece(const char *piece, size_t n) {
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)piece[i];
        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c == '\n' || c == '\t' || c == '\r') {
            printf("\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else if (c < 0x20 || c == 0x7F) {
            printf("\\x%02x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static int written(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    fprintf(stderr, "tally: the output cannot be written\n");
    return 1;
}

static int print_ids(const tokenizer *t, const int *ids, size_t n, size_t n_bytes) {
    for (size_t i = 0; i < n; i++) printf("%s%d", i > 0 ? " " : "", ids[i]);
    printf("\n\n");
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, ids[i], &length);
        printf("%8d  ", ids[i]);
        print_piece(piece != NULL ? piece : "", length);
        printf("%s\n", tokenizer_is_special(t, ids[i]) ? "  special" : "");
    }
    printf("\n%zu tokens for %zu bytes (%s, %d tokens)\n", n, n_bytes, tokenizer_kind(t), tokenizer_n_vocab(t));
    return written();
}

/* {"tokenizer", "n_vocab", "n_bytes", "n_tokens", "ids": [...], "pieces": [...]} */
static int json_ids(const tokenizer *t, const int *ids, size_t n, size_t n_bytes) {
    json_t *list = json_array(), *pieces = json_array();
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, ids[i], &length);
        json_array_append_new(list, json_integer(ids[i]));
        json_array_append_new(pieces, show_text(piece != NULL ? piece : "", length));
    }
    json_t *report =
        json_pack("{s:s, s:i, s:I, s:I, s:o?, s:o?}", "tokenizer", tokenizer_kind(t), "n_vocab", tokenizer_n_vocab(t),
                  "n_bytes", (json_int_t)n_bytes, "n_tokens", (json_int_t)n, "ids", list, "pieces", pieces);
    int rc = show_json(report);
    json_decref(report);
    return rc;
}

static int encode(const tokenizer *t, const tokenize_options *o, const char *text, size_t n_bytes) {
    unsigned flags = (o->add_special ? TOKENIZE_ADD_SPECIAL : 0) | (o->parse_special ? TOKENIZE_PARSE_SPECIAL : 0);
    error e = {0};
    int *ids;
    size_t n;
    if (tokenizer_encode(t, text, n_bytes, flags, &ids, &n, &e) != OK) return tool_fail(&e);
    int rc = o->json ? json_ids(t, ids, n, n_bytes) : print_ids(t, ids, n, n_bytes);
    free(ids);
    return rc;
}

/* {"n_tokens", "n_bytes", "text"} */
static int json_text_of(const char *text, size_t n_bytes, size_t n_ids) {
    json_t *report = json_pack("{s:I, s:I, s:o?}", "n_tokens", (json_int_t)n_ids, "n_bytes", (json_int_t)n_bytes, "text",
                               show_text(text, n_bytes));
    int rc = show_json(report);
    json_decref(report);
    return rc;
}

static int decode(const tokenizer *t, const tokenize_options *o, const char *list) {
    error e = {0};
    int *ids;
    char *text = NULL;
    size_t n, n_bytes;
    if (ids_parse(list, &ids, &n, &e) != OK) return tool_fail(&e);
    /* Every byte of what was asked for, and nothing else: the text may be piped on. */
    status s = tokenizer_decode(t, ids, n, DETOKENIZE_SPECIAL, &text, &n_bytes, &e);
    int rc;
    if (s != OK) {
        rc = tool_fail(&e);
    } else if (o->json) {
        rc = json_text_of(text, n_bytes, n);
    } else {
        fwrite(text, 1, n_bytes, stdout);
        rc = written();
    }
    free(ids);
    free(text);
    return rc;
}

static int run(const tokenize_options *o) {
    error e = {0};
    tokenizer *t = NULL;
    char *read = NULL;
    const char *text = o->text;
    size_t n = text != NULL ? strlen(text) : 0;
    status s = any_tokenizer(&t, o->tokenizer != NULL ? o->tokenizer : o->model, &e);
    if (s == OK && o->file != NULL) s = file_read(o->file, &read, &n, &e);
    if (read != NULL) text = read;
    int rc = s != OK ? tool_fail(&e) : o->decode ? decode(t, o, text) : encode(t, o, text, n);
    free(read);
    tokenizer_free(t);
    return rc;
}

int cmd_tokenize(int argc, char **argv) {
    tokenize_options o = {.add_special = true};
    const option table[] = {
        {"model", 'm', OPTION_TEXT, &o.model, "FILE", "the model, or a tokenizer's file or folder", 0, 0},
        {"tokenizer", 0, OPTION_TEXT, &o.tokenizer, "FILE", "the tokenizer, where it is not beside the model", 0, 0},
        {"prompt", 'p', OPTION_TEXT, &o.text, "TEXT", "the text (or ids, with --decode)", 0, 0},
        {"file", 'f', OPTION_TEXT, &o.file, "FILE", "the text from a file; - is standard input", 0, 0},
        {"decode", 0, OPTION_FLAG, &o.decode, NULL, "the other way: ids (as 1,5,6 or 1 5 6) to text", 0, 0},
        {"add-special", 0, OPTION_FLAG, &o.add_special, NULL,
         "put around the text what the model wants there, such as its beginning-of-text token (on)", 0, 0},
        {"parse-special", 0, OPTION_FLAG, &o.parse_special, NULL,
         "special tokens written in the text, such as </s>, are themselves and not text", 0, 0},
        OPTION_JSON(&o.json),
    };
    const command help = {
        "tokenize",
        "MODEL|TOKENIZER [TEXT | -f FILE] [options]",
        "Text to token ids and pieces, as the model's own tokenizer does it, and back. The tokenizer is looked "
        "for in the model's file and beside it; tokenizer.json, vocab.json with merges.txt, tokenizer.bin of "
        "llama2.c, SentencePiece models and folders with one of them may be given by themselves.",
        "tally tokenize models/level21.pt \"23+58=\"\n"
        "  tally tokenize models/level21.pt --decode 1,5,6,13,8,11,14",
        table,
        sizeof table / sizeof *table};
    arguments args = {0};
    int rc = options_parse(&help, argc, argv, &args);
    if (rc >= 0) return rc;
    int at = 0;
    bool text_missing = o.text == NULL && o.file == NULL;
    if (o.model == NULL && (o.tokenizer == NULL || args.n > text_missing) && at < args.n) o.model = args.items[at++];
    if (o.text == NULL && o.file == NULL && at < args.n) o.text = args.items[at++];
    if (o.model == NULL && o.tokenizer == NULL)
        return tool_usage("tokenize: give a model or a tokenizer (tally tokenize --help)");
    if (at < args.n) return tool_usage("tokenize: '%s' is one argument too many (put the text in quotes)", args.items[at]);
    if ((o.text == NULL) == (o.file == NULL))
        return tool_usage("tokenize: give either a text or -f FILE (tally tokenize --help)");
    return run(&o);
}
