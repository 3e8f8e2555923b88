/* vocab.h - the pieces of a vocabulary: id to bytes, and bytes to id through a hash table. */
#ifndef TALLY_VOCAB_H
#define TALLY_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"
#include "tokenizer/buffer.h"

typedef enum {
    PIECE_NONE,    /* no such id: a gap, or the padding of a vocabulary */
    PIECE_NORMAL,  /* made by the model out of text */
    PIECE_BYTE,    /* "<0xE6>": byte fallback */
    PIECE_USER,    /* an added token that is text: always found in text first */
    PIECE_SPECIAL, /* a control token: found in text only with TOKENIZE_PARSE_SPECIAL */
    PIECE_UNKNOWN, /* stands for what the vocabulary cannot write */
    PIECE_UNUSED   /* there, but never given out */
} piece_kind;

#define VOCAB_MAX_PIECE 65536
#define VOCAB_MAX_GAP   (1 << 20) /* how far ids may run ahead of the number of pieces */

typedef struct {
    byte_buffer text;                 /* every piece and a zero after it */
    size_t *start;                    /* [n_ids] into text */
    uint32_t *length;                 /* [n_ids] bytes */
    unsigned char *kind;              /* [n_ids] of piece_kind */
    size_t n_ids, n_pieces, capacity; /* ids 0 .. n_ids - 1, n_pieces of them there */
    size_t longest;                   /* bytes of the longest piece */
    uint32_t *slots;                  /* [n_slots], a power of two: id + 1, or 0 */
    size_t n_slots, n_used;
} vocab;

/* A piece given twice, an id given twice and an id far beyond the number of pieces are ERR_FORMAT. An empty piece has an id
 * but is never found. An unused piece gives way to another of the same text. */
status vocab_add(vocab *v, int64_t id, const char *piece, size_t n, piece_kind kind, error *e);

int vocab_find(const vocab *v, const char *piece, size_t n); /* the id, or -1 */
void vocab_free(vocab *v);

static inline const char *vocab_piece(const vocab *v, int id, size_t *n) {
    *n = v->length[id];
    return v->text.data + v->start[id];
}

/* Hash of bytes, for tables of this layer. */
uint64_t bytes_hash(const void *bytes, size_t n);

#endif
