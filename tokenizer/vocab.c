#include "tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

uint64_t bytes_hash(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t h = 0x9E3779B97F4A7C15u ^ n, word;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < n; i++) word = word << 8 | p[i];
    h = (h ^ word) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* The slot that holds the piece, or the empty one where it belongs. There is always an empty one. */
static size_t find_slot(const vocab *v, const char *piece, size_t n) {
    size_t mask = v->n_slots - 1, i = bytes_hash(piece, n) & mask;
    while (v->slots[i] != 0) {
        uint32_t id = v->slots[i] - 1;
        if (v->length[id] == n && memcmp(v->text.data + v->start[id], piece, n) == 0) break;
        i = (i + 1) & mask;
    }
    return i;
}

int vocab_find(const vocab *v, const char *piece, size_t n) {
    if (n == 0 || n > v->longest || v->n_slots == 0) return -1;
    return (int)v->slots[find_slot(v, piece, n)] - 1;
}

static bool grow_slots(vocab *v) {
    if (v->n_used * 2 < v->n_slots) return true;
    vocab bigger = *v;
    bigger.n_slots = v->n_slots == 0 ? 256 : v->n_slots * 4;
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (bigger.slots == NULL) return false;
    for (size_t i = 0; i < v->n_slots; i++) {
        if (v->slots[i] == 0) continue;
        size_t n, id = v->slots[i] - 1;
        const char *piece = vocab_piece(v, (int)id, &n);
        bigger.slots[find_slot(&bigger, piece, n)] = v->slots[i];
    }
    free(v->slots);
    *v = bigger;
    return true;
}

/* The three arrays grow together, by the same rule. */
static bool grow_ids(vocab *v, size_t n_ids) {
    if (n_ids <= v->n_ids) return true;
    size_t more = n_ids - v->n_ids, before = v->capacity, capacity = before;
    if (!array_reserve(&v->start, &capacity, v->n_ids, more, sizeof *v->start)) return false;
    capacity = before;
    if (!array_reserve(&v->length, &capacity, v->n_ids, more, sizeof *v->length)) return false;
    capacity = before;
    if (!array_reserve(&v->kind, &capacity, v->n_ids, more, sizeof *v->kind)) return false;
    v->capacity = capacity;
    memset(v->kind + v->n_ids, PIECE_NONE, more);
    memset(v->length + v->n_ids, 0, more * sizeof *v->length);
    memset(v->start + v->n_ids, 0, more * sizeof *v->start);
    v->n_ids = n_ids;
    return true;
}

static status add_to_table(vocab *v, int id, const char *piece, size_t n, piece_kind kind, error *e) {
    if (!grow_slots(v)) return error_set(e, ERR_MEMORY, "no memory for a vocabulary of %zu tokens", v->n_pieces);
    size_t slot = find_slot(v, piece, n);
    if (v->slots[slot] != 0) {
        int other = (int)v->slots[slot] - 1;
        if (kind == PIECE_UNUSED) return OK;
        if (v->kind[other] != PIECE_UNUSED)
            return error_set(e, ERR_FORMAT, "the token \"%.*s\" stands twice in the vocabulary (ids %d and %d)",
                             (int)(n < 100 ? n : 100), piece, other, id);
    } else {
        v->n_used++;
    }
    v->slots[slot] = (uint32_t)id + 1;
    return OK;
}

status vocab_add(vocab *v, int64_t id, const char *piece, size_t n, piece_kind kind, error *e) {
    int shown = (int)(n < 100 ? n : 100);
    if (n > VOCAB_MAX_PIECE) return error_set(e, ERR_LIMIT, "a token of %zu bytes (at most %d)", n, VOCAB_MAX_PIECE);
    if (id < 0 || (uint64_t)id > v->n_pieces + VOCAB_MAX_GAP)
        return error_set(e, ERR_FORMAT, "the token \"%.*s\" has the id %lld, out of range", shown, piece, (long long)id);
    if (!grow_ids(v, (size_t)id + 1)) return error_set(e, ERR_MEMORY, "no memory for %zu ids", (size_t)id + 1);
    if (v->kind[id] != PIECE_NONE)
        return error_set(e, ERR_FORMAT, "the tokens \"%.100s\" and \"%.*s\" have the same id %lld", v->text.data + v->start[id],
                         shown, piece, (long long)id);
    size_t start = v->text.n;
    if (!buffer_append(&v->text, piece, n) || !buffer_append(&v->text, "", 1))
        return error_set(e, ERR_MEMORY, "no memory for a vocabulary of %zu tokens", v->n_pieces);
    v->start[id] = start;
    v->length[id] = (uint32_t)n;
    v->kind[id] = (unsigned char)kind;
    v->n_pieces++;
    if (n > v->longest) v->longest = n;
    return n == 0 ? OK : add_to_table(v, (int)id, v->text.data + start, n, kind, e);
}

void vocab_free(vocab *v) {
    free(v->text.data);
    free(v->start);
    free(v->length);
    free(v->kind);
    free(v->slots);
    *v = (vocab){0};
}
