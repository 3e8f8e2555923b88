/* kv_page.h - how keys and values lie in a page of the cache, and the accessor that reads them.
 *
 * A page holds page_size tokens of one sequence, for every layer; the pool keeps the pages of a layer together:
 *
 *   pool      [n_layers][n_pages] pages of page_bytes
 *   page      [n_kv_heads] of:
 *     int8:   K scales [page_size] fp16 | V scales [page_size] fp16
 *     K       blocks of 16 tokens (the last may be short):  [head_dim][w]     w = min(16, page_size - 16*block)
 *     V       [page_size][head_dim]
 *
 *        token ->  0  1  2 ... 15   16 ...
 *     K  elem 0  [ .  .  .     . ][ ...          one step along head_dim feeds 16 scores
 *        elem 1  [ .  .  .     . ][ ...
 *     V  token 0 [ elem 0 1 2 ... head_dim-1 ]   one step along the tokens feeds head_dim outputs
 *        token 1 [ ...
 *
 * So scores are a panel product with keys as outputs, and values one with elements as outputs (kernels.h): each score is a sum over
 * head_dim in order, each output a sum over tokens in order, and neither pages nor blocks can change a bit.
 * Pages: Kwon et al. 2023, section 4. What an element is: kv_format.h. */
#ifndef TALLY_KV_PAGE_H
#define TALLY_KV_PAGE_H

#include <stddef.h>

#include "kernels/dtype.h"
#include "kernels/kernels.h"
#include "kernels/kv_format.h"
#include "kernels/meter.h"

enum { KV_BLOCK = 16 };

typedef struct {
    dtype type;              /* DTYPE_F32, DTYPE_F16, or DTYPE_Q8_0: int8 with scales */
    const kv_format *format; /* of that type */
    int page_size, n_kv_heads, head_dim;
    size_t elem_bytes;
    size_t token_bytes; /* of one token's K (or V) of one head, its scale included */
    size_t head_bytes;  /* of one K/V head in a page */
    size_t page_bytes;  /* of one page in one layer: n_kv_heads * head_bytes */
} kv_layout;

/* type: one that kv_format_of knows. False when a size overflows. */
bool kv_layout_init(kv_layout *l, dtype type, int page_size, int n_kv_heads, int head_dim);

/* One sequence's cache at one layer. Position s is page s / page_size, slot s % page_size. */
typedef struct {
    const kv_layout *layout;
    unsigned char *const *pages; /* [ceil(n_tokens / page_size)] of this layer; those behind a window may be NULL */
    int n_cached;                /* tokens that were there before this step: reading others counts as reading the step's own */
} kv_view;

/* Stores token `pos`: k, v are [n_kv_heads, head_dim] fp32. Posts the bytes written. False: a number is not finite as stored. */
bool kv_write(const kv_view *kv, int pos, const float *k, const float *v, const kernel_set *kernels, meter *m);

/* A run of tokens of one K/V head that lies in one block of K (for V: in one page). */
typedef struct {
    const void *data;       /* K: element 0 of the first token; V: the first token's row */
    const uint16_t *scales; /* int8: one fp16 for each token (unaligned), else NULL */
    size_t k_stride;        /* of the panel product, in elements */
    int n;                  /* tokens in the run */
} kv_run;

/* K (V) of tokens [pos, end) as far as they lie together. Posts the bytes handed out: a run is read once for however many queries use it. */
kv_run kv_keys(const kv_view *kv, int head, int pos, int end, meter *m);
kv_run kv_values(const kv_view *kv, int head, int pos, int end, meter *m);

/* All of tokens [from, to), block by block, for several K/V heads that lie alike: head h's blocks are h * layout->head_bytes further. */
enum { KV_SPAN_BLOCKS = 16 };
typedef struct {
    const void *keys[KV_SPAN_BLOCKS],
        *values[KV_SPAN_BLOCKS]; /* KV_BLOCK tokens each (the last one maybe fewer) of the first head */
    size_t k_stride;             /* of K's blocks, in elements */
} kv_span;

/* Does [from, to) lie in even blocks, few enough for a span? Then K and V of heads [head, head + n_heads) are handed out, and posted; else
 * nothing is, and runs are the way. */
bool kv_span_get(kv_span *s, const kv_view *kv, int head, int n_heads, int from, int to, meter *m);

#endif
