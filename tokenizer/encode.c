#include "tokenizer/internal.h"

#include <stdlib.h>

static status unknown(const tokenizer *t, const char *text, size_t n, error *e) {
    char name[32];
    bool one = n <= 4;
    return error_set(e, ERR_ARGUMENT, "%s: %s %s is not in the vocabulary, which has no unknown token (leave it out)",
                     t->source, one ? "the character" : "a word that begins with", char_name(text, n, name));
}

static status encode_word(const tokenizer *t, const char *text, size_t n, id_list *ids, error *e) {
    int id = vocab_find(&t->vocab, text, n);
    if (id >= 0 && t->vocab.kind[id] != PIECE_NORMAL) id = -1;
    if (id < 0) id = t->unk;
    if (id < 0) return unknown(t, text, n, e);
    return ids_append(ids, id) ? OK : error_set(e, ERR_MEMORY, "no memory for %zu ids", ids->n);
}

static status encode_bytes(const char *text, size_t n, id_list *ids, error *e) {
    for (size_t i = 0; i < n; i++)
        if (!ids_append(ids, (unsigned char)text[i])) return error_set(e, ERR_MEMORY, "no memory for %zu ids", n);
    return OK;
}

status model_encode(const tokenizer *t, const char *text, size_t n, id_list *ids, error *e) {
    switch (t->model) {
    case MODEL_BYTES:
        return encode_bytes(text, n, ids, e);
    case MODEL_WORDS:
        return encode_word(t, text, n, ids, e);
    }
    return OK;
}

static status encode_text(const tokenizer *t, const char *text, size_t n, pieces *p, id_list *ids, error *e) {
    if (!pieces_set(p, text, n)) return error_set(e, ERR_MEMORY, "no memory for a text of %zu bytes", n);
    status s = steps_run(&t->cutter, p, e);
    for (size_t i = 0; s == OK && i < p->spans.n; i++) {
        span at = p->spans.data[i];
        s = model_encode(t, p->text.data + at.start, at.end - at.start, ids, e);
    }
    return s;
}

/* The prefix in front of ids and the suffix after them. A text that begins with the prefix's tokens already has them. */
static bool add_special(const tokenizer *t, id_list *ids) {
    size_t n = t->prefix.n, same = 0;
    while (same < n && same < ids->n && ids->data[same] == t->prefix.data[same]) same++;
    if (same < n) {
        if (!array_reserve(&ids->data, &ids->capacity, ids->n, n, sizeof *ids->data)) return false;
        for (size_t i = ids->n; i-- > 0;) ids->data[i + n] = ids->data[i];
        for (size_t i = 0; i < n; i++) ids->data[i] = t->prefix.data[i];
        ids->n += n;
    }
    for (size_t i = 0; i < t->suffix.n; i++)
        if (!ids_append(ids, t->suffix.data[i])) return false;
    return true;
}

status tokenizer_encode(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int **ids, size_t *n_ids,
                        error *e) {
    pieces p = {.at_start = true};
    id_list list = {0};
    *ids = NULL;
    *n_ids = 0;
    status s = encode_text(t, text, n_bytes, &p, &list, e);
    if (s == OK && ((flags & TOKENIZE_ADD_SPECIAL && !add_special(t, &list)) ||
                    !array_reserve(&list.data, &list.capacity, list.n, 1, sizeof *list.data)))
        s = error_set(e, ERR_MEMORY, "no memory for %zu ids", list.n);
    pieces_free(&p);
    if (s != OK) {
        free(list.data);
        return s;
    }
    *ids = list.data;
    *n_ids = list.n;
    return OK;
}
