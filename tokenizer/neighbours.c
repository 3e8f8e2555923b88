/* neighbours.c - where a text may be cut before BPE without any effect on the ids.
 *
 * A joined piece is in the vocabulary. So two characters that stand next to each other in no piece never come together, and the
 * text falls apart between them into parts that can be joined each by itself: short ones, where the whole would be one long
 * list (SentencePiece has no words). The set of neighbours is a bit map by hash; a false yes costs time only. */
#include "tokenizer/internal.h"

#include <stdlib.h>

#include "tokenizer/utf8.h"

#define N_BITS (1u << 20)

static uint32_t next_code(const char *text, size_t n, size_t *length) {
    uint32_t code;
    int known = utf8_decode(text, n, &code);
    *length = known > 0 ? (size_t)known : 1;
    return known > 0 ? code : 0x110000u + (unsigned char)text[0]; /* a byte by itself */
}

static uint32_t hash(uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 21 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 40) & (N_BITS - 1);
}

/* Byte pieces may be joined across characters that have no piece of their own. */
static bool joins_bytes(const tokenizer *t) {
    for (size_t i = 0; i < t->merges.n_slots; i++) {
        const merge *m = &t->merges.slots[i];
        if (m->left != 0 && t->vocab.kind[m->left - 1] == PIECE_BYTE && t->vocab.kind[m->right - 1] == PIECE_BYTE) return true;
    }
    return false;
}

status tokenizer_find_neighbours(tokenizer *t, error *e) {
    if (joins_bytes(t)) return OK;
    t->neighbours = calloc(N_BITS / 64, sizeof *t->neighbours);
    if (t->neighbours == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    for (size_t id = 0; id < t->vocab.n_ids; id++) {
        size_t n, length;
        const char *piece = vocab_piece(&t->vocab, (int)id, &n);
        uint32_t left = UINT32_MAX;
        for (size_t i = 0; i < n; i += length) {
            uint32_t right = next_code(piece + i, n - i, &length);
            if (i > 0) t->neighbours[hash(left, right) / 64] |= 1ull << hash(left, right) % 64;
            left = right;
        }
    }
    return OK;
}

size_t model_joinable(const tokenizer *t, const char *text, size_t n) {
    if (t->neighbours == NULL) return n;
    size_t length, i = 0;
    uint32_t left = next_code(text, n, &length);
    for (i = length; i < n; i += length) {
        uint32_t right = next_code(text + i, n - i, &length), h = hash(left, right);
        if (!(t->neighbours[h / 64] >> h % 64 & 1)) break;
        left = right;
    }
    return i;
}
