/* gguf_vocab.c - the tokenizer that a GGUF file carries in its metadata, handed over as a JSON object of its keys. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.ggml."

/* GGUF's kinds of tokens. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static const char *text_of(json_t *meta, const char *key) {
    return json_string_value(json_object_get(meta, key));
}

/* An array of that key with n entries at least; NULL and no error: there is none. */
static status array_of(json_t *meta, const char *key, size_t n, json_t **out, error *e) {
    *out = json_object_get(meta, key);
    if (*out == NULL) return OK;
    if (!json_is_array(*out)) return error_set(e, ERR_FORMAT, "%s is not an array", key);
    if (json_array_size(*out) < n)
        return error_set(e, ERR_FORMAT, "%s has %zu entries for %zu tokens", key, json_array_size(*out), n);
    return OK;
}

static status flag_of(json_t *meta, const char *key, bool *value, error *e) {
    json_t *j = json_object_get(meta, key);
    if (j == NULL) return OK;
    if (!json_is_boolean(j)) return error_set(e, ERR_FORMAT, "%s is neither true nor false", key);
    *value = json_is_true(j);
    return OK;
}

/* A token's id; 2^32 - 1 stands for none. */
static status id_of(json_t *meta, const char *key, int *id, error *e) {
    json_t *j = json_object_get(meta, key);
    if (j == NULL) return OK;
    json_int_t value = json_integer_value(j);
    if (!json_is_integer(j) || value < -1 || value > UINT32_MAX) return error_set(e, ERR_FORMAT, "%s is not an id", key);
    if (value > INT32_MAX && value != UINT32_MAX)
        return error_set(e, ERR_FORMAT, "%s is %lld, out of range", key, (long long)value);
    *id = value == UINT32_MAX ? -1 : (int)value;
    return OK;
}

static status kind_of(json_t *types, size_t i, piece_kind *kind, error *e) {
    static const piece_kind kinds[] = {PIECE_NORMAL, PIECE_NORMAL, PIECE_UNKNOWN, PIECE_SPECIAL,
                                       PIECE_USER,   PIECE_UNUSED, PIECE_BYTE};
    json_t *j = types != NULL ? json_array_get(types, i) : NULL;
    json_int_t type = j != NULL ? json_integer_value(j) : TYPE_NORMAL;
    if ((j != NULL && !json_is_integer(j)) || type < 0 || type > TYPE_BYTE)
        return error_set(e, ERR_FORMAT, KEY "token_type has a type of token that does not exist (token %zu)", i);
    *kind = kinds[type];
    return OK;
}

static status add_tokens(tokenizer *t, json_t *meta, error *e) {
    json_t *tokens, *types;
    status s = array_of(meta, KEY "tokens", 0, &tokens, e);
    if (s == OK && tokens == NULL) s = error_set(e, ERR_FORMAT, KEY "tokens is missing");
    if (s == OK) s = array_of(meta, KEY "token_type", json_array_size(tokens), &types, e);
    for (size_t i = 0; s == OK && i < json_array_size(tokens); i++) {
        json_t *j = json_array_get(tokens, i);
        piece_kind kind = PIECE_NORMAL;
        if (!json_is_string(j)) return error_set(e, ERR_FORMAT, KEY "tokens: entry %zu is not text", i);
        s = kind_of(types, i, &kind, e);
        if (s == OK) s = vocab_add(&t->vocab, (int64_t)i, json_string_value(j), json_string_length(j), kind, e);
    }
    return s;
}

/* The special tokens are looked for in the text; user: those that the vocabulary calls user-defined, too. */
static status add_special_tokens(tokenizer *t, bool user, error *e) {
    status s = OK;
    for (size_t i = 0; s == OK && i < t->vocab.n_ids; i++) {
        piece_kind kind = t->vocab.kind[i];
        bool special = kind == PIECE_SPECIAL || kind == PIECE_UNKNOWN;
        if (!special && !(kind == PIECE_USER && user)) continue;
        s = tokenizer_add_added(t, (added_token){.id = (int)i, .special = special}, NULL, 0, false, e);
    }
    return s;
}

static status add_merges(tokenizer *t, json_t *meta, error *e) {
    json_t *merges;
    status s = array_of(meta, KEY "merges", 0, &merges, e);
    if (s == OK && merges == NULL) s = error_set(e, ERR_FORMAT, KEY "merges is missing");
    for (size_t i = 0; s == OK && i < json_array_size(merges); i++) {
        json_t *j = json_array_get(merges, i);
        const char *text = json_string_value(j);
        size_t n = json_string_length(j);
        const char *space = n > 1 ? memchr(text + 1, ' ', n - 1) : NULL;
        if (space == NULL) return error_set(e, ERR_FORMAT, KEY "merges: entry %zu is not a pair of tokens", i);
        s = tokenizer_add_merge(t, text, (size_t)(space - text), space + 1, (size_t)(text + n - space - 1), (uint32_t)i, e);
    }
    return s;
}

/* [n_ids] scores; not a number: refused later. The caller frees them. */
static status scores_of(const tokenizer *t, json_t *meta, float **out, error *e) {
    json_t *scores;
    *out = NULL;
    status s = array_of(meta, KEY "scores", t->vocab.n_ids, &scores, e);
    if (s == OK && scores == NULL) s = error_set(e, ERR_FORMAT, KEY "scores is missing");
    if (s != OK) return s;
    *out = malloc((t->vocab.n_ids + 1) * sizeof **out);
    if (*out == NULL) return error_set(e, ERR_MEMORY, "no memory for %zu scores", t->vocab.n_ids);
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        json_t *j = json_array_get(scores, i);
        if (!json_is_number(j)) {
            free(*out);
            *out = NULL;
            return error_set(e, ERR_FORMAT, KEY "scores: entry %zu is not a number", i);
        }
        (*out)[i] = (float)json_number_value(j);
    }
    return OK;
}

static status set_scores(tokenizer *t, json_t *meta, error *e) {
    float *scores;
    status s = scores_of(t, meta, &scores, e);
    if (s == OK) s = tokenizer_set_scores(t, scores, e);
    free(scores);
    return s;
}

static status set_unigram(tokenizer *t, json_t *meta, error *e) {
    float *scores;
    status s = scores_of(t, meta, &scores, e);
    double *wide = s == OK ? malloc((t->vocab.n_ids + 1) * sizeof *wide) : NULL;
    if (s == OK && wide == NULL) s = error_set(e, ERR_MEMORY, "no memory for %zu scores", t->vocab.n_ids);
    for (size_t i = 0; s == OK && i < t->vocab.n_ids; i++) wide[i] = (double)scores[i];
    free(scores);
    return s == OK ? tokenizer_set_unigram(t, wide, true, e) : s;
}

/* The map of characters, as bytes. */
static status set_map(json_t *meta, char **bytes, size_t *n, error *e) {
    json_t *map;
    status s = array_of(meta, KEY "precompiled_charsmap", 0, &map, e);
    *n = json_array_size(map);
    *bytes = NULL;
    if (s != OK || *n == 0) return s;
    *bytes = malloc(*n);
    if (*bytes == NULL) return error_set(e, ERR_MEMORY, "no memory for a map of %zu bytes", *n);
    for (size_t i = 0; i < *n; i++) (*bytes)[i] = (char)json_integer_value(json_array_get(map, i));
    return OK;
}

static status set_sentencepiece(tokenizer *t, json_t *meta, error *e) {
    sentencepiece_steps steps = {.prefix = true, .escape = true};
    char *map = NULL;
    bool suffix = false, all_bytes;
    status s = flag_of(meta, KEY "add_space_prefix", &steps.prefix, e);
    if (s == OK) s = flag_of(meta, KEY "remove_extra_whitespaces", &steps.squeeze, e);
    if (s == OK) s = flag_of(meta, KEY "escape_whitespaces", &steps.escape, e);
    if (s == OK) s = flag_of(meta, KEY "treat_whitespace_as_suffix", &suffix, e);
    if (s == OK && suffix) s = error_set(e, ERR_UNSUPPORTED, KEY "treat_whitespace_as_suffix is not supported");
    if (s == OK) s = set_map(meta, &map, &steps.n_map, e);
    steps.map = map;
    if (s == OK) s = tokenizer_set_sentencepiece(t, &steps, e);
    free(map);
    tokenizer_find_bytes(t, &all_bytes);
    t->byte_fallback = all_bytes;
    t->fuse_unknown = true;
    if (s == OK) s = add_special_tokens(t, t->model == MODEL_UNIGRAM, e);
    if (s == OK) s = t->model == MODEL_UNIGRAM ? set_unigram(t, meta, e) : set_scores(t, meta, e);
    return s;
}

static status set_bpe(tokenizer *t, json_t *meta, bool *add_bos, error *e) {
    const char *pre = text_of(meta, KEY "pre"), *family = text_of(meta, "general.architecture");
    /* Files of before the key was invented: only GPT-2 itself is certain. */
    if ((pre == NULL || strcmp(pre, "default") == 0) && family != NULL && strcmp(family, "gpt2") == 0) pre = "gpt-2";
    if (pre == NULL)
        return error_set(e, ERR_UNSUPPORTED,
                         KEY "pre is missing: how words are cut is not known (give the tokenizer.json with --tokenizer)");
    status s = tokenizer_set_preset(t, pre, add_bos, e);
    if (s == OK) s = add_special_tokens(t, true, e);
    return s == OK ? add_merges(t, meta, e) : s;
}

static status set_special(tokenizer *t, json_t *meta, bool add_bos, bool add_eos, error *e) {
    bool piece = t->model == MODEL_SCORED_BPE;
    int bos = piece ? 1 : -1, eos = piece ? 2 : -1, unk = piece ? 0 : -1, pad = -1, more[2] = {-1, -1};
    status s = id_of(meta, KEY "bos_token_id", &bos, e);
    if (s == OK) s = id_of(meta, KEY "eos_token_id", &eos, e);
    if (s == OK) s = id_of(meta, KEY "unknown_token_id", &unk, e);
    if (s == OK) s = id_of(meta, KEY "padding_token_id", &pad, e);
    if (s == OK) s = id_of(meta, KEY "eot_token_id", &more[0], e);
    if (s == OK) s = id_of(meta, KEY "eom_token_id", &more[1], e);
    if (s == OK) s = flag_of(meta, KEY "add_bos_token", &add_bos, e);
    if (s == OK) s = flag_of(meta, KEY "add_eos_token", &add_eos, e);
    if (s == OK) s = tokenizer_set_ids(t, bos, eos, unk, pad, e);
    for (int i = 0; s == OK && i < 2; i++)
        if (more[i] >= 0) s = tokenizer_add_eos(t, more[i], e);
    if (s == OK) s = tokenizer_guess_ends(t, e);
    bool room = true;
    if (s == OK && add_bos && bos >= 0) room = ids_append(&t->prefix, bos);
    if (s == OK && add_eos && eos >= 0) room = room && ids_append(&t->suffix, eos);
    return room ? s : error_set(e, ERR_MEMORY, "no memory for the special tokens");
}

static status fill(tokenizer *t, json_t *meta, error *e) {
    bool add_bos = t->model == MODEL_SCORED_BPE, add_eos = t->model == MODEL_UNIGRAM;
    status s = add_tokens(t, meta, e);
    if (s == OK) s = t->model == MODEL_BPE ? set_bpe(t, meta, &add_bos, e) : set_sentencepiece(t, meta, e);
    return s == OK ? set_special(t, meta, add_bos, add_eos, e) : s;
}

status tokenizer_from_gguf(tokenizer **out, json_t *meta, const char *source, error *e) {
    const char *kind = text_of(meta, KEY "model");
    tokenizer *t = NULL;
    *out = NULL;
    if (kind == NULL) return error_set(e, ERR_FORMAT, "%s: " KEY "model is missing: the file has no tokenizer", source);
    if (strcmp(kind, "gpt2") == 0) {
        t = tokenizer_new(source, "byte-level BPE", MODEL_BPE);
    } else if (strcmp(kind, "llama") == 0) {
        t = tokenizer_new(source, "SentencePiece BPE", MODEL_SCORED_BPE);
    } else if (strcmp(kind, "t5") == 0) {
        t = tokenizer_new(source, "unigram", MODEL_UNIGRAM);
    } else {
        return error_set(e, ERR_UNSUPPORTED, "%s: " KEY "model is \"%s\": Tally has gpt2, llama and t5", source, kind);
    }
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(out, t, fill(t, meta, e), e);
}
