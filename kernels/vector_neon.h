/* vector_neon.h - the 16-lane vector of simd_*.h in NEON (AArch64's baseline): four registers.
 *
 * What each function must do is said in simd.h. NEON has no masked loads: short rows go through a copy. */
#ifndef TALLY_VECTOR_NEON_H
#define TALLY_VECTOR_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#include "kernels/simd.h"

typedef struct {
    float32x4_t v[4]; /* lanes 0..3, 4..7, 8..11, 12..15 */
} vf;
typedef struct {
    int32x4_t v[4];
} vi;
typedef struct {
    int n;
} vm;
typedef struct {
    int8x16_t v[4]; /* 4 rows of 4 bytes each */
} vq;

VECTOR vm vm_first(int n) {
    return (vm){n};
}

#define EACH(expression)                                                                                                       \
    vf r;                                                                                                                      \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) r.v[i] = (expression);                                                 \
    return r

VECTOR vf vf_set(float x) {
    EACH(vdupq_n_f32(x));
}
VECTOR vf vf_load(const float *p) {
    EACH(vld1q_f32(p + 4 * i));
}
VECTOR void vf_store(float *p, vf x) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, x.v[i]);
}
VECTOR vf vf_load_n(const float *p, vm m) {
    float t[16] = {0};
    memcpy(t, p, (size_t)m.n * sizeof *t);
    return vf_load(t);
}
VECTOR void vf_store_n(float *p, vf x, vm m) {
    float t[16];
    vf_store(t, x);
    memcpy(p, t, (size_t)m.n * sizeof *t);
}

VECTOR vf vf_add(vf x, vf y) {
    EACH(vaddq_f32(x.v[i], y.v[i]));
}
VECTOR vf vf_sub(vf x, vf y) {
    EACH(vsubq_f32(x.v[i], y.v[i]));
}
VECTOR vf vf_mul(vf x, vf y) {
    EACH(vmulq_f32(x.v[i], y.v[i]));
}
VECTOR vf vf_div(vf x, vf y) {
    EACH(vdivq_f32(x.v[i], y.v[i]));
}
VECTOR vf vf_fma(vf x, vf y, vf z) {
    EACH(vfmaq_f32(z.v[i], x.v[i], y.v[i]));
}
/* x > y ? x : y, so that b is taken where either is NaN, as on x86. */
VECTOR vf vf_max(vf x, vf y) {
    EACH(vbslq_f32(vcgtq_f32(x.v[i], y.v[i]), x.v[i], y.v[i]));
}
VECTOR vf vf_min(vf x, vf y) {
    EACH(vbslq_f32(vcltq_f32(x.v[i], y.v[i]), x.v[i], y.v[i]));
}
VECTOR vf vf_abs(vf x) {
    EACH(vabsq_f32(x.v[i]));
}
VECTOR vf vf_round(vf x) {
    EACH(vrndnq_f32(x.v[i]));
}
/* In two steps, so that neither power of two leaves the range of the exponent and only the last step can round. */
VECTOR float32x4_t scale_quarter(float32x4_t x, float32x4_t n) {
    int32x4_t all = vcvtnq_s32_f32(n), one = vshrq_n_s32(all, 1), two = vsubq_s32(all, one), bias = vdupq_n_s32(127);
    x = vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(one, bias), 23)));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(two, bias), 23)));
}
VECTOR vf vf_scale(vf x, vf n) {
    EACH(scale_quarter(x.v[i], n.v[i]));
}
VECTOR vf vf_pick_negative(vf x, vf a, vf b) {
    EACH(vbslq_f32(vcltzq_f32(x.v[i]), a.v[i], b.v[i]));
}
VECTOR vf vf_fill(vf x, vm m, float rest) {
    static const int32_t lane[4] = {0, 1, 2, 3};
    EACH(vbslq_f32(vcltq_s32(vaddq_s32(vld1q_s32(lane), vdupq_n_s32(4 * i)), vdupq_n_s32(m.n)), x.v[i], vdupq_n_f32(rest)));
}
VECTOR bool vf_finite(vf x) {
    float32x4_t s = vdupq_n_f32(0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) s = vaddq_f32(s, vsubq_f32(x.v[i], x.v[i]));
    return vaddvq_f32(s) == 0.0f;
}

VECTOR float vf_sum(vf x) {
    float32x4_t a = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
VECTOR float vf_top(vf x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.v[0], x.v[1]), vmaxq_f32(x.v[2], x.v[3])));
}

VECTOR vf vf_from_half(const void *p) {
    uint16_t h[16];
    memcpy(h, p, sizeof h);
    EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h + 4 * i))));
}
VECTOR vf vf_from_half_n(const void *p, vm m) {
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)m.n * sizeof *h);
    return vf_from_half(h);
}
VECTOR void vf_to_half(void *p, vf x) {
    uint16_t h[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) vst1_u16(h + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.v[i])));
    memcpy(p, h, sizeof h);
}
VECTOR void vf_to_half_n(void *p, vf x, vm m) {
    uint16_t h[16];
    vf_to_half(h, x);
    memcpy(p, h, (size_t)m.n * sizeof *h);
}
VECTOR vf vf_from_int8(const void *p) {
    int8x16_t q = vld1q_s8(p);
    int16x8_t w[2] = {vmovl_s8(vget_low_s8(q)), vmovl_s8(vget_high_s8(q))};
    EACH(vcvtq_f32_s32(vmovl_s16(i % 2 == 0 ? vget_low_s16(w[i / 2]) : vget_high_s16(w[i / 2]))));
}
VECTOR vf vf_from_int8_n(const void *p, vm m) {
    int8_t q[16] = {0};
    memcpy(q, p, (size_t)m.n);
    return vf_from_int8(q);
}

VECTOR float32x4_t word_quarter(const int8_t *p, int i) {
    int32x4_t top = vshlq_s32(vreinterpretq_s32_s8(vld1q_s8(p)), vdupq_n_s32(24 - 8 * i));
    return vcvtq_f32_s32(vshrq_n_s32(top, 24));
}
VECTOR vf vf_from_word(const void *p, int byte) {
    EACH(word_quarter((const int8_t *)p + 16 * i, byte));
}

VECTOR int32_t vf_to_int8(int8_t *p, vf x) {
    int32x4_t n[4], sum = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        n[i] = vcvtnq_s32_f32(x.v[i]);
        sum = vaddq_s32(sum, n[i]);
    }
    int16x8_t lo = vcombine_s16(vqmovn_s32(n[0]), vqmovn_s32(n[1])), hi = vcombine_s16(vqmovn_s32(n[2]), vqmovn_s32(n[3]));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
    return vaddvq_s32(sum);
}
VECTOR vf vf_from_int(vi x) {
    EACH(vcvtq_f32_s32(x.v[i]));
}

VECTOR vq vq_load(const void *p) {
    vq r;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) r.v[i] = vld1q_s8((const int8_t *)p + 16 * i);
    return r;
}
VECTOR vq vq_load_n(const void *p, vm m) {
    int8_t t[64] = {0};
    memcpy(t, p, (size_t)m.n * 4);
    return vq_load(t);
}
VECTOR vi vi_start(int32_t x_sum) {
    (void)x_sum;
    vi r;
    for (int i = 0; i < 4; i++) r.v[i] = vdupq_n_s32(0);
    return r;
}
/* Products in 16 bits (at most 128 * 127), added in pairs in 32. */
VECTOR vi vi_dot(vi acc, vq w, const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    int8x16_t b = vreinterpretq_s8_s32(vdupq_n_s32(four));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int32x4_t lo = vpaddlq_s16(vmull_s8(vget_low_s8(w.v[i]), vget_low_s8(b)));
        int32x4_t hi = vpaddlq_s16(vmull_s8(vget_high_s8(w.v[i]), vget_high_s8(b)));
        acc.v[i] = vaddq_s32(acc.v[i], vpaddq_s32(lo, hi));
    }
    return acc;
}

#undef EACH
#endif
