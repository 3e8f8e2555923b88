/* type_float.c - f32, f16, bf16 and f64.
 *
 *         sign  exponent  fraction            f32 is 1.fraction * 2^(exponent - 127); exponent 0: no leading 1 (subnormal);
 *   f64    1      11        52                exponent all ones: infinity (fraction 0) or NaN. The others alike, with biases
 *   f32    1       8        23                1023, 15 and 127. bf16 is the upper half of an f32.
 *   bf16   1       8         7
 *   f16    1       5        10 */
#include <math.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Drops the lowest `shift` bits: to nearest, halves to even. */
static uint32_t shift_to_even(uint32_t x, int shift) {
    uint32_t half = 1u << (shift - 1), odd = (x >> shift) & 1;
    return (x + half - 1 + odd) >> shift;
}

uint16_t f32_to_f16(float x) {
    uint32_t sign = bits_of(x) >> 16 & 0x8000, magnitude = bits_of(x) & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff); /* NaN: made quiet, the upper payload kept */
    } else if (magnitude >= 0x477ff000) {
        half = 0x7c00; /* 65520 and above lie nearer to 2^16 than to 65504 */
    } else if (magnitude >= 0x38800000) {
        half = shift_to_even(magnitude - (112u << 23), 13); /* 2^-14 and above: the bias goes from 127 to 15 */
    } else if (magnitude >= 102u << 23) {
        uint32_t fraction = (magnitude & 0x7fffff) | 0x800000; /* subnormal: a multiple of 2^-24 */
        half = shift_to_even(fraction, 126 - (int)(magnitude >> 23));
    } else {
        half = 0; /* below 2^-25, half of the smallest subnormal */
    }
    return (uint16_t)(sign | half);
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 is exact in fp32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return float_of(sign | bits_of(magnitude));
    }
    if (exponent == 31) {
        uint32_t quiet = fraction != 0 ? 0x400000 : 0;
        return float_of(sign | 0x7f800000 | quiet | fraction << 13);
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

float bf16_to_f32(uint16_t h) {
    return float_of((uint32_t)h << 16);
}

bool f16_overflows(float x) {
    return isfinite(x) && fabsf(x) >= 65520.0f;
}

void decode_f32(float *out, const void *in, size_t n) {
    memcpy(out, in, n * sizeof *out);
}

void encode_f32(void *out, const float *in, size_t n) {
    memcpy(out, in, n * sizeof *in);
}

/* Elements in a file may start at any byte, hence memcpy. */
void decode_f16(float *out, const void *in, size_t n) {
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, bytes + i * sizeof h, sizeof h);
        out[i] = f16_to_f32(h);
    }
}

void encode_f16(void *out, const float *in, size_t n) {
    uint8_t *bytes = out;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = f32_to_f16(in[i]);
        memcpy(bytes + i * sizeof h, &h, sizeof h);
    }
}

void decode_bf16(float *out, const void *in, size_t n) {
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, bytes + i * sizeof h, sizeof h);
        out[i] = bf16_to_f32(h);
    }
}

void decode_f64(float *out, const void *in, size_t n) {
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, bytes + i * sizeof d, sizeof d);
        out[i] = (float)d; /* to nearest even; beyond fp32's range: infinity */
    }
}
