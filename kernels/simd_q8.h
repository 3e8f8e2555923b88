/* simd_q8.h - int8 weights by int8 activations, and the quantising of activations.
 *
 * A tile is n_t rows by n_c panels. A block of 32 along k is 8 steps of 4 k: each loads n_c vectors of 16 x 4 weights and broadcasts 4
 * numbers of each row. The integer sums of the block are exact and live in registers; then each meets the scales of weight and
 * activation, in floating point, and is added to the row's sum, block after block: one chain. */
#ifndef TALLY_SIMD_Q8_H
#define TALLY_SIMD_Q8_H

#include "kernels/simd_product.h"

enum { Q8_STEPS = 8, Q8_SCALE = 2, Q8_BLOCK_BYTES = 34 };

VECTOR void tile_q8(const q8_product *p, int t, int n_t, int c, int n_c, bool full, int last) {
    vf acc[Q8_TILE_ROWS][Q8_TILE_PANELS];
    const vm m = vm_first(full ? 16 : last);
    const size_t lanes = full ? 16 : (size_t)last;
    float *y = p->y + (size_t)t * p->ldy + (size_t)c * 16;
    const int8_t *x = p->q + (size_t)t * p->q_stride;
    const float *x_scale = p->scale + (size_t)t * p->scale_stride;
    const int32_t *x_sum = p->sum + (size_t)t * p->scale_stride;
    const unsigned char *w = (const unsigned char *)p->w + (size_t)c * p->panel_stride;
#pragma GCC unroll 8
    for (int i = 0; i < n_t; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < n_c; j++) {
            const float *at = y + (size_t)i * p->ldy + j * 16;
            acc[i][j] = !p->more ? vf_set(0.0f) : lanes_load(at, full, m);
        }
    }
    for (int b = 0; b < p->n_blocks; b++, w += lanes * Q8_BLOCK_BYTES, x += 32) {
        vi sum[Q8_TILE_ROWS][Q8_TILE_PANELS];
#pragma GCC unroll 8
        for (int i = 0; i < n_t; i++) {
#pragma GCC unroll 8
            for (int j = 0; j < n_c; j++) sum[i][j] = vi_start(x_sum[(size_t)i * p->scale_stride + (size_t)b]);
        }
#pragma GCC unroll 8
        for (int g = 0; g < Q8_STEPS; g++) {
#pragma GCC unroll 8
            for (int j = 0; j < n_c; j++) {
                const unsigned char *at = w + (size_t)j * p->panel_stride + lanes * (size_t)(Q8_SCALE + 4 * g);
                if (n_t <= PREFETCH_ROWS) __builtin_prefetch(at + PREFETCH_BYTES);
                vq wq = full ? vq_load(at) : vq_load_n(at, m);
#pragma GCC unroll 8
                for (int i = 0; i < n_t; i++) sum[i][j] = vi_dot(sum[i][j], wq, x + (size_t)i * p->q_stride + 4 * g);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < n_c; j++) {
            const unsigned char *at = w + (size_t)j * p->panel_stride;
            vf w_scale = full ? vf_from_half(at) : vf_from_half_n(at, m);
#pragma GCC unroll 8
            for (int i = 0; i < n_t; i++) {
                vf scale = vf_mul(w_scale, vf_set(x_scale[(size_t)i * p->scale_stride + (size_t)b]));
                acc[i][j] = vf_fma(vf_from_int(sum[i][j]), scale, acc[i][j]);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n_t; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < n_c; j++) {
            lanes_store(y + (size_t)i * p->ldy + j * 16, acc[i][j], full, m);
        }
    }
}

/* n_t rows, a constant, by panels [c, c_end). */
VECTOR void rows_q8(const q8_product *p, int t, int n_t, int c, int c_end) {
    const int wide = Q8_PANELS(n_t);
    int n_full = p->width / 16, last = p->width % 16;
    int full_end = c_end < n_full ? c_end : n_full;
    for (; c + wide <= full_end; c += wide) tile_q8(p, t, n_t, c, wide, true, 0);
    for (; c < full_end; c++) tile_q8(p, t, n_t, c, 1, true, 0);
    if (c < c_end && last > 0) tile_q8(p, t, n_t, c, 1, false, last);
}

static void product_q8(const q8_product *p) {
    int n_chunks = (p->width + 15) / 16, n_tiles = (p->n_t + Q8_TILE_ROWS - 1) / Q8_TILE_ROWS;
    int step = n_tiles == 1 ? n_chunks : 4;
    for (int c = 0; c < n_chunks; c += step) {
        int end = c + step < n_chunks ? c + step : n_chunks;
        for (int i = 0, t = 0, n; i < n_tiles; i++, t += n) {
            n = (p->n_t - t + n_tiles - i - 1) / (n_tiles - i);
            switch (n) {
            case 1:
                rows_q8(p, t, 1, c, end);
                break;
            case 2:
                rows_q8(p, t, 2, c, end);
                break;
            case 3:
                rows_q8(p, t, 3, c, end);
                break;
            default:
                rows_q8(p, t, 4, c, end);
                break;
            }
        }
    }
}

static void int8_scaled(float *out, const void *q, const float *scale, int n_k, bool words) {
    const int8_t *in = q;
    const vf by = vf_load(scale);
    int k = 0;
    if (words) {
        for (; k + 4 <= n_k; k += 4, in += 64) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) vf_store(out + (k + i) * 16, vf_mul(by, vf_from_word(in, i)));
        }
        for (int i = 0; k < n_k; i++, k++) {
            for (int r = 0; r < 16; r++) out[k * 16 + r] = scale[r] * (float)in[r * 4 + i];
        }
    } else {
        for (; k < n_k; k++, in += 16) vf_store(out + k * 16, vf_mul(by, vf_from_int8(in)));
    }
}

VECTOR void quantise_block(int8_t *q, float *scale, int32_t *sum, vf lo, vf hi) {
    float top = vf_top(vf_max(vf_abs(lo), vf_abs(hi))), inverse = 127.0f / top;
    *scale = top / 127.0f;
    if (!(vf_finite(lo) && vf_finite(hi))) { /* the scale carries it on: every sum that the block is in becomes NaN */
        *scale = __builtin_nanf("");
        inverse = 0.0f;
    }
    *sum = 0;
    if (inverse > 0.0f && inverse <= 3.4e38f) { /* else the block is 0, or too small to be more */
        const vf by = vf_set(inverse), most = vf_set(127.0f), least = vf_set(-127.0f); /* the product may pass 127 by a bit */
        *sum += vf_to_int8(q, vf_max(least, vf_min(most, vf_mul(lo, by))));
        *sum += vf_to_int8(q + 16, vf_max(least, vf_min(most, vf_mul(hi, by))));
    } else {
        memset(q, 0, 32);
    }
}

static void quantise(int8_t *q, float *scale, int32_t *sum, const float *x, int n) {
    const vf zero = vf_set(0.0f);
    int b = 0;
    for (; (b + 1) * 32 <= n; b++)
        quantise_block(q + b * 32, scale + b, sum + b, vf_load(x + b * 32), vf_load(x + b * 32 + 16));
    int left = n - b * 32;
    x += b * 32;
    if (left > 16)
        quantise_block(q + b * 32, scale + b, sum + b, vf_load(x), vf_load_n(x + 16, vm_first(left - 16)));
    else if (left > 0)
        quantise_block(q + b * 32, scale + b, sum + b, vf_load_n(x, vm_first(left)), zero);
}

#endif
