#include "tools/convert_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/session.h"

/* GGUF's kinds of tokens. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

/* A GGUF's own keys go on as they are. */
static json_t *copied_keys(json_t *meta) {
    json_t *out = json_object(), *value;
    const char *key;
    json_object_foreach(meta, key, value) {
        if (strncmp(key, "tokenizer.", 10) == 0 || strcmp(key, "tally.vocabulary") == 0) json_object_set(out, key, value);
    }
    return out;
}

static bool is_byte_piece(const char *piece, size_t n) {
    return n == 6 && memcmp(piece, "<0x", 3) == 0 && piece[5] == '>';
}

/* Added tokens of a tokenizer.json that are text, not control: [n_vocab] set to TYPE_USER. */
static void mark_user_tokens(json_t *types, const json_t *file) {
    const json_t *added = json_object_get(file, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        json_int_t id = json_integer_value(json_object_get(token, "id"));
        if (json_is_false(json_object_get(token, "special")) && id >= 0 && (size_t)id < json_array_size(types))
            json_array_set_new(types, (size_t)id, json_integer(TYPE_USER));
    }
}

/* tokens and token_type, by id, as many as the model has rows. spaces: the pieces have ' ' where SentencePiece has its own mark. */
static void add_tokens(json_t *keys, const tokenizer *t, int n_vocab, bool spaces, const json_t *file) {
    json_t *tokens = json_array(), *types = json_array();
    for (int id = 0; id < n_vocab; id++) {
        size_t n = 0;
        const char *piece = id < tokenizer_n_vocab(t) ? tokenizer_piece(t, id, &n) : NULL;
        char text[4096];
        size_t at = 0;
        int type = TYPE_NORMAL;
        if (piece == NULL) at = (size_t)snprintf(text, sizeof text, "[PAD%d]", id), type = TYPE_UNUSED;
        for (size_t i = 0; i < n && at + 4 < sizeof text; i++) {
            if (spaces && piece[i] == ' ')
                memcpy(text + at, "\xE2\x96\x81", 3), at += 3;
            else
                text[at++] = piece[i];
        }
        if (piece != NULL && is_byte_piece(piece, n))
            type = TYPE_BYTE;
        else if (piece != NULL && tokenizer_is_special(t, id))
            type = TYPE_CONTROL;
        if (piece != NULL && (strcmp(piece, "<unk>") == 0)) type = TYPE_UNKNOWN;
        json_array_append_new(tokens, json_stringn_nocheck(text, at));
        json_array_append_new(types, json_integer(type));
    }
    mark_user_tokens(types, file);
    json_object_set_new(keys, "tokenizer.ggml.tokens", tokens);
    json_object_set_new(keys, "tokenizer.ggml.token_type", types);
}

static void add_ids(json_t *keys, const tokenizer *t) {
    int bos = tokenizer_bos(t), eos = tokenizer_eos(t), *ids;
    size_t n;
    if (bos >= 0) json_object_set_new(keys, "tokenizer.ggml.bos_token_id", json_integer(bos));
    if (eos >= 0) json_object_set_new(keys, "tokenizer.ggml.eos_token_id", json_integer(eos));
    if (tokenizer_encode(t, "a", 1, TOKENIZE_ADD_SPECIAL, &ids, &n, NULL) != OK) return;
    json_object_set_new(keys, "tokenizer.ggml.add_bos_token", json_boolean(n > 0 && ids[0] == bos));
    json_object_set_new(keys, "tokenizer.ggml.add_eos_token", json_boolean(n > 0 && ids[n - 1] == eos && eos >= 0));
    free(ids);
}

/* Texts on which ways of cutting differ: digits, contractions, runs of spaces and newlines, scripts, marks. */
static const char *const probes[] = {
    "Hello, world! I'll say it: DON'T 'tis 1234567 3.14159",
    "  two  spaces\tand\ttabs\n\n\nnewlines \n x",
    "naïve café 株式会社 😀👍 Привет",
    "x=1;y+=22;//a_b-c {}[]<>~^|$%& 'S 'RE 12,345.678 a1b2",
    "Once upon a time, there was a little girl named Lily.",
};

static bool same_ids(const tokenizer *a, const tokenizer *b) {
    bool same = true;
    for (size_t i = 0; i < sizeof probes / sizeof *probes && same; i++) {
        int *x = NULL, *y = NULL;
        size_t n = 0, m = 0;
        status s = tokenizer_encode(a, probes[i], strlen(probes[i]), TOKENIZE_ADD_SPECIAL, &x, &n, NULL);
        status u = tokenizer_encode(b, probes[i], strlen(probes[i]), TOKENIZE_ADD_SPECIAL, &y, &m, NULL);
        same = s == u && (s != OK || (n == m && memcmp(x, y, n * sizeof *x) == 0));
        free(x), free(y);
    }
    return same;
}

static bool reads_back(json_t *keys, const tokenizer *t) {
    tokenizer *again;
    if (tokenizer_from_gguf(&again, keys, "converted", NULL) != OK) return false;
    bool same = same_ids(t, again);
    tokenizer_free(again);
    return same;
}

/* ["a b", ...] from either form of tokenizer.json. */
static json_t *merges_of(const json_t *model_part) {
    const json_t *list = json_object_get(model_part, "merges");
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        if (json_is_string(m))
            json_array_append(out, (json_t *)m);
        else
            json_array_append_new(
                out, json_sprintf("%s %s", json_string_value(json_array_get(m, 0)), json_string_value(json_array_get(m, 1))));
    }
    return out;
}

/* Byte-level BPE: the way of cutting has a name in GGUF; the one that cuts as the tokenizer does is found by trying. */
static bool byte_level_keys(json_t *keys, const tokenizer *t, int n_vocab, const json_t *file) {
    static const char *const cuts[] = {"gpt-2",  "llama-bpe", "qwen2",  "smollm",       "starcoder",      "falcon", "stablelm2",
                                       "tekken", "bloom",     "gpt-4o", "deepseek-llm", "deepseek-coder", "default"};
    json_object_set_new(keys, "tokenizer.ggml.model", json_string("gpt2"));
    add_tokens(keys, t, n_vocab, false, file);
    json_object_set_new(keys, "tokenizer.ggml.merges", merges_of(json_object_get(file, "model")));
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        json_object_set_new(keys, "tokenizer.ggml.pre", json_string(cuts[i]));
        if (reads_back(keys, t)) return true;
    }
    return false;
}

/* SentencePiece BPE written as a tokenizer.json: a piece's score is how early its merge comes. */
static json_t *scores_from_merges(const json_t *merges, const tokenizer *t, int n_vocab) {
    double *score = calloc((size_t)n_vocab, sizeof *score);
    json_t *out = json_array();
    for (size_t i = json_array_size(merges); score != NULL && i-- > 0;) { /* earlier merges write last, and win */
        const char *m = json_string_value(json_array_get(merges, i)), *space = m != NULL ? strchr(m, ' ') : NULL;
        char piece[1024];
        if (space == NULL || strlen(m) >= sizeof piece) continue;
        snprintf(piece, sizeof piece, "%.*s%s", (int)(space - m), m, space + 1);
        int id = tokenizer_find(t, piece);
        if (id >= 0 && id < n_vocab) score[id] = -(double)i - 1;
    }
    for (int id = 0; score != NULL && id < n_vocab; id++) json_array_append_new(out, json_real(score[id]));
    free(score);
    return out;
}

static bool byte_fallback_keys(json_t *keys, const tokenizer *t, int n_vocab, const json_t *file) {
    json_t *merges = merges_of(json_object_get(file, "model"));
    json_object_set_new(keys, "tokenizer.ggml.model", json_string("llama"));
    add_tokens(keys, t, n_vocab, false, file);
    json_object_set_new(keys, "tokenizer.ggml.scores", scores_from_merges(merges, t, n_vocab));
    json_decref(merges);
    return reads_back(keys, t);
}

static bool json_file_keys(json_t *keys, const tokenizer *t, int n_vocab, const char *path) {
    json_t *file = json_load_file(path, 0, NULL), *part = json_object_get(file, "model");
    const char *type = json_string_value(json_object_get(part, "type"));
    bool fallback = json_is_true(json_object_get(part, "byte_fallback")), ok = false;
    if (type != NULL && strcmp(type, "BPE") == 0) {
        add_ids(keys, t);
        ok = fallback ? byte_fallback_keys(keys, t, n_vocab, file) : byte_level_keys(keys, t, n_vocab, file);
    }
    json_decref(file);
    return ok;
}

/* llama2.c: the longest piece's length u32, then for each token a score f32, its length i32, its bytes. */
static bool llama2c_keys(json_t *keys, const tokenizer *t, int n_vocab, const char *path) {
    char *bytes = NULL;
    size_t n = 0, at = 4;
    json_t *scores = json_array();
    if (file_read(path, &bytes, &n, NULL) != OK) n = 0;
    for (int id = 0; id < n_vocab; id++) {
        float score = 0;
        int32_t length = 0;
        if (n - at >= 8 && at <= n) {
            memcpy(&score, bytes + at, sizeof score), memcpy(&length, bytes + at + 4, sizeof length);
            at += 8;
            if (length < 0 || (size_t)length > n - at)
                at = n;
            else
                at += (size_t)length;
        }
        json_array_append_new(scores, json_real((double)score));
    }
    free(bytes);
    add_ids(keys, t);
    json_object_set_new(keys, "tokenizer.ggml.model", json_string("llama"));
    add_tokens(keys, t, n_vocab, true, NULL);
    json_object_set_new(keys, "tokenizer.ggml.scores", scores);
    json_object_set_new(keys, "tokenizer.ggml.unknown_token_id", json_integer(0));
    return reads_back(keys, t);
}

/* Characters and words: no form in GGUF; Tally's own key. */
static json_t *own_keys(const tokenizer *t, int n_vocab) {
    json_t *pieces = json_array();
    for (int id = 0; id < n_vocab; id++) {
        size_t n;
        const char *piece = id < tokenizer_n_vocab(t) ? tokenizer_piece(t, id, &n) : NULL;
        json_array_append_new(pieces, json_string(piece != NULL ? piece : ""));
    }
    return json_pack("{s:o}", "tally.vocabulary", pieces);
}

static char *tokenizer_path_of(const checkpoint *c, const char *given) {
    if (given != NULL) return strdup(given);
    char *path = c->kind == CHECKPOINT_LLAMA2C ? NULL : tokenizer_file_in(c->folder);
    if (path != NULL || c->kind != CHECKPOINT_LLAMA2C) return path;
    if (asprintf(&path, "%s/tokenizer.bin", c->folder) < 0) return NULL;
    FILE *f = fopen(path, "rb");
    if (f != NULL) return fclose(f), path;
    free(path);
    return tokenizer_bin_in(c->folder);
}

static bool has_end(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

json_t *gguf_tokenizer_keys(const model *m, const checkpoint *c, const tokenizer *t, const char *tokenizer_path, char *why,
                            size_t why_size) {
    why[0] = '\0';
    if (t == NULL) return NULL;
    if (c->kind == CHECKPOINT_GGUF && tokenizer_path == NULL) return copied_keys(c->meta);
    const char *kind = tokenizer_kind(t);
    if (strstr(kind, "char") != NULL || strstr(kind, "word") != NULL) return own_keys(t, m->config.n_vocab);
    char *path = tokenizer_path_of(c, tokenizer_path);
    json_t *keys = json_object();
    bool ok = false;
    if (path != NULL && has_end(path, ".json"))
        ok = json_file_keys(keys, t, m->config.n_vocab, path);
    else if (path != NULL && has_end(path, ".bin"))
        ok = llama2c_keys(keys, t, m->config.n_vocab, path);
    free(path);
    if (ok) return keys;
    json_decref(keys);
    snprintf(why, why_size, "the tokenizer (%s) is not written: GGUF has no form that cuts text the same way", kind);
    return NULL;
}
