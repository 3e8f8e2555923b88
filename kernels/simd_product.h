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

VECTOR size_t weight_bytes(weight_kind kind) {
    return kind == WEIGHT_F32 ? 4 : kind == WEIGHT_F16 ? 2 : 1;
}
VECTOR vf weight_load(const unsigned char *w, weight_kind kind, bool full, vm m) {
    if (kind == WEIGHT_F32)
        return full ? vf_load((const float *)(const void *)w) : vf_load_n((const float *)(const void *)w, m);
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
            acc[i][j] = !p->more ? vf_set(0.0f) : full ? vf_load(at) : vf_load_n(at, m);
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
                if (n_t <= PREFETCH_ROWS) __builtin_prefetch(w[j] + at + PREFETCH_BYTES);
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
            float *at = y + (size_t)i * p->ldy + j * 16;
            if (full)
                vf_store(at, acc[i][j]);
            else
                vf_store_n(at, acc[i][j], m);
        }
    }
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
        if (n <= TILE_ROWS) rows_product(p, kind, t, n, c, c_end);                                                             \
        break;

/* n_t is at most TILE_ROWS: a loop of its own for each number of rows. */
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

/* Columns [k, k + n_k) of chunks [c, c_end) for all rows, spread evenly over tiles: one of a single row costs almost as much as one of 3. */
VECTOR void columns_product(const panel_product *all, weight_kind kind, int k, int n_k, int c, int c_end, int n_tiles) {
    panel_product p = *all;
    p.x += k; /* pieces that lie apart come whole: k is 0 */
    if (k > 0) p.w = (const unsigned char *)p.w + (size_t)k * p.k_stride * weight_bytes(kind);
    p.n_k = n_k;
    p.more = p.more || k > 0;
    for (int i = 0, t = 0, n; i < n_tiles; i++, t += n) {
        n = (p.n_t - t + n_tiles - i - 1) / (n_tiles - i);
        any_rows_product(&p, kind, t, n, c, c_end);
    }
}

/* One tile of rows streams through all weights. More rows take BLOCK_CHUNKS at a time, and BLOCK_K columns of them: their weights stay in the
 * nearest caches from one tile of rows to the next, and the rows need not be read anew for every few outputs. */
VECTOR void product(const panel_product *p, weight_kind kind) {
    int n_chunks = (p->width + 15) / 16, n_tiles = (p->n_t + TILE_ROWS - 1) / TILE_ROWS;
    int step = n_tiles == 1 ? n_chunks : BLOCK_CHUNKS,
        block = n_tiles <= 2 || p->chunks != NULL || p->segments != NULL ? p->n_k : BLOCK_K;
    for (int c = 0; c < n_chunks; c += step) {
        int c_end = c + step < n_chunks ? c + step : n_chunks, k = 0;
        do { /* at least once: n_k 0 gives zeros */
            int n_k = p->n_k - k < block ? p->n_k - k : block;
            columns_product(p, kind, k, n_k, c, c_end, n_tiles);
            k += n_k;
        } while (k < p->n_k);
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
