/* gguf.h - what the two halves of the GGUF reader share. Private to weights/.
 *
 *   "GGUF" | version u32 (2 or 3) | n_tensors u64 | n_keys u64
 *   n_keys times:     key (text) | type u32 | value          text: n u64, then n bytes; array: type u32, n u64, then n values
 *   n_tensors times:  name (text) | n_dims u32 | n_dims extents u64, innermost first | type u32 | offset u64
 *   padding up to a multiple of general.alignment (32 where it is not given)
 *   the tensors' bytes: offsets count from here, and are multiples of the alignment
 *
 * Little-endian. Source: the GGUF specification of the ggml project. */
#ifndef TALLY_GGUF_H
#define TALLY_GGUF_H

#include "weights/container.h"
#include "weights/cursor.h"

typedef struct {
    reader *r;
    int shard;
    cursor in;
    size_t touched;     /* bytes of the map already charged to the budget */
    json_t *small[256]; /* integers 0 to 255, shared: arrays of token types have 100,000 of them */
    uint64_t alignment;
    bool limit; /* the last charge was refused */
    error *e;
} gguf;

status gguf_fail(gguf *g, status code, const char *what);

/* A text: *bytes points into the map. `what` is for the message. */
status gguf_text(gguf *g, const char *what, const uint8_t **bytes, size_t *n);

/* All n keys and values into c->meta, flat: {"general.architecture": "llama", ...}. */
status gguf_read_keys(gguf *g, uint64_t n);

#endif
