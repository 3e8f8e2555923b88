/* json_file.c - tokenizer.json of Hugging Face: the model and its vocabulary, and the added tokens. */
#include "tokenizer/files.h"
#include "tokenizer/json_steps.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

static status add_pieces(tokenizer *t, json_t *list, error *e) {
    const char *piece;
    json_t *id;
    if (!json_is_object(list)) return error_set(e, ERR_FORMAT, "the model's vocab is not an object");
    json_object_foreach(list, piece, id) {
        if (!json_is_integer(id)) return error_set(e, ERR_FORMAT, "the token \"%.100s\" has no id", piece);
        status s = vocab_add(&t->vocab, json_integer_value(id), piece, strlen(piece), PIECE_NORMAL, e);
        if (s != OK) return s;
    }
    return OK;
}

/* "left right", or ["left", "right"]. */
static status add_merge(tokenizer *t, json_t *j, size_t rank, error *e) {
    json_t *left = json_array_get(j, 0), *right = json_array_get(j, 1);
    if (json_is_string(left) && json_is_string(right) && json_array_size(j) == 2)
        return tokenizer_add_merge(t, json_string_value(left), json_string_length(left), json_string_value(right),
                                   json_string_length(right), (uint32_t)rank, e);
    const char *text = json_string_value(j);
    size_t n = json_string_length(j);
    const char *space = n > 0 ? memchr(text, ' ', n) : NULL;
    if (space == NULL || space == text || memchr(space + 1, ' ', (size_t)(text + n - space - 1)) != NULL)
        return error_set(e, ERR_FORMAT, "merge %zu is not a pair of tokens", rank);
    return tokenizer_add_merge(t, text, (size_t)(space - text), space + 1, (size_t)(text + n - space - 1), (uint32_t)rank, e);
}

static status set_affixes(tokenizer *t, json_t *model, error *e) {
    const char *prefix = json_text(model, "continuing_subword_prefix", ""),
               *suffix = json_text(model, "end_of_word_suffix", "");
    if (strlen(prefix) > 64 || strlen(suffix) > 64)
        return error_set(e, ERR_LIMIT, "continuing_subword_prefix or end_of_word_suffix has more than 64 bytes");
    if (prefix[0] != '\0') t->word_prefix = strdup(prefix);
    if (suffix[0] != '\0') t->word_suffix = strdup(suffix);
    bool room = (prefix[0] == '\0' || t->word_prefix != NULL) && (suffix[0] == '\0' || t->word_suffix != NULL);
    return room ? OK : error_set(e, ERR_MEMORY, "no memory for a tokenizer");
}

static status set_unknown(tokenizer *t, json_t *model, error *e) {
    const char *name = json_text(model, "unk_token", NULL);
    if (name == NULL) return OK;
    t->unk = vocab_find(&t->vocab, name, strlen(name));
    if (t->unk < 0) return error_set(e, ERR_FORMAT, "the unk_token \"%.100s\" is not in the vocabulary", name);
    t->vocab.kind[t->unk] = PIECE_UNKNOWN;
    return OK;
}

static status set_bpe(tokenizer *t, json_t *model, error *e) {
    json_t *merges = json_object_get(model, "merges");
    double dropout = json_number_value(json_object_get(model, "dropout"));
    bool all_bytes;
    if (dropout != 0) return error_set(e, ERR_UNSUPPORTED, "the model's dropout %g (ids by chance) is not supported", dropout);
    if (!json_is_array(merges)) return error_set(e, ERR_FORMAT, "the model's merges are not an array");
    status s = set_affixes(t, model, e);
    if (s == OK) s = set_unknown(t, model, e);
    t->fuse_unknown = json_flag(model, "fuse_unk", false);
    t->ignore_merges = json_flag(model, "ignore_merges", false);
    t->byte_fallback = json_flag(model, "byte_fallback", false);
    if (t->byte_fallback) tokenizer_find_bytes(t, &all_bytes);
    for (size_t i = 0; s == OK && i < json_array_size(merges); i++) s = add_merge(t, json_array_get(merges, i), i, e);
    return s;
}

/* [["piece", score], ...]: the place is the id. */
static status add_scored(tokenizer *t, json_t *list, double *scores, error *e) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *piece = json_array_get(json_array_get(list, i), 0), *score = json_array_get(json_array_get(list, i), 1);
        if (!json_is_string(piece) || !json_is_number(score))
            return error_set(e, ERR_FORMAT, "entry %zu of the model's vocab is not a piece and a score", i);
        scores[i] = json_number_value(score);
        status s = vocab_add(&t->vocab, (int64_t)i, json_string_value(piece), json_string_length(piece), PIECE_NORMAL, e);
        if (s != OK) return s;
    }
    return OK;
}

/* The trie of pieces is made by end_unigram, when it is known which of them are special. */
static status begin_unigram(tokenizer *t, json_t *model, error *e) {
    json_t *list = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    if (!json_is_array(list)) return error_set(e, ERR_FORMAT, "the model's vocab is not an array");
    t->scores = calloc(json_array_size(list) + 1, sizeof *t->scores);
    if (t->scores == NULL) return error_set(e, ERR_MEMORY, "no memory for %zu scores", json_array_size(list));
    status s = add_scored(t, list, t->scores, e);
    t->fuse_unknown = true;
    t->byte_fallback = json_flag(model, "byte_fallback", false);
    if (s != OK || !json_is_integer(unk)) return s;
    json_int_t id = json_integer_value(unk);
    if (id < 0 || (size_t)id >= t->vocab.n_ids)
        return error_set(e, ERR_FORMAT, "the unk_id %lld is not in the vocabulary", (long long)id);
    t->unk = (int)id;
    t->vocab.kind[id] = PIECE_UNKNOWN;
    return OK;
}

static status end_unigram(tokenizer *t, size_t n_scores, error *e) {
    bool all_bytes;
    if (t->vocab.n_ids > n_scores) { /* added tokens have no score; they are never the model's own */
        double *more = realloc(t->scores, t->vocab.n_ids * sizeof *more);
        if (more == NULL) return error_set(e, ERR_MEMORY, "no memory for %zu scores", t->vocab.n_ids);
        t->scores = more;
        for (size_t i = n_scores; i < t->vocab.n_ids; i++) more[i] = 0;
    }
    if (t->byte_fallback) tokenizer_find_bytes(t, &all_bytes);
    return tokenizer_set_unigram(t, t->scores, false, e);
}

/* Files of before the model's type was written: what it holds tells. */
static const char *model_type(json_t *model) {
    const char *type = json_text(model, "type", NULL);
    if (type != NULL) return type;
    if (json_object_get(model, "merges") != NULL) return "BPE";
    return json_is_array(json_object_get(model, "vocab")) ? "Unigram" : "WordLevel";
}

static status set_model(tokenizer *t, json_t *model, error *e) {
    const char *type = model_type(model);
    status s = OK;
    if (strcmp(type, "Unigram") == 0) {
        t->model = MODEL_UNIGRAM;
        t->kind_name = "unigram";
        return begin_unigram(t, model, e);
    }
    if (strcmp(type, "BPE") != 0 && strcmp(type, "WordLevel") != 0)
        return error_set(e, ERR_UNSUPPORTED, "the model \"%.100s\" is not supported: Tally has BPE, Unigram and WordLevel",
                         type);
    s = add_pieces(t, json_object_get(model, "vocab"), e);
    if (s != OK) return s;
    if (strcmp(type, "BPE") == 0) return set_bpe(t, model, e);
    t->model = MODEL_WORDS;
    t->kind_name = "words";
    return set_unknown(t, model, e);
}

/* ---- added tokens ---- */

/* What is looked for in normalised text is the token's content, normalised. */
static status add_normalized(tokenizer *t, added_token token, error *e) {
    size_t n;
    const char *content = vocab_piece(&t->vocab, token.id, &n);
    pieces p;
    status s = pieces_init(&p, n) && pieces_set(&p, content, n) ? OK : error_set(e, ERR_MEMORY, "no memory for a token");
    p.at_start = true;
    if (s == OK) s = steps_run(&t->normalizer, &p, e);
    if (s == OK) s = tokenizer_add_added(t, token, p.text.data, p.spans.n > 0 ? p.text.n : 0, true, e);
    pieces_free(&p);
    return s;
}

static status add_token(tokenizer *t, json_t *j, error *e) {
    json_t *id = json_object_get(j, "id"), *content = json_object_get(j, "content");
    if (!json_is_integer(id) || !json_is_string(content))
        return error_set(e, ERR_FORMAT, "an added token has no id or content");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    int known = vocab_find(&t->vocab, text, n);
    if (known >= 0 && known != json_integer_value(id))
        return error_set(e, ERR_FORMAT, "the added token \"%.100s\" has the id %lld, but in the vocabulary %d", text,
                         (long long)json_integer_value(id), known);
    status s = known < 0 ? vocab_add(&t->vocab, json_integer_value(id), text, n, PIECE_NORMAL, e) : OK;
    if (s != OK) return s;
    added_token token = {.id = (int)json_integer_value(id),
                         .special = json_flag(j, "special", false),
                         .single_word = json_flag(j, "single_word", false),
                         .strip_left = json_flag(j, "lstrip", false),
                         .strip_right = json_flag(j, "rstrip", false)};
    bool later = json_flag(j, "normalized", !token.special) && t->normalizer.n > 0;
    return later ? add_normalized(t, token, e) : tokenizer_add_added(t, token, NULL, 0, false, e);
}

static status add_tokens(tokenizer *t, json_t *list, error *e) {
    status s = OK;
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return error_set(e, ERR_FORMAT, "added_tokens is not an array");
    for (size_t i = 0; s == OK && i < json_array_size(list); i++) s = add_token(t, json_array_get(list, i), e);
    return s;
}

/* ---- the file ---- */

static bool has_step(const step_list *l, step_kind kind) {
    for (size_t i = 0; i < l->n; i++)
        if (l->data[i].kind == kind) return true;
    return false;
}

static status fill(tokenizer *t, json_t *root, error *e) {
    json_t *model = json_object_get(root, "model");
    if (!json_is_object(model)) return error_set(e, ERR_FORMAT, "has no model: is it a tokenizer.json?");
    status s = set_model(t, model, e);
    size_t n_model = t->vocab.n_ids;
    if (s == OK) s = json_normalizer(t, json_object_get(root, "normalizer"), e);
    if (s == OK) s = json_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), e);
    if (s == OK) s = add_tokens(t, json_object_get(root, "added_tokens"), e);
    if (s == OK && t->model == MODEL_UNIGRAM) s = end_unigram(t, n_model, e);
    if (s == OK) s = json_post_processor(t, json_object_get(root, "post_processor"), e);
    if (s == OK) s = json_decoder(t, json_object_get(root, "decoder"), e);
    if (t->model == MODEL_BPE) {
        bool bytes = has_step(&t->cutter, STEP_BYTE_CHARS) || has_step(&t->normalizer, STEP_BYTE_CHARS);
        t->kind_name = bytes ? "byte-level BPE" : "BPE";
    }
    if (s == OK && t->prefix.n == 1) t->bos = t->prefix.data[0];
    return s;
}

status tokenizer_from_json_object(tokenizer **out, json_t *root, const char *source, error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new(source, "BPE", MODEL_BPE);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    status s = fill(t, root, e);
    if (s == OK) s = tokenizer_guess_ends(t, e);
    return tokenizer_finish(out, t, s, e);
}

status tokenizer_from_json(tokenizer **out, const char *text, size_t n, const char *source, error *e) {
    json_t *root;
    *out = NULL;
    status s = json_parse(text, n, 0, &root, e);
    if (s != OK) return error_prefix(e, source);
    s = tokenizer_from_json_object(out, root, source, e);
    json_decref(root);
    return s;
}
