/* vector_avx2.h - the 16-lane vector of simd_*.h in AVX2, FMA and F16C: two registers.
 *
 * What each function must do is said in simd.h. AVX2 masks whole 32-bit words only: short rows of fp16 and int8 are copied. */
#ifndef TALLY_VECTOR_AVX2_H
#define TALLY_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/simd.h"

typedef struct {
    __m256 a, b; /* lanes 0..7, 8..15 */
} vf;
typedef struct {
    __m256i a, b;
} vi;
typedef struct {
    __m256i a, b;
    int n;
} vm;
typedef struct {
    __m256i a, b, size_a, size_b; /* the weights, and their absolute values as unsigned bytes */
} vq;

VECTOR vm vm_first(int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vm){_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane), _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane), n};
}

VECTOR vf vf_set(float x) {
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
VECTOR vf vf_load(const float *p) {
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
VECTOR vf vf_load_n(const float *p, vm m) {
    return (vf){_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}
VECTOR void vf_store(float *p, vf v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
VECTOR void vf_store_n(float *p, vf v, vm m) {
    _mm256_maskstore_ps(p, m.a, v.a);
    _mm256_maskstore_ps(p + 8, m.b, v.b);
}

#define VECTOR_BINARY(name, op)                                                                                                \
    VECTOR vf name(vf x, vf y) {                                                                                               \
        return (vf){op(x.a, y.a), op(x.b, y.b)};                                                                               \
    }
VECTOR_BINARY(vf_add, _mm256_add_ps)
VECTOR_BINARY(vf_sub, _mm256_sub_ps)
VECTOR_BINARY(vf_mul, _mm256_mul_ps)
VECTOR_BINARY(vf_div, _mm256_div_ps)
VECTOR_BINARY(vf_max, _mm256_max_ps)
VECTOR_BINARY(vf_min, _mm256_min_ps)

VECTOR vf vf_fma(vf x, vf y, vf z) {
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
VECTOR vf vf_abs(vf x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
VECTOR vf vf_round(vf x) {
    return (vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

/* In two steps, so that neither power of two leaves the range of the exponent and only the last step can round. */
VECTOR __m256 scale_half(__m256 x, __m256 n) {
    __m256i all = _mm256_cvtps_epi32(n), one = _mm256_srai_epi32(all, 1), two = _mm256_sub_epi32(all, one);
    const __m256i bias = _mm256_set1_epi32(127);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(one, bias), 23)));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(two, bias), 23)));
}
VECTOR vf vf_scale(vf x, vf n) {
    return (vf){scale_half(x.a, n.a), scale_half(x.b, n.b)};
}
VECTOR vf vf_pick_negative(vf x, vf a, vf b) {
    const __m256 zero = _mm256_setzero_ps();
    return (vf){_mm256_blendv_ps(b.a, a.a, _mm256_cmp_ps(x.a, zero, _CMP_LT_OQ)),
                _mm256_blendv_ps(b.b, a.b, _mm256_cmp_ps(x.b, zero, _CMP_LT_OQ))};
}
VECTOR vf vf_fill(vf x, vm m, float rest) {
    const __m256 r = _mm256_set1_ps(rest);
    return (vf){_mm256_blendv_ps(r, x.a, _mm256_castsi256_ps(m.a)), _mm256_blendv_ps(r, x.b, _mm256_castsi256_ps(m.b))};
}
VECTOR bool vf_finite(vf x) {
    const __m256 zero = _mm256_setzero_ps();
    __m256 a = _mm256_cmp_ps(_mm256_sub_ps(x.a, x.a), zero, _CMP_NEQ_UQ);
    __m256 b = _mm256_cmp_ps(_mm256_sub_ps(x.b, x.b), zero, _CMP_NEQ_UQ);
    return _mm256_movemask_ps(_mm256_or_ps(a, b)) == 0;
}

VECTOR float vf_sum(vf x) {
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
VECTOR float vf_top(vf x) {
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

VECTOR vf vf_from_half(const void *p) {
    const uint16_t *h = p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + 8)))};
}
VECTOR vf vf_from_half_n(const void *p, vm m) {
    uint16_t h[16] = {0};
    memcpy(h, p, (size_t)m.n * sizeof *h);
    return vf_from_half(h);
}
VECTOR void vf_to_half(void *p, vf x) {
    uint16_t *h = p;
    _mm_storeu_si128((__m128i *)(void *)h, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(void *)(h + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VECTOR void vf_to_half_n(void *p, vf x, vm m) {
    uint16_t h[16];
    vf_to_half(h, x);
    memcpy(p, h, (size_t)m.n * sizeof *h);
}
VECTOR vf vf_from_int8(const void *p) {
    __m128i q = _mm_loadu_si128(p);
    return (vf){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)))};
}
VECTOR vf vf_from_int8_n(const void *p, vm m) {
    int8_t q[16] = {0};
    memcpy(q, p, (size_t)m.n);
    return vf_from_int8(q);
}

VECTOR __m256 word_half(const void *p, int i) {
    __m256i top = _mm256_sllv_epi32(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi32(24 - 8 * i));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}
VECTOR vf vf_from_word(const void *p, int i) {
    return (vf){word_half(p, i), word_half((const unsigned char *)p + 32, i)};
}

VECTOR int32_t vf_to_int8(int8_t *p, vf x) {
    __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b), sums = _mm256_add_epi32(a, b);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8); /* packs works on halves: put them in order */
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(s) + _mm_extract_epi32(s, 1);
}
VECTOR vf vf_from_int(vi x) {
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

/* vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits: |w| <= 128 by x with w's sign stays below 2^15. */
VECTOR vq vq_make(__m256i a, __m256i b) {
    return (vq){a, b, _mm256_abs_epi8(a), _mm256_abs_epi8(b)};
}
VECTOR vq vq_load(const void *p) {
    const int8_t *w = p;
    return vq_make(_mm256_loadu_si256((const __m256i *)(const void *)w),
                   _mm256_loadu_si256((const __m256i *)(const void *)(w + 32)));
}
VECTOR vq vq_load_n(const void *p, vm m) {
    const int *w = p;
    return vq_make(_mm256_maskload_epi32(w, m.a), _mm256_maskload_epi32(w + 8, m.b));
}
VECTOR vi vi_start(int32_t x_sum) {
    (void)x_sum;
    return (vi){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
VECTOR __m256i dot_half(__m256i acc, __m256i w, __m256i size, __m256i x) {
    __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
VECTOR vi vi_dot(vi acc, vq w, const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    __m256i v = _mm256_set1_epi32(four);
    return (vi){dot_half(acc.a, w.a, w.size_a, v), dot_half(acc.b, w.b, w.size_b, v)};
}

#endif
