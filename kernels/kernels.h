/* kernels.h - the inner loops, one set for each instruction set: portable C, AVX2, AVX-512, NEON.
 *
 * Everything that a transformer multiplies is one operation here, the panel product: weights, keys and values are all stored so
 * that 16 outputs lie side by side and the sum runs along k, one step at a time, in increasing k:
 *
 *     y[t][c*16 + r]  (+)=  sum_k  x[t][k] * w(k, c, r)          w(k, c, r) = w[c*chunk_stride + k*k_stride + r]
 *
 *     weights   chunk = panel of 16 rows, k = column      chunk_stride = 16*n_cols,   k_stride = 16 (the last panel: its width)
 *     keys      chunk = block of 16 keys, k = element     chunk_stride = 16*head_dim, k_stride = 16 (a short block: its width)
 *     values    chunk = 16 elements,      k = key         chunk_stride = 16,          k_stride = head_dim
 *
 * A sum may be continued (`more`): the same bits as if it had not been interrupted, since y holds it exactly. Within one set the
 * bits of y[t][j] depend on x[t] and w only, never on n_t, width or how a sum was cut. Between sets they may differ (FMA rounds once).
 *
 * Kernels never fail, allocate or print, and do not post: the loops that call them do (linear.c, attention.c), for what they asked. */
#ifndef TALLY_KERNELS_H
#define TALLY_KERNELS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    float *y; /* [n_t] rows, ldy floats apart */
    size_t ldy;
    const float *x; /* [n_t] rows of n_k, ldx floats apart */
    size_t ldx;
    const void *w;                 /* elements of the kernel's type */
    size_t k_stride, chunk_stride; /* in elements */
    int n_t, n_k, width;           /* width: outputs a row; the last chunk may be short, and nothing past it is read */
    bool more;                     /* continue the sums in y; else start from 0 */
    /* Pieces that do not lie evenly apart (pages of a cache), at most one of the two: */
    const void *const *chunks;   /* not NULL: chunk c lies at chunks[c] */
    const void *const *segments; /* not NULL: k = s * segment_k is at segments[s], and the k up to the next segment follow it */
    int segment_k;
    size_t ahead;        /* pieces: bytes from what is read to what will be wanted next (the next head's), or 0 */
    size_t piece_offset; /* bytes from there to what is meant: a K/V head in its page */
} panel_product;

/* Where chunk c of segment s begins; segment 0 is all of k where there are no segments. elem_bytes: of the weights. */
static inline const void *panel_piece(const panel_product *p, int s, int c, size_t elem_bytes) {
    if (p->chunks != NULL) return (const unsigned char *)p->chunks[c] + p->piece_offset;
    const void *from = p->segments != NULL ? p->segments[s] : p->w;
    return (const unsigned char *)from + p->piece_offset + (size_t)c * p->chunk_stride * elem_bytes;
}

/* Activations quantised per block of 32 along k: x[k] ~ scale * q, scale = max|x| / 127, q rounded to nearest even. */
typedef struct {
    int8_t *q;    /* [rows][32 * n_blocks], zeros past n_cols */
    float *scale; /* [rows][n_blocks] */
    int32_t *sum; /* [rows][n_blocks], the sum of each block's q: what unsigned dot instructions need to correct by */
    int n_blocks;
} q8_rows;

/* int8 x int8: y[t][c*16 + r] (+)= sum over blocks b, in order, of (float)(sum_k wq xq) * (wscale * xscale). The inner sum is an exact
 * integer. w: Q8_0 panels (matrix.h) of k blocks [block0, block0 + n_blocks) */
typedef struct {
    float *y;
    size_t ldy;
    const int8_t *q; /* first row's first block; rows are q_stride bytes apart */
    const float *scale;
    const int32_t *sum;
    size_t q_stride, scale_stride; /* scale_stride: of scale and sum, in elements */
    const void *w;
    size_t panel_stride; /* bytes from one panel to the next */
    int n_t, n_blocks, width;
    bool more;
} q8_product;

/* One row's attention to one range of keys, for several K/V heads, each with its group of query heads. K and V lie in blocks (kv_page.h), alike
 * for all heads: head h's are h * head_bytes further. Query head i of K/V head h is row h * group + i of q, o, max and sum.
 * Scores, softmax and values are those of the panel product and of softmax below, bit for bit. */
enum { ATTEND_HEADS = 4 }; /* heads that may be worked on together */
typedef struct {
    float *o;       /* [n_heads * group, head_dim] */
    const float *q; /* [n_heads * group, head_dim] */
    float *max, *sum;
    float *scores; /* scratch: [ATTEND_HEADS * group, ld_scores] */
    size_t ld_scores;
    const void *const *keys,
        *const *values; /* blocks of 16 keys (the last may be short): K [head_dim][k_stride], V [16][head_dim] */
    size_t k_stride, head_bytes;
    int n_heads, group, head_dim, n_keys;
    float scale, softcap;
} row_attention;

static inline panel_product row_attention_scores(const row_attention *a, int head) {
    return (panel_product){.y = a->scores,
                           .ldy = a->ld_scores,
                           .x = a->q + (size_t)(head * a->group) * (size_t)a->head_dim,
                           .ldx = (size_t)a->head_dim,
                           .chunks = a->keys,
                           .piece_offset = (size_t)head * a->head_bytes,
                           .k_stride = a->k_stride,
                           .n_t = a->group,
                           .n_k = a->head_dim,
                           .width = a->n_keys};
}

static inline panel_product row_attention_values(const row_attention *a, int head) {
    return (panel_product){.y = a->o + (size_t)(head * a->group) * (size_t)a->head_dim,
                           .ldy = (size_t)a->head_dim,
                           .x = a->scores,
                           .ldx = a->ld_scores,
                           .segments = a->values,
                           .segment_k = 16,
                           .piece_offset = (size_t)head * a->head_bytes,
                           .k_stride = (size_t)a->head_dim,
                           .chunk_stride = 16,
                           .n_t = a->group,
                           .n_k = a->n_keys,
                           .width = a->head_dim};
}

/* 1 / sqrt(mean square + eps). A sum of squares that overflowed would make a row of zeros, and an answer out of nothing: it is NaN. */
static inline float norm_inverse(float mean_square, float eps) {
    float v = mean_square + eps;
    return v <= FLT_MAX ? 1.0f / sqrtf(v) : NAN;
}

typedef struct kernel_set {
    const char *name;

    void (*product_f32)(const panel_product *p);
    void (*product_f16)(const panel_product *p); /* w: fp16, converted exactly */
    void (*product_i8)(const panel_product *p);  /* w: int8, converted exactly; scales are the caller's */
    void (*product_q8)(const q8_product *p);

    /* int8 weights of a whole panel as fp32: out[k*16 + r] = scale[r] * q(k, r), k < n_k. words: as Q8_0 has them, 4 k of a row together. */
    void (*int8_scaled)(float *out, const void *q, const float *scale, int n_k, bool words);
    void (*quantise)(int8_t *q, float *scale, int32_t *sum, const float *x, int n); /* one row; ceil(n/32) blocks */
    void (*f16_to_f32)(float *out, const uint16_t *in, size_t n);                   /* exact */
    void (*f32_to_f16)(uint16_t *out, const float *in, size_t n);                   /* round to nearest even */

    /* y = x / sqrt(mean(x^2) + eps) * gain: Zhang and Sennrich 2019. y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *gain, int n, float eps);
    /* y = (x - mean) / sqrt(var + eps) * gain + bias (NULL: 0): Ba et al. 2016. y may be x. */
    void (*layer_norm)(float *y, const float *x, const float *gain, const float *bias, int n, float eps);

    /* One row's scores over one range of keys, in place: s = cap(scale * s), then exp(s - max) / sum. Returns max and sum. n > 0. */
    void (*softmax)(float *s, int n, float scale, float softcap, float *max, float *sum);

    void (*attend_f32)(const row_attention *a); /* K and V as fp32 */
    void (*attend_f16)(const row_attention *a);

    /* y[i] = act(gate[i]) (times up[i] where up is not NULL). kind: activation_kind of weights/config.h, in the order of ACT_LIST. y may be gate. */
    void (*activate)(float *y, const float *gate, const float *up, int n, int kind);
    void (*add)(float *y, const float *x, int n);                 /* y += x */
    void (*add_scaled)(float *y, const float *x, float a, int n); /* y += a * x, rounded twice */
    /* o = o * a + p * b, rounded at each step: merging two ranges of keys. */
    void (*merge)(float *o, const float *p, float a, float b, int n);
} kernel_set;

/* The activations a set knows, by number. FLOPs an element: cost-model.md. */
enum { ACT_RELU, ACT_SILU, ACT_GELU_ERF, ACT_GELU_TANH, ACT_RELU2, ACT_GELU_QUICK };

/* "auto", "portable", "avx2", "avx512" (AMX for int8 included, where there is some; "avx512-vnni": without), "neon". NULL where this machine or this build cannot run it. */
const kernel_set *kernel_set_choose(const char *name);

extern const kernel_set kernels_portable;

#endif
