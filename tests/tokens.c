#include "tests/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_IDS 1024

tokenizer *tokens_out;
error tokens_error;

tokenizer *tokens_checked(status s) {
    if (s != OK) fail_msg("%s", tokens_error.message);
    assert_non_null(tokens_out);
    return tokens_out;
}

void assert_ids_of(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, const int *want, size_t n) {
    int *ids;
    size_t n_ids;
    error e;
    if (tokenizer_encode(t, text, n_bytes, flags, &ids, &n_ids, &e) != OK) fail_msg("\"%s\": %s", text, e.message);
    for (size_t i = 0; i < n && i < n_ids; i++)
        if (ids[i] != want[i]) fail_msg("\"%s\": id %zu is %d, not %d", text, i, ids[i], want[i]);
    if (n_ids != n) fail_msg("\"%s\": %zu ids, not %zu", text, n_ids, n);
    free(ids);
}

static void take_ids(int *ids, int n, va_list args) {
    assert_true(n <= MAX_IDS);
    for (int i = 0; i < n; i++) ids[i] = va_arg(args, int);
}

void assert_ids(const tokenizer *t, const char *text, unsigned flags, int n, ...) {
    int want[MAX_IDS];
    va_list args;
    va_start(args, n);
    take_ids(want, n, args);
    va_end(args);
    assert_ids_of(t, text, strlen(text), flags, want, (size_t)n);
}

void assert_text(const tokenizer *t, unsigned flags, const char *want, int n, ...) {
    int ids[MAX_IDS];
    va_list args;
    va_start(args, n);
    take_ids(ids, n, args);
    va_end(args);
    char *text;
    size_t n_bytes;
    error e;
    if (tokenizer_decode(t, ids, (size_t)n, flags, &text, &n_bytes, &e) != OK) fail_msg("%s", e.message);
    assert_string_equal(text, want);
    assert_int_equal(n_bytes, strlen(want));
    free(text);
}

static void assert_streams_to(const tokenizer *t, const int *ids, size_t n_ids, const char *text, size_t n_bytes) {
    token_stream s;
    error e;
    const char *part;
    size_t n, done = 0;
    assert_int_equal(token_stream_init(&s, t, DETOKENIZE_SPECIAL, &e), OK);
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids) {
            assert_int_equal(token_stream_push(&s, ids[i], &part, &n, &e), OK);
        } else {
            token_stream_flush(&s, &part, &n);
        }
        assert_true(done + n <= n_bytes);
        assert_memory_equal(part, text + done, n);
        done += n;
    }
    assert_int_equal(done, n_bytes);
    token_stream_free(&s);
}

void assert_round_trip(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags) {
    int *ids;
    char *back;
    size_t n_ids, n_back;
    error e;
    if (tokenizer_encode(t, text, n_bytes, flags, &ids, &n_ids, &e) != OK) fail_msg("\"%s\": %s", text, e.message);
    if (tokenizer_decode(t, ids, n_ids, DETOKENIZE_SPECIAL, &back, &n_back, &e) != OK) fail_msg("%s", e.message);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0) fail_msg("\"%s\" came back as \"%s\"", text, back);
    assert_streams_to(t, ids, n_ids, text, n_bytes);
    free(ids);
    free(back);
}

void assert_encode_fails(const tokenizer *t, const char *text, size_t n_bytes, status want, const char *words) {
    int *ids;
    size_t n_ids;
    error e = {0};
    assert_int_equal(tokenizer_encode(t, text, n_bytes, 0, &ids, &n_ids, &e), want);
    assert_null(ids);
    if (strstr(e.message, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, words);
}

/* ---- tokenizers of the tests' own ---- */

static const char *const merges[20] = {"h e", "l l",   "he ll", "hell o", "Ġ w", "o r", "l d", "Ġw or", "Ġwor ld", "Ġ Ġ",
                                       "a a", "aa aa", "d o",   "do n",   "' t", "Ċ Ċ", "æ Ń", "Ġ h",   "ð Ł",     "ĺ Ģ"};
static const char *const specials[4] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>"};

/* The character that byte-level BPE writes a byte as: printable Latin-1 stays, the rest is counted from U+0100 on. */
static void write_byte(int byte, char out[3]) {
    int code = 256;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (b == byte && printable) code = b;
        if (b == byte) break;
        if (!printable) code++;
    }
    int at = 0;
    if (code >= 0x80) out[at++] = (char)(0xC0 | code >> 6);
    out[at++] = (char)(code >= 0x80 ? 0x80 | (code & 0x3F) : code);
    out[at] = '\0';
}

static json_t *byte_level_vocab(void) {
    json_t *vocab = json_object();
    char text[64];
    for (int b = 0; b < 256; b++) {
        write_byte(b, text);
        json_object_set_new(vocab, text, json_integer(b));
    }
    for (int i = 0; i < 20; i++) {
        const char *space = strchr(merges[i], ' ');
        snprintf(text, sizeof text, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        json_object_set_new(vocab, text, json_integer(256 + i));
    }
    return vocab;
}

json_t *json_quoted(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++)
        if (*c == '\'') *c = '"';
    json_error_t why;
    json_t *j = json_loads(copy, JSON_DECODE_ANY, &why);
    if (j == NULL) fail_msg("%s: %s", why.text, text);
    free(copy);
    return j;
}

void json_put(json_t *root, const char *key, const char *text) {
    json_object_set_new(root, key, json_quoted(text));
}

json_t *byte_level_json(void) {
    json_t *root = json_object(), *model = json_object(), *list = json_array(), *added = json_array();
    for (int i = 0; i < 20; i++) json_array_append_new(list, json_string(merges[i]));
    for (int i = 0; i < 4; i++)
        json_array_append_new(
            added, json_pack("{s:i, s:s, s:b, s:b}", "id", 276 + i, "content", specials[i], "special", 1, "normalized", 0));
    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "vocab", byte_level_vocab());
    json_object_set_new(model, "merges", list);
    json_object_set_new(root, "model", model);
    json_object_set_new(root, "added_tokens", added);
    json_put(root, "pre_tokenizer", "{'type':'ByteLevel','add_prefix_space':false,'use_regex':true}");
    json_put(root, "decoder", "{'type':'ByteLevel'}");
    return root;
}

static status read_json(json_t *root, error *e) {
    char *text = json_dumps(root, 0);
    assert_non_null(text);
    status s = tokenizer_from_json(&tokens_out, text, strlen(text), "test.json", e);
    free(text);
    json_decref(root);
    return s;
}

tokenizer *json_tokenizer(json_t *root) {
    return tokens_checked(read_json(root, &tokens_error));
}

void assert_json_refused(json_t *root, status want, const char *words) {
    error e = {0};
    status s = read_json(root, &e);
    if (s != want) fail_msg("%s: status %d, not %d (%s)", words, s, want, e.message);
    assert_null(tokens_out);
    assert_non_null(strstr(e.message, "test.json: "));
    if (strstr(e.message, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, words);
}

static char folder[64];

char *tokens_file(const char *name, const void *bytes, size_t n) {
    char path[512];
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/tally-tokens-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    char *copy = strdup(path);
    assert_non_null(copy);
    return copy;
}

void tokens_clean(void) {
    char command[128];
    if (folder[0] == '\0') return;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
    folder[0] = '\0';
}
