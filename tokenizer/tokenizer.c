#include "tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/utf8.h"

tokenizer *tokenizer_new(const char *source, const char *kind_name, model_kind model) {
    tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    *t = (tokenizer){.kind_name = kind_name, .model = model, .bos = -1, .pad = -1, .unk = -1};
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    t->source = strdup(source != NULL ? source : "tokenizer");
    if (t->source == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

void tokenizer_free(tokenizer *t) {
    if (t == NULL) return;
    vocab_free(&t->vocab);
    added_free(&t->added);
    added_free(&t->added_later);
    steps_free(&t->normalizer);
    steps_free(&t->cutter);
    merges_free(&t->merges);
    free(t->word_prefix);
    free(t->word_suffix);
    free(t->ranks);
    free(t->neighbours);
    trie_free(&t->user_pieces);
    trie_free(&t->unigram.pieces);
    free(t->scores);
    free(t->ends.data);
    free(t->prefix.data);
    free(t->suffix.data);
    free(t->decoder);
    free(t->source);
    free(t);
}

status tokenizer_finish(tokenizer **out, tokenizer *t, status s, error *e) {
    *out = NULL;
    bool joins = t->model == MODEL_BPE || t->model == MODEL_SCORED_BPE;
    if (s == OK && joins && t->word_prefix == NULL && t->word_suffix == NULL) s = tokenizer_find_neighbours(t, e);
    if (s == OK) {
        *out = t;
        return OK;
    }
    error_prefix(e, t->source);
    tokenizer_free(t);
    return s;
}

int tokenizer_n_vocab(const tokenizer *t) {
    return (int)t->vocab.n_ids;
}

bool tokenizer_has(const tokenizer *t, int id) {
    if (id < 0 || (size_t)id >= t->vocab.n_ids) return false;
    return t->vocab.kind[id] != PIECE_NONE && t->vocab.kind[id] != PIECE_UNUSED;
}

int tokenizer_bos(const tokenizer *t) {
    return t->bos;
}

int tokenizer_eos(const tokenizer *t) {
    return t->ends.n > 0 ? t->ends.data[0] : -1;
}

bool tokenizer_is_eos(const tokenizer *t, int id) {
    for (size_t i = 0; i < t->ends.n; i++)
        if (t->ends.data[i] == id) return true;
    return false;
}

bool tokenizer_is_special(const tokenizer *t, int id) {
    if (!tokenizer_has(t, id)) return false;
    return t->vocab.kind[id] == PIECE_SPECIAL || t->vocab.kind[id] == PIECE_UNKNOWN;
}

const char *tokenizer_piece(const tokenizer *t, int id, size_t *n_bytes) {
    *n_bytes = 0;
    return tokenizer_has(t, id) ? vocab_piece(&t->vocab, id, n_bytes) : NULL;
}

int tokenizer_find(const tokenizer *t, const char *piece) {
    return vocab_find(&t->vocab, piece, strlen(piece));
}

const char *tokenizer_kind(const tokenizer *t) {
    return t->kind_name;
}

status tokenizer_add_eos(tokenizer *t, int id, error *e) {
    if (!tokenizer_has(t, id))
        return error_set(e, ERR_MISMATCH, "%s: the end token %d is not in the vocabulary", t->source, id);
    if (tokenizer_is_eos(t, id)) return OK;
    return ids_append(&t->ends, id) ? OK : error_set(e, ERR_MEMORY, "no memory for the end tokens");
}

const char *char_name(const char *text, size_t n, char *out) {
    uint32_t code;
    int length = utf8_decode(text, n, &code);
    if (length == 0) {
        snprintf(out, 32, "byte 0x%02x", (unsigned char)text[0]);
    } else {
        snprintf(out, 32, "'%.*s' (U+%04X)", length, text, (unsigned)code);
    }
    return out;
}
