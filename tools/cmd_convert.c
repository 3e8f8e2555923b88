/* tally convert: a checkpoint of any kind as GGUF or safetensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/convert_tokenizer.h"
#include "tools/options.h"
#include "tools/session.h"
#include "weights/write.h"

typedef struct {
    int type; /* index into types below */
    int n_kv_heads;
    bool json, force;
    session_options s;
} convert_options;

static const int types[] = {-1, DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};

static bool has_end(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Files that belong to a Hugging Face folder beside its weights. */
static void copy_companions(const char *from, const char *to) {
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "generation_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "tokenizer.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096], *text = NULL;
        size_t n;
        snprintf(path, sizeof path, "%s/%s", from, names[i]);
        FILE *probe = fopen(path, "rb");
        if (probe == NULL) continue;
        fclose(probe);
        if (file_read(path, &text, &n, NULL) != OK) continue;
        snprintf(path, sizeof path, "%s/%s", to, names[i]);
        FILE *f = fopen(path, "wb");
        bool ok = f != NULL && fwrite(text, 1, n, f) == n;
        if ((f != NULL && fclose(f) != 0) || !ok) fprintf(stderr, "tally: %s: not copied\n", path);
        free(text);
    }
}

/* A family of GGUF without windows computes the same only as long as the context is no wider than one (write_keys.c): said, not done in silence. */
static void note_window(const char *out, const model_config *c, const write_options *w) {
    if (has_end(out, ".gguf") && c->window > 0 && c->window < c->n_ctx && strcmp(w->layout, "llama-gguf") == 0) {
        fprintf(stderr, "tally: %s: its context is the window, %d of %d: this family of GGUF has no windows\n", out, c->window,
                c->n_ctx);
    }
}

static int report(const char *out, const write_options *w, const convert_options *o) {
    if (o->json) {
        printf("{\"file\": \"%s\", \"layout\": \"%s\", \"bytes\": %llu}\n", out, w->layout, (unsigned long long)w->bytes);
    } else {
        printf("%s: %llu bytes, layout %s\n", out, (unsigned long long)w->bytes, w->layout);
        if (strcmp(w->layout, "tally-gguf") == 0)
            printf(
                "no family of GGUF computes what this model does: the file is in Tally's own form, which only Tally reads\n");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* A random model has no tokenizer, and llama.cpp reads no model without one: tokens that are only names. */
static json_t *names_for_tokens(int n_vocab) {
    json_t *tokens = json_array(), *types_of = json_array();
    for (int id = 0; id < n_vocab; id++) {
        json_array_append_new(tokens, json_sprintf("<t%d>", id));
        json_array_append_new(types_of, json_integer(1));
    }
    return json_pack("{s:s, s:s, s:o?, s:o?, s:[s]}", "tokenizer.ggml.model", "gpt2", "tokenizer.ggml.pre", "gpt-2",
                     "tokenizer.ggml.tokens", tokens, "tokenizer.ggml.token_type", types_of, "tokenizer.ggml.merges", "a b");
}

static status write_model(const session *s, const char *out, write_options *w, const convert_options *o, error *e) {
    if (!has_end(out, ".gguf")) {
        if (s->source != NULL && s->source->kind != CHECKPOINT_GGUF) w->source = s->source->meta;
        status st = write_safetensors(s->model, out, w, e);
        if (st == OK && s->source != NULL && s->source->folder != NULL) copy_companions(s->source->folder, out);
        return st;
    }
    char why[256] = "";
    json_t *keys = s->source == NULL ? names_for_tokens(s->model->config.n_vocab)
                                     : gguf_tokenizer_keys(s->model, s->source, s->tokenizer, o->s.tokenizer, why, sizeof why);
    if (why[0] != '\0') fprintf(stderr, "tally: %s: %s\n", out, why);
    w->tokenizer = keys;
    status st = write_gguf(s->model, out, w, e);
    w->tokenizer = NULL;
    json_decref(keys);
    return st;
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return a != NULL && b != NULL && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The input is never replaced; what else is there only with --force. */
static status target_check(const char *in, const char *out, bool force, error *e) {
    char inside[4096];
    snprintf(inside, sizeof inside, "%s/model.safetensors", out);
    if (same_file(in, out) || same_file(in, inside))
        return error_set(e, ERR_ARGUMENT, "%s: is what is being converted (give another name)", out);
    bool there = access(has_end(out, ".gguf") ? out : inside, F_OK) == 0;
    return there && !force ? error_set(e, ERR_ARGUMENT, "%s: is there already (give another name, or --force)", out) : OK;
}

static int convert(const char *in, const char *out, convert_options *o) {
    error e = {0};
    session s;
    if (target_check(in, out, o->force, &e) != OK) return tool_fail(&e);
    o->s.model = in;
    write_options w = {.weights = types[o->type], .n_kv_heads = o->n_kv_heads, .name = o->s.random ? "random" : NULL};
    /* Held as the file has them, so that nothing is rounded twice; in fp32 where that is asked for, or means of heads are taken. */
    o->s.weights = o->n_kv_heads > 0 || w.weights == DTYPE_F32 ? 1 : 0;
    if (session_open_model(&s, &o->s, &e) != OK) return tool_fail(&e);
    if (w.n_kv_heads > 0 && w.weights < 0) w.weights = DTYPE_F32;
    status st = write_model(&s, out, &w, o, &e);
    if (st == OK) note_window(out, &s.model->config, &w);
    session_close(&s);
    return st == OK ? report(out, &w, o) : tool_fail(&e);
}

int cmd_convert(int argc, char **argv) {
    convert_options o = {0};
    session_options_init(&o.s);
    const option table[] = {
        {"weights", 0, OPTION_CHOICE, &o.type, "auto|f32|f16|int8", "how weights are stored; auto: as the file has them", 0, 0},
        {"kv-heads", 0, OPTION_INT, &o.n_kv_heads, "N", "merge K/V heads by averaging, down to N", 1, 1 << 20},
        {"layout", 0, OPTION_TEXT, &o.s.layout, "FILE", "how the tensors are to be read", 0, 0},
        {"config", 0, OPTION_TEXT, &o.s.config, "FILE", "JSON with what the file does not say", 0, 0},
        {"heads", 0, OPTION_INT, &o.s.n_heads, "N", "query heads, where the file does not say", 1, 1 << 20},
        {"tokenizer", 0, OPTION_TEXT, &o.s.tokenizer, "FILE", "the tokenizer, where it is not the model's own", 0, 0},
        {"random", 0, OPTION_FLAG, &o.s.random, NULL, "no IN: a model of random weights, with --shape or --preset", 0, 0},
        {"shape", 0, OPTION_TEXT, &o.s.shape, "FILE", "its shape, as JSON", 0, 0},
        {"preset", 0, OPTION_TEXT, &o.s.preset, "NAME", "a published shape", 0, 0},
        {"seed", 's', OPTION_COUNT, &o.s.seed, "N", "seed of the random weights (0)", 0, 9e15},
        {"threads", 't', OPTION_INT, &o.s.n_threads, "N", "threads", 1, 1024},
        {"force", 0, OPTION_FLAG, &o.force, NULL, "replace OUT where it is there already (never IN)", 0, 0},
        OPTION_JSON(&o.json),
    };
    const command help = {"convert",
                          "IN OUT [options]\n       tally convert --random --shape FILE OUT [options]",
                          "Writes a checkpoint of any kind as GGUF (OUT ends in .gguf) or as a folder with config.json and "
                          "model.safetensors (any other OUT). "
                          "GGUF files of the families that llama.cpp knows load there, tokenizer included; other models are "
                          "written in a form of Tally's "
                          "own. The file is written beside its place and renamed when it is whole.",
                          "tally convert models/level21.pt level21.gguf --weights int8",
                          table,
                          sizeof table / sizeof *table};
    arguments args = {0};
    int rc = options_parse(&help, argc, argv, &args);
    if (rc >= 0) return rc;
    int n_in = o.s.random ? 0 : 1;
    if (o.s.preset != NULL && o.s.shape != NULL) return tool_usage("either --preset or --shape, not both");
    if (args.n != n_in + 1) return tool_usage("convert: give the checkpoint and the file to write (tally convert --help)");
    return convert(n_in ? args.items[0] : NULL, args.items[n_in], &o);
}
