/* simd_rows.h - what kernels.h does to rows: norms, softmax, activations, sums, conversions.
 *
 * Full vectors, then one of the lanes that are left: a number's bits do not depend on its place. Sums run in 16 lanes, lane j taking
 * x[j], x[16+j], ..., and vf_sum adds the lanes in one order. */
#ifndef TALLY_SIMD_ROWS_H
#define TALLY_SIMD_ROWS_H

#include <math.h>

#include "kernels/simd_math.h"

/* BODY for every vector of a row of n numbers at i, with LOAD(p) and STORE(p, v) for full vectors, then for the lanes that are left. */
#define FOR_ROW(n, BODY)                                                                                                       \
    do {                                                                                                                       \
        int i = 0;                                                                                                             \
        for (; i + 16 <= (n); i += 16) BODY(vf_load, vf_store)                                                                 \
        if (i < (n)) {                                                                                                         \
            const vm rest = vm_first((n)-i);                                                                                   \
            BODY(LOAD_REST, STORE_REST)                                                                                        \
        }                                                                                                                      \
    } while (0)
#define LOAD_REST(p)     vf_load_n(p, rest)
#define STORE_REST(p, v) vf_store_n(p, v, rest)

static void f16_row_to_f32(float *out, const uint16_t *in, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(out + i, vf_from_half(in + i));
    if (i < n) vf_store_n(out + i, vf_from_half_n(in + i, vm_first((int)(n - i))), vm_first((int)(n - i)));
}

static void f32_row_to_f16(uint16_t *out, const float *in, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) vf_to_half(out + i, vf_load(in + i));
    if (i < n) vf_to_half_n(out + i, vf_load_n(in + i, vm_first((int)(n - i))), vm_first((int)(n - i)));
}

VECTOR float row_sum(const float *x, int n) {
    vf acc = vf_set(0.0f);
#define BODY(LOAD, STORE) acc = vf_add(acc, LOAD(x + i));
    FOR_ROW(n, BODY);
#undef BODY
    return vf_sum(acc);
}

VECTOR float row_square_sum(const float *x, float mean, int n) {
    vf acc = vf_set(0.0f), shift = vf_set(mean);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        vf d = vf_sub(vf_load(x + i), shift);
        acc = vf_fma(d, d, acc);
    }
    if (i < n) { /* the lanes that are not there must add nothing */
        const vm rest = vm_first(n - i);
        vf d = vf_fill(vf_sub(vf_load_n(x + i, rest), shift), rest, 0.0f);
        acc = vf_fma(d, d, acc);
    }
    return vf_sum(acc);
}

static void rms_norm(float *y, const float *x, const float *gain, int n, float eps) {
    vf inverse = vf_set(norm_inverse(row_square_sum(x, 0.0f, n) / (float)n, eps));
#define BODY(LOAD, STORE) STORE(y + i, vf_mul(vf_mul(LOAD(x + i), inverse), LOAD(gain + i)));
    FOR_ROW(n, BODY);
#undef BODY
}

static void layer_norm(float *y, const float *x, const float *gain, const float *bias, int n, float eps) {
    float mean = row_sum(x, n) / (float)n;
    vf shift = vf_set(mean), inverse = vf_set(norm_inverse(row_square_sum(x, mean, n) / (float)n, eps));
#define BODY(LOAD, STORE) STORE(y + i, vf_mul(vf_mul(vf_sub(LOAD(x + i), shift), inverse), LOAD(gain + i)));
    FOR_ROW(n, BODY);
#undef BODY
    if (bias == NULL) return;
#define BODY(LOAD, STORE) STORE(y + i, vf_add(LOAD(y + i), LOAD(bias + i)));
    FOR_ROW(n, BODY);
#undef BODY
}

VECTOR vf score_scaled(vf s, vf by, vf cap, bool capped) {
    s = vf_mul(s, by);
    return capped ? vf_mul(cap, vf_tanh(vf_div(s, cap))) : s;
}

/* A NaN may be dropped by the maximum, but not by exp: the sum, and so the whole row, becomes NaN. The last vector stays in a register; its
 * lanes that are not there are below every score, and exp makes them 0. */
VECTOR void softmax_row(float *s, int n, float scale, float softcap, float *max, float *sum, bool capped) {
    const vf by = vf_set(scale), cap = vf_set(softcap);
    const int full = n / 16 * 16;
    const vm rest = vm_first(n > full ? n - full : 16);
    vf last = vf_set(-INFINITY), total = vf_set(0.0f);
    if (n > full) last = vf_fill(score_scaled(vf_load_n(s + full, rest), by, cap, capped), rest, -INFINITY);
    vf top = last;
    for (int i = 0; i < full; i += 16) {
        vf v = score_scaled(vf_load(s + i), by, cap, capped);
        vf_store(s + i, v);
        top = vf_max(top, v);
    }
    *max = vf_top(top);
    const vf shift = vf_set(*max);
    for (int i = 0; i < full; i += 16) {
        vf e = vf_exp(vf_sub(vf_load(s + i), shift));
        vf_store(s + i, e);
        total = vf_add(total, e);
    }
    if (n > full) {
        last = vf_exp(vf_sub(last, shift));
        total = vf_add(total, last);
    }
    *sum = vf_sum(total);
    const vf inverse = vf_set(1.0f / *sum);
    for (int i = 0; i < full; i += 16) vf_store(s + i, vf_mul(vf_load(s + i), inverse));
    if (n > full) vf_store_n(s + full, vf_mul(last, inverse), rest);
}

static void softmax(float *s, int n, float scale, float softcap, float *max, float *sum) {
    if (softcap != 0.0f) {
        softmax_row(s, n, scale, softcap, max, sum, true);
    } else {
        softmax_row(s, n, scale, softcap, max, sum, false);
    }
}

VECTOR vf vf_activation(vf x, int kind) {
    const vf zero = vf_set(0.0f), one = vf_set(1.0f);
    switch (kind) {
    case ACT_RELU:
        return vf_pick_negative(x, zero, x);
    case ACT_SILU:
        return vf_div(x, vf_add(one, vf_exp(vf_sub(zero, x))));
    case ACT_GELU_ERF: { /* x/2 (1 + erf z) = x/2 erfc(-z), and erfc(-z) = 2 - erfc(z) */
        vf tail = vf_erfc(vf_abs(vf_mul(x, vf_set(0.70710678f))));
        return vf_mul(vf_mul(vf_set(0.5f), x), vf_pick_negative(x, tail, vf_sub(vf_set(2.0f), tail)));
    }
    case ACT_GELU_TANH: {
        vf cube = vf_mul(vf_mul(x, x), x);
        vf z = vf_mul(vf_set(0.79788456f), vf_fma(vf_set(0.044715f), cube, x));
        return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(one, vf_tanh(z)));
    }
    case ACT_RELU2: {
        vf positive = vf_pick_negative(x, zero, x);
        return vf_mul(positive, positive);
    }
    case ACT_GELU_QUICK:
        return vf_div(x, vf_add(one, vf_exp(vf_mul(vf_set(-1.702f), x))));
    default:
        return x;
    }
}

VECTOR void activate_kind(float *y, const float *gate, const float *up, int n, int kind) {
    if (up == NULL) {
#define BODY(LOAD, STORE) STORE(y + i, vf_activation(LOAD(gate + i), kind));
        FOR_ROW(n, BODY);
#undef BODY
    } else {
#define BODY(LOAD, STORE) STORE(y + i, vf_mul(vf_activation(LOAD(gate + i), kind), LOAD(up + i)));
        FOR_ROW(n, BODY);
#undef BODY
    }
}

/* One loop for each kind: nothing is chosen inside it. */
static void activate(float *y, const float *gate, const float *up, int n, int kind) {
    switch (kind) {
    case ACT_RELU:
        activate_kind(y, gate, up, n, ACT_RELU);
        break;
    case ACT_SILU:
        activate_kind(y, gate, up, n, ACT_SILU);
        break;
    case ACT_GELU_ERF:
        activate_kind(y, gate, up, n, ACT_GELU_ERF);
        break;
    case ACT_GELU_TANH:
        activate_kind(y, gate, up, n, ACT_GELU_TANH);
        break;
    case ACT_RELU2:
        activate_kind(y, gate, up, n, ACT_RELU2);
        break;
    case ACT_GELU_QUICK:
        activate_kind(y, gate, up, n, ACT_GELU_QUICK);
        break;
    default:
        activate_kind(y, gate, up, n, -1);
        break;
    }
}

static void add(float *y, const float *x, int n) {
#define BODY(LOAD, STORE) STORE(y + i, vf_add(LOAD(y + i), LOAD(x + i)));
    FOR_ROW(n, BODY);
#undef BODY
}

static void add_scaled(float *y, const float *x, float a, int n) {
    const vf by = vf_set(a);
#define BODY(LOAD, STORE) STORE(y + i, vf_add(LOAD(y + i), vf_mul(by, LOAD(x + i))));
    FOR_ROW(n, BODY);
#undef BODY
}

static void merge(float *o, const float *p, float a, float b, int n) {
    const vf va = vf_set(a), vb = vf_set(b);
#define BODY(LOAD, STORE) STORE(o + i, vf_add(vf_mul(LOAD(o + i), va), vf_mul(LOAD(p + i), vb)));
    FOR_ROW(n, BODY);
#undef BODY
}

#endif
