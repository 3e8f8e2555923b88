/* simd_product.h - the panel product of kernels.h in tiles.
 *
 * A tile is n_t rows of x by n_c chunks of 16 outputs; its sums stay in registers while k runs:
 *
 *                 chunk 0   chunk 1                            for each k:  n_c loads of w, n_t broadcasts of x,
 *       row 0   [ 16 sums | 16 sums ]                                       n_c * n_t multiply-adds
 *       row 1   [ ...               ]
 *       ...
 *
 * n_c * n_t sums must fit the registers beside n_c weights and one x; a multiply-add takes 4 cycles and two can start in each, so that
 * fewer than 8 sums leave the unit waiting. TILE_CHUNKS (of the kernels_*.c) says how wide a tile is for each number of rows.
 * Every sum is one chain of multiply-adds over k, whatever the tile. */
#ifndef TALLY_SIMD_PRODUCT_H
#define TALLY_SIMD_PRODUCT_H

#include "kernels/simd.h"

typedef enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_I8 } weight_kind;

/* All 16 lanes, or (full false) those of m. full is a constant. */
VECTOR vf lanes_load(const float *p, bool full, vm m) {
    return full ? vf_load(p) : vf_load_n(p, m);
}
VECTOR void lanes_store(float *p, vf v, bool full, vm m) {
    if (full) {
        vf_store(p, v);
    } else {
        vf_store_n(p, v, m);
    }
}

VECTOR size_t weight_bytes(weight_kind kind) {
    return kind == WEIGHT_F32 ? 4 : kind == WEIGHT_F16 ? 2 : 1;
}
VECTOR vf weight_load(const unsigned char *w, weight_kind kind, bool full, vm m) {
    if (kind == WEIGHT_F32) return lanes_load((const float *)(const void *)w, full, m);
    if (kind == WEIGHT_F16) return full ? vf_from_half(w) : vf_from_half_n(w, m);
    return full ? vf_from_int8(w) : vf_from_int8_n(w, m);
}

/* Rows [t, t + n_t) by chunks [c, c + n_c); `full` false: the one short chunk of `last` lanes. n_t, n_c, kind and full are constants. */
VECTOR void tile_product(const panel_product *p, weight_kind kind, int t, int n_t, int c, int n_c, bool full, int last) {
    vf acc[12][TILE_MOST_CHUNKS];
    vm m = vm_first(full ? 16 : last);
    float *y = p->y + (size_t)t * p->ldy + (size_t)c * 16;
    const float *x = p->x + (size_t)t * p->ldx;
    const size_t k_bytes = p->k_stride * weight_bytes(kind);
#pragma GCC unroll 12
    for (int i = 0; i < n_t; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < n_c; j++) {
            const float *at = y + (size_t)i * p->ldy + j * 16;
            acc[i][j] = !p->more ? vf_set(0.0f) : lanes_load(at, full, m);
        }
    }
    for (int done = 0, s = 0, n_k; done < p->n_k; done += n_k, s++) {
        n_k = p->segments == NULL || p->n_k - done < p->segment_k ? p->n_k - done : p->segment_k;
        const unsigned char *w[TILE_MOST_CHUNKS];
#pragma GCC unroll 12
        for (int j = 0; j < n_c; j++) w[j] = panel_piece(p, s, c + j, weight_bytes(kind));
        for (size_t k = 0, at = 0; k < (size_t)n_k; k++, at += k_bytes, x++) {
            vf weights[TILE_MOST_CHUNKS];
#pragma GCC unroll 12
            for (int j = 0; j < n_c; j++) {
                if (n_t <= PREFETCH_ROWS) __builtin_prefetch(w[j] + at + p->ahead);
                weights[j] = weight_load(w[j] + at, kind, full, m);
            }
#pragma GCC unroll 12
            for (int i = 0; i < n_t; i++) {
                vf xk = vf_set(x[(size_t)i * p->ldx]);
#pragma GCC unroll 12
                for (int j = 0; j < n_c; j++) acc[i][j] = vf_fma(weights[j], xk, acc[i][j]);
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < n_t; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < n_c; j++) {
            lanes_store(y + (size_t)i * p->ldy + j * 16, acc[i][j], full, m);
        }
    }
}

/* int8 here is a cache's, which few rows read at once: not worth the code of more. */
VECTOR int rows_of_tile(weight_kind kind) {
    return kind == WEIGHT_I8 && TILE_ROWS > 6 ? 6 : TILE_ROWS;
}

/* n_t rows, a constant, by chunks [c, c_end): tiles as wide as n_t rows allow, then narrower ones, then the short chunk. */
VECTOR void rows_product(const panel_product *p, weight_kind kind, int t, int n_t, int c, int c_end) {
    const int wide = TILE_CHUNKS(n_t);
    int n_full = p->width / 16, last = p->width % 16;
    int full_end = c_end < n_full ? c_end : n_full;
    for (; c + wide <= full_end; c += wide) tile_product(p, kind, t, n_t, c, wide, true, 0);
    if (wide > 4 && c + 4 <= full_end) {
        tile_product(p, kind, t, n_t, c, 4, true, 0);
        c += 4;
    }
    if (wide > 2 && c + 2 <= full_end) {
        tile_product(p, kind, t, n_t, c, 2, true, 0);
        c += 2;
    }
    for (; c < full_end; c++) tile_product(p, kind, t, n_t, c, 1, true, 0);
    if (c < c_end && last > 0) tile_product(p, kind, t, n_t, c, 1, false, last);
}

#define ROWS_CASE(n)                                                                                                           \
    case n:                                                                                                                    \
        if (n <= rows_of_tile(kind)) rows_product(p, kind, t, n, c, c_end);                                                    \
        break;

/* n_t is at most rows_of_tile(kind): a loop of its own for each number of rows. */
VECTOR void any_rows_product(const panel_product *p, weight_kind kind, int t, int n_t, int c, int c_end) {
    switch (n_t) {
        ROWS_CASE(1)
        ROWS_CASE(2)
        ROWS_CASE(3)
        ROWS_CASE(4)
        ROWS_CASE(5)
        ROWS_CASE(6)
        ROWS_CASE(7)
        ROWS_CASE(8)
        ROWS_CASE(9)
        ROWS_CASE(10)
        ROWS_CASE(11)
        ROWS_CASE(12)
    default:
        break;
    }
}

/* A block of the weights: columns [k, k + n_k) of chunks [c, c_end). */
typedef struct {
    int c, c_end, k, n_k;
} weight_block;

/* The block after b, along k first; its c is the number of chunks when there is none. */
static weight_block block_after(const panel_product *p, weight_block b) {
    int n_chunks = (p->width + 15) / 16;
    b.k += b.n_k;
    if (b.k >= p->n_k) {
        b.c = b.c_end;
        b.k = 0;
    }
    b.c_end = b.c + BLOCK_CHUNKS < n_chunks ? b.c + BLOCK_CHUNKS : n_chunks;
    b.n_k = p->n_k - b.k < BLOCK_K ? p->n_k - b.k : BLOCK_K;
    return b;
}

/* Where a block begins, in elements from w. */
static size_t block_at(const panel_product *p, const weight_block *b) {
    return (size_t)b->c * p->chunk_stride + (size_t)b->k * p->k_stride;
}

/* All rows through chunks [c, c_end), spread evenly over tiles: one of a single row costs almost as much as one of 3. The first tile asks for
 * what lies `ahead` bytes further. */
VECTOR void rows_tiled(const panel_product *all, weight_kind kind, int c, int c_end, size_t ahead) {
    panel_product p = *all;
    int most = rows_of_tile(kind), n_tiles = (p.n_t + most - 1) / most;
    p.ahead = ahead;
    for (int i = 0, t = 0, n; i < n_tiles; i++, t += n, p.ahead = 0) {
        n = (p.n_t - t + n_tiles - i - 1) / (n_tiles - i);
        any_rows_product(&p, kind, t, n, c, c_end);
    }
}

/* Rows of several tiles take the weights block by block: a block stays in the nearest caches from one tile to the next, the rows need not be
 * read anew for every few outputs, and the next block comes while this one is multiplied. */
VECTOR void blocks_product(const panel_product *all, weight_kind kind) {
    int n_chunks = (all->width + 15) / 16;
    for (weight_block next, b = block_after(all, (weight_block){0}); b.c < n_chunks; b = next) {
        next = block_after(all, b);
        panel_product p = *all;
        p.x += b.k;
        p.w = (const unsigned char *)p.w + (size_t)b.k * p.k_stride * weight_bytes(kind);
        p.n_k = b.n_k;
        p.more = p.more || b.k > 0;
        size_t ahead = next.c < n_chunks ? (block_at(all, &next) - block_at(all, &b)) * weight_bytes(kind) : 0;
        rows_tiled(&p, kind, b.c, b.c_end, ahead);
    }
}

/* One tile of rows streams through all weights. Pieces that lie apart are a cache's, and short. */
VECTOR void product(const panel_product *p, weight_kind kind) {
    int n_chunks = (p->width + 15) / 16;
    bool pieces = p->chunks != NULL || p->segments != NULL;
    if (pieces || p->n_t <= rows_of_tile(kind) || p->n_k == 0) {
        rows_tiled(p, kind, 0, n_chunks, pieces ? p->ahead : PREFETCH_BYTES);
    } else {
        blocks_product(p, kind);
    }
}

static void product_f32(const panel_product *p) {
    product(p, WEIGHT_F32);
}
static void product_f16(const panel_product *p) {
    product(p, WEIGHT_F16);
}
static void product_i8(const panel_product *p) {
    product(p, WEIGHT_I8);
}

#endif
