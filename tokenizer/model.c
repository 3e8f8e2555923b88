/* model.c - from one span of text to ids, by each kind of model. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/utf8.h"

static status no_memory(error *e) {
    return error_set(e, ERR_MEMORY, "no memory for the ids of a text");
}

void model_work_free(model_work *w) {
    bpe_work_free(&w->bpe);
    free(w->nodes);
    free(w->path.data);
    *w = (model_work){0};
}

static status give(id_list *ids, int id, error *e) {
    return ids_append(ids, id) ? OK : no_memory(e);
}

/* The id of text as the model makes it: never a control token that happens to be written there. */
static int find_piece(const tokenizer *t, const char *text, size_t n) {
    int id = vocab_find(&t->vocab, text, n);
    if (id < 0) return -1;
    piece_kind kind = t->vocab.kind[id];
    return kind == PIECE_NORMAL || kind == PIECE_USER ? id : -1;
}

static status not_there(const tokenizer *t, const char *text, size_t n, error *e) {
    char name[32];
    bool one = utf8_step(text, n) == n;
    return error_set(e, ERR_ARGUMENT, "%s: %s %s is not in the vocabulary, which has no unknown token (leave it out)",
                     t->source, one ? "the character" : "a word that begins with", char_name(text, n, name));
}

/* Has every byte of text a piece? */
static bool has_bytes(const tokenizer *t, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (t->byte_id[(unsigned char)text[i]] < 0) return false;
    return t->byte_fallback;
}

/* The ids of a character that is not in the vocabulary. *after_unknown: was the one before it unknown, too? */
static status give_fallback(const tokenizer *t, const char *text, size_t n, bool *after_unknown, id_list *ids, error *e) {
    if (has_bytes(t, text, n)) {
        for (size_t i = 0; i < n; i++)
            if (!ids_append(ids, t->byte_id[(unsigned char)text[i]])) return no_memory(e);
        return OK;
    }
    if (t->unk < 0) return not_there(t, text, n, e);
    bool fused = *after_unknown && t->fuse_unknown;
    *after_unknown = true;
    return fused ? OK : give(ids, t->unk, e);
}

/* ---- words and bytes ---- */

static status encode_word(const tokenizer *t, const char *text, size_t n, id_list *ids, error *e) {
    int id = find_piece(t, text, n);
    if (id < 0) id = t->unk;
    return id < 0 ? not_there(t, text, n, e) : give(ids, id, e);
}

static status encode_bytes(const char *text, size_t n, id_list *ids, error *e) {
    for (size_t i = 0; i < n; i++)
        if (!ids_append(ids, (unsigned char)text[i])) return no_memory(e);
    return OK;
}

/* ---- BPE by pairs ---- */

/* The id of one character of a word, written with what marks its place in the word. */
static int char_piece(const tokenizer *t, const char *text, size_t n, bool begins, bool ends) {
    if (t->word_prefix == NULL && t->word_suffix == NULL) return find_piece(t, text, n);
    char piece[160];
    size_t at = 0;
    if (!begins && t->word_prefix != NULL) at = strlen(strcpy(piece, t->word_prefix));
    memcpy(piece + at, text, n);
    at += n;
    if (ends && t->word_suffix != NULL) at += strlen(strcpy(piece + at, t->word_suffix));
    return find_piece(t, piece, at);
}

#define SYMBOL_UNKNOWN (-1)

static status add_symbols(const tokenizer *t, bpe_work *w, const char *text, size_t n, error *e) {
    bool room = true;
    w->n_symbols = 0;
    for (size_t i = 0, length; room && i < n; i += length) {
        length = utf8_step(text + i, n - i);
        int id = char_piece(t, text + i, length, i == 0, i + length == n);
        if (id >= 0 || !has_bytes(t, text + i, length)) {
            if (id < 0 && t->unk < 0) return not_there(t, text + i, length, e);
            room = bpe_add_symbol(w, i, length, id >= 0 ? id : SYMBOL_UNKNOWN, id < 0);
            continue;
        }
        for (size_t j = 0; room && j < length; j++)
            room = bpe_add_symbol(w, i + j, 1, t->byte_id[(unsigned char)text[i + j]], false);
    }
    return room ? OK : no_memory(e);
}

static bool ranked_pair(const void *context, const symbol *left, const symbol *right, uint32_t *rank, int *id) {
    const tokenizer *t = context;
    const merge *m = merges_find(&t->merges, left->id, right->id);
    if (m == NULL) return false;
    *rank = m->rank;
    *id = (int)m->id;
    return true;
}

/* What is joined by itself. *after_unknown: was the character before it unknown, too? */
static status encode_bpe_part(const tokenizer *t, bpe_work *w, const char *text, size_t n, bool *after_unknown, id_list *ids,
                              error *e) {
    status s = add_symbols(t, w, text, n, e);
    if (s != OK) return s;
    if (!bpe_join(w, ranked_pair, t)) return no_memory(e);
    for (int32_t i = 0; i >= 0 && s == OK; i = w->symbols[i].next) {
        bool unknown = w->symbols[i].id == SYMBOL_UNKNOWN, fused = unknown && *after_unknown && t->fuse_unknown;
        if (!fused) s = give(ids, unknown ? t->unk : w->symbols[i].id, e);
        *after_unknown = unknown;
    }
    return s;
}

static status encode_bpe(const tokenizer *t, bpe_work *w, const char *text, size_t n, id_list *ids, error *e) {
    bool after_unknown = false;
    int whole = t->ignore_merges ? find_piece(t, text, n) : -1;
    if (whole >= 0) return give(ids, whole, e);
    status s = OK;
    for (size_t i = 0, part; s == OK && i < n; i += part) {
        part = model_joinable(t, text + i, n - i);
        s = encode_bpe_part(t, w, text + i, part, &after_unknown, ids, e);
    }
    return s;
}

/* ---- BPE by scores ---- */

typedef struct {
    const tokenizer *t;
    const char *text;
} scored_context;

static bool scored_pair(const void *context, const symbol *left, const symbol *right, uint32_t *rank, int *id) {
    const scored_context *c = context;
    *id = find_piece(c->t, c->text + left->start, (size_t)left->length + right->length);
    if (*id < 0) return false;
    *rank = c->t->ranks[*id];
    return true;
}

/* Bytes of the longest user-defined piece that text begins with; 0: none. */
static size_t user_piece(const tokenizer *t, const char *text, size_t n, int *id) {
    size_t found = 0;
    uint32_t node = 0;
    if (!t->user_pieces.first[(unsigned char)text[0]]) return 0;
    for (size_t i = 0; i < n && (node = trie_step(&t->user_pieces, node, (unsigned char)text[i])) != 0; i++) {
        if (t->user_pieces.value[node] < 0) continue;
        found = i + 1;
        *id = t->user_pieces.value[node];
    }
    return found;
}

static status encode_scored_part(const tokenizer *t, bpe_work *w, const char *text, size_t n, bool *after_unknown, id_list *ids,
                                 error *e) {
    w->n_symbols = 0;
    for (size_t i = 0, length; i < n; i += length) {
        int id = -1;
        length = user_piece(t, text + i, n - i, &id);
        bool frozen = length > 0;
        if (!frozen) {
            length = utf8_step(text + i, n - i);
            id = find_piece(t, text + i, length);
        }
        if (!bpe_add_symbol(w, i, length, id, frozen)) return no_memory(e);
    }
    scored_context c = {t, text};
    if (!bpe_join(w, scored_pair, &c)) return no_memory(e);
    status s = OK;
    for (int32_t i = 0; i >= 0 && s == OK; i = w->symbols[i].next) {
        const symbol *at = &w->symbols[i];
        if (at->id < 0) {
            s = give_fallback(t, text + at->start, at->length, after_unknown, ids, e);
        } else {
            s = give(ids, at->id, e);
            *after_unknown = false;
        }
    }
    return s;
}

static status encode_scored(const tokenizer *t, bpe_work *w, const char *text, size_t n, id_list *ids, error *e) {
    bool after_unknown = false;
    status s = OK;
    for (size_t i = 0, part; s == OK && i < n; i += part) {
        part = model_joinable(t, text + i, n - i);
        s = encode_scored_part(t, w, text + i, part, &after_unknown, ids, e);
    }
    return s;
}

/* ---- unigram ---- */

static status encode_unigram(const tokenizer *t, model_work *w, const char *text, size_t n, id_list *ids, error *e) {
    if (!array_reserve(&w->nodes, &w->node_capacity, 0, n + 1, sizeof *w->nodes)) return no_memory(e);
    unigram_search(&t->unigram, text, n, w->nodes);
    w->path.n = 0; /* the ends of the path's pieces, last first */
    for (size_t at = n; at > 0; at = w->nodes[at].start)
        if (!ids_append(&w->path, (int)at)) return no_memory(e);
    status s = OK;
    bool after_unknown = false;
    for (size_t i = w->path.n; i-- > 0 && s == OK;) {
        const unigram_node *node = &w->nodes[w->path.data[i]];
        if (node->id < 0) {
            s = give_fallback(t, text + node->start, (size_t)w->path.data[i] - node->start, &after_unknown, ids, e);
        } else {
            s = give(ids, node->id, e);
            after_unknown = false;
        }
    }
    return s;
}

status model_encode(const tokenizer *t, model_work *w, const char *text, size_t n, id_list *ids, error *e) {
    switch (t->model) {
    case MODEL_BYTES:
        return encode_bytes(text, n, ids, e);
    case MODEL_WORDS:
        return encode_word(t, text, n, ids, e);
    case MODEL_BPE:
        return encode_bpe(t, &w->bpe, text, n, ids, e);
    case MODEL_SCORED_BPE:
        return encode_scored(t, &w->bpe, text, n, ids, e);
    case MODEL_UNIGRAM:
        return encode_unigram(t, w, text, n, ids, e);
    }
    return OK;
}
