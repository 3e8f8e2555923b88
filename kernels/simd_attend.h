/* simd_attend.h - one row's attention to a range of keys, head by head, or four heads at once.
 *
 * A sum is a chain of multiply-adds, four cycles apart. Where one head has too few sums to fill that time (short contexts, small heads),
 * four heads run side by side:
 *
 *                 head 0     head 1     head 2     head 3      for each k:  4 loads of w, one of each head, and
 *       row 0   [ 16 sums ][ 16 sums ][ 16 sums ][ 16 sums ]                4 * n_t broadcasts and multiply-adds
 *       row 1   [ ...                                       ]  */
#ifndef TALLY_SIMD_ATTEND_H
#define TALLY_SIMD_ATTEND_H

#include "kernels/simd_product.h"
#include "kernels/simd_rows.h"

/* With fewer sums than this (of 16 lanes) heads run side by side; ranges longer than PREFETCH_KEYS are asked for ahead. */
enum { SUMS_OF_A_HEAD = 4, PREFETCH_KEYS = 64 };

/* kind is a constant. */
VECTOR void product_of(const panel_product *p, weight_kind kind) {
    if (kind == WEIGHT_F32) {
        product_f32(p);
    } else {
        product_f16(p);
    }
}

/* Rows [t, t + n_t) of chunk c of n_h heads; p is the first head's. From one head to the next: x_head, y_head (elements) and w_head (bytes). */
VECTOR void heads_tile(const panel_product *p, weight_kind kind, int n_h, int t, int n_t, int c, bool full, size_t x_head,
                       size_t y_head, size_t w_head) {
    vf acc[ATTEND_HEADS][2];
    const vm m = vm_first(full ? 16 : p->width % 16);
    const float *x = p->x + (size_t)t * p->ldx;
    float *y = p->y + (size_t)t * p->ldy + (size_t)c * 16;
    const size_t k_bytes = p->k_stride * weight_bytes(kind);
#pragma GCC unroll 8
    for (int h = 0; h < n_h; h++) {
#pragma GCC unroll 8
        for (int i = 0; i < n_t; i++) acc[h][i] = vf_set(0.0f);
    }
    for (int done = 0, s = 0, n_k; done < p->n_k; done += n_k, s++) {
        n_k = p->segments == NULL || p->n_k - done < p->segment_k ? p->n_k - done : p->segment_k;
        const unsigned char *w = panel_piece(p, s, c, weight_bytes(kind));
        for (int k = 0; k < n_k; k++, w += k_bytes, x++) {
#pragma GCC unroll 8
            for (int h = 0; h < n_h; h++) {
                vf weights = weight_load(w + (size_t)h * w_head, kind, full, m);
#pragma GCC unroll 8
                for (int i = 0; i < n_t; i++)
                    acc[h][i] = vf_fma(weights, vf_set(x[(size_t)h * x_head + (size_t)i * p->ldx]), acc[h][i]);
            }
        }
    }
#pragma GCC unroll 8
    for (int h = 0; h < n_h; h++) {
#pragma GCC unroll 8
        for (int i = 0; i < n_t; i++) {
            lanes_store(y + (size_t)h * y_head + (size_t)i * p->ldy, acc[h][i], full, m);
        }
    }
}

VECTOR void heads_chunks(const panel_product *p, weight_kind kind, int t, int n_t, size_t x_head, size_t y_head,
                         size_t w_head) {
    int c = 0;
    for (; c < p->width / 16; c++) heads_tile(p, kind, ATTEND_HEADS, t, n_t, c, true, x_head, y_head, w_head);
    if (p->width % 16 > 0) heads_tile(p, kind, ATTEND_HEADS, t, n_t, c, false, x_head, y_head, w_head);
}

/* The product of ATTEND_HEADS heads; p is the first one's. */
VECTOR void heads_product(const panel_product *p, weight_kind kind, size_t x_head, size_t y_head, size_t w_head) {
    if (p->n_t * ((p->width + 15) / 16) < SUMS_OF_A_HEAD) {
        int t = 0;
        for (; t + 2 <= p->n_t; t += 2) heads_chunks(p, kind, t, 2, x_head, y_head, w_head);
        if (t < p->n_t) heads_chunks(p, kind, t, 1, x_head, y_head, w_head);
        return;
    }
    panel_product one = *p;
    for (int h = 0; h < ATTEND_HEADS; h++, one.x += x_head, one.y += y_head, one.piece_offset += w_head) product_of(&one, kind);
}

/* Pages lie anywhere, so that the processor cannot foresee the next block: the first head's are asked for at the start. */
VECTOR void blocks_prefetch(const void *const *blocks, int n_keys, size_t offset, size_t token_bytes) {
    for (int at = 0; at < n_keys; at += 16) {
        const unsigned char *from = (const unsigned char *)blocks[at / 16] + offset;
        size_t n = (size_t)(n_keys - at < 16 ? n_keys - at : 16) * token_bytes;
        for (size_t i = 0; i < n; i += 64) __builtin_prefetch(from + i, 0, 2);
    }
}

/* Heads [h, h + n_h): one, or ATTEND_HEADS. */
VECTOR void heads_attend(const row_attention *a, weight_kind kind, int h, int n_h) {
    const size_t row = (size_t)a->head_dim, group = (size_t)a->group;
    panel_product scores = row_attention_scores(a, h), values = row_attention_values(a, h);
    if (n_h == 1) {
        scores.ahead = values.ahead = h + 1 < a->n_heads ? a->head_bytes : 0; /* the next head's lie in the same pages */
        product_of(&scores, kind);
    } else {
        heads_product(&scores, kind, group * row, group * a->ld_scores, a->head_bytes);
    }
    for (int r = 0; r < n_h * a->group; r++) {
        size_t at = (size_t)(h * a->group + r);
        softmax(a->scores + (size_t)r * a->ld_scores, a->n_keys, a->scale, a->softcap, &a->max[at], &a->sum[at]);
    }
    if (n_h == 1) {
        product_of(&values, kind);
    } else {
        heads_product(&values, kind, group * a->ld_scores, group * row, a->head_bytes);
    }
}

VECTOR void attend(const row_attention *a, weight_kind kind) {
    const bool far = a->n_keys > PREFETCH_KEYS, together = !far || a->group * a->head_dim < 16 * SUMS_OF_A_HEAD;
    const size_t token = (size_t)a->head_dim * weight_bytes(kind);
    int h = 0;
    if (far) {
        blocks_prefetch(a->keys, a->n_keys, 0, token);
        blocks_prefetch(a->values, a->n_keys, 0, token);
    }
    for (; together && h + ATTEND_HEADS <= a->n_heads; h += ATTEND_HEADS) heads_attend(a, kind, h, ATTEND_HEADS);
    for (; h < a->n_heads; h++) heads_attend(a, kind, h, 1);
}

static void attend_f32(const row_attention *a) {
    attend(a, WEIGHT_F32);
}
static void attend_f16(const row_attention *a) {
    attend(a, WEIGHT_F16);
}

#endif
