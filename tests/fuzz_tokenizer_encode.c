/* libFuzzer: any text through tokenizers of every kind; what they promise to give back comes back. The first byte chooses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARK    "\xe2\x96\x81"
#define N_KINDS 8

/* Byte-level BPE by several ways of cutting, with and without a normaliser. */
static tokenizer *byte_level(int kind) {
    static const char *const cuts[] = {
        "(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
        "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
        "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|"
        "\\\\p{N}|"
        "\\\\s+"};
    json_t *root = byte_level_json();
    if (kind == 1 || kind == 2) {
        char part[1024];
        snprintf(part, sizeof part,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":"
                 "\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
                 cuts[kind - 1]);
        json_object_set_new(root, "pre_tokenizer", json_loads(part, 0, NULL));
    }
    if (kind == 3) json_put(root, "normalizer", "{'type':'NFC'}");
    if (kind == 4)
        json_put(root, "normalizer",
                 "{'type':'Sequence','normalizers':[{'type':'NFKD'},{'type':'Lowercase'},{'type':'StripAccents'},"
                 "{'type':'Strip'}]}");
    return json_tokenizer(root);
}

/* Characters with byte fallback, by pairs or by scores. */
static tokenizer *characters(bool scored) {
    static const char *const pieces[] = {MARK, "h",    "e",     "l",          "o",       "a",  "he",
                                         "ll", "hell", "hello", MARK "hello", MARK MARK, "aa", "aaaa"};
    json_t *root = json_object(), *tokens = json_array(), *scores = json_array(), *types = json_array();
    const size_t n = sizeof pieces / sizeof *pieces;
    for (size_t i = 0; i < 3 + 256 + n; i++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)(i - 3));
        const char *special[] = {"<unk>", "<s>", "</s>"};
        json_array_append_new(tokens, json_string(i < 3 ? special[i] : i < 259 ? piece : pieces[i - 259]));
        json_array_append_new(scores, json_real(i < 259 ? 0 : -(double)(i - 259) - 1));
        json_array_append_new(types, json_integer(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1));
    }
    json_object_set_new(root, "tokenizer.ggml.model", json_string(scored ? "llama" : "t5"));
    json_object_set_new(root, "tokenizer.ggml.tokens", tokens);
    json_object_set_new(root, "tokenizer.ggml.scores", scores);
    json_object_set_new(root, "tokenizer.ggml.token_type", types);
    status s = tokenizer_from_gguf(&tokens_out, root, "fuzz.gguf", &tokens_error);
    json_decref(root);
    return tokens_checked(s);
}

static tokenizer *open_kind(int kind) {
    if (kind < 5) return byte_level(kind);
    if (kind < 7) return characters(kind == 5);
    status s = tokenizer_bytes(&tokens_out, &tokens_error);
    return tokens_checked(s);
}

static void check_stream(const tokenizer *t, const int *ids, size_t n_ids, const char *text, size_t n_bytes) {
    token_stream s;
    error e;
    const char *part;
    size_t n, done = 0;
    if (token_stream_init(&s, t, DETOKENIZE_SPECIAL, &e) != OK) abort();
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids && token_stream_push(&s, ids[i], &part, &n, &e) != OK) abort();
        if (i == n_ids) token_stream_flush(&s, &part, &n);
        if (n > n_bytes - done || memcmp(text + done, part, n) != 0) abort();
        done += n;
    }
    if (done != n_bytes) abort();
    token_stream_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tokenizer *kinds[N_KINDS];
    if (size < 1) return 0;
    int kind = data[0] % N_KINDS;
    if (kinds[kind] == NULL) kinds[kind] = open_kind(kind);
    const tokenizer *t = kinds[kind];
    unsigned flags = data[0] / N_KINDS % 4;
    const char *text = (const char *)data + 1;
    int *ids;
    char *back;
    size_t n_ids, n_back, n = size - 1;
    error e;
    if (tokenizer_encode(t, text, n, flags, &ids, &n_ids, &e) != OK) abort();
    if (n_ids > n * 18 + 4) abort();
    if (tokenizer_decode(t, ids, n_ids, DETOKENIZE_SPECIAL, &back, &n_back, &e) != OK) abort();
    /* A normaliser changes the text; special tokens add to it; U+2581 and a space are one for SentencePiece. */
    bool same = kind < 3 || (kind > 4 && flags == 0 && memmem(text, n, MARK, 3) == NULL);
    if (same && (n_back != n || memcmp(back, text, n) != 0)) abort();
    check_stream(t, ids, n_ids, back, n_back);
    free(ids);
    free(back);
    return 0;
}
