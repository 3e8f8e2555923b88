/* vector_avx512.h - the 16-lane vector of simd_*.h in AVX-512: one register, and a mask register for tails.
 *
 * What each function must do is said in simd.h. A masked lane is neither read nor written, and cannot fault. */
#ifndef TALLY_VECTOR_AVX512_H
#define TALLY_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/simd.h"

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512i vq;

VECTOR vm vm_first(int n) {
    return (vm)((1u << n) - 1u);
}

VECTOR vf vf_set(float x) {
    return _mm512_set1_ps(x);
}
VECTOR vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
VECTOR vf vf_load_n(const float *p, vm m) {
    return _mm512_maskz_loadu_ps(m, p);
}
VECTOR void vf_store(float *p, vf v) {
    _mm512_storeu_ps(p, v);
}
VECTOR void vf_store_n(float *p, vf v, vm m) {
    _mm512_mask_storeu_ps(p, m, v);
}

VECTOR vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
VECTOR vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
VECTOR vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
VECTOR vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
VECTOR vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
VECTOR vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
VECTOR vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
VECTOR vf vf_abs(vf a) {
    return _mm512_abs_ps(a);
}
VECTOR vf vf_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VECTOR vf vf_scale(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}
VECTOR vf vf_pick_negative(vf x, vf a, vf b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}
VECTOR vf vf_fill(vf a, vm m, float rest) {
    return _mm512_mask_mov_ps(_mm512_set1_ps(rest), m, a);
}
VECTOR bool vf_finite(vf a) {
    return _mm512_cmp_ps_mask(_mm512_sub_ps(a, a), _mm512_setzero_ps(), _CMP_NEQ_UQ) == 0;
}

VECTOR float vf_sum(vf a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VECTOR float vf_top(vf a) {
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

VECTOR vf vf_from_half(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
VECTOR vf vf_from_half_n(const void *p, vm m) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
}
VECTOR void vf_to_half(void *p, vf a) {
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VECTOR void vf_to_half_n(void *p, vf a, vm m) {
    _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VECTOR vf vf_from_int8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
VECTOR vf vf_from_int8_n(const void *p, vm m) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m, p)));
}

VECTOR vf vf_from_word(const void *p, int i) {
    __m512i top = _mm512_sllv_epi32(_mm512_loadu_si512(p), _mm512_set1_epi32(24 - 8 * i));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}

VECTOR int32_t vf_to_int8(int8_t *p, vf a) {
    __m512i n = _mm512_cvtps_epi32(a);
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtsepi32_epi8(n));
    return _mm512_reduce_add_epi32(n);
}
VECTOR vf vf_from_int(vi a) {
    return _mm512_cvtepi32_ps(a);
}

/* vpdpbusd multiplies unsigned by signed bytes: 128 is added to each weight, and 128 times the sum of x taken off at the start. */
VECTOR vq vq_load(const void *p) {
    return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80));
}
VECTOR vq vq_load_n(const void *p, vm m) {
    return _mm512_xor_si512(_mm512_maskz_loadu_epi32(m, p), _mm512_set1_epi8((char)0x80));
}
VECTOR vi vi_start(int32_t x_sum) {
    return _mm512_set1_epi32(-128 * x_sum);
}
VECTOR vi vi_dot(vi acc, vq w, const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(four));
}

#endif
