/* type_f16.c - IEEE 754 binary16: one number at a time, rows, and as a storage of weights.
 *
 *   bit 15   14..10    9..0           1.fraction * 2^(exponent - 15); exponent 0: fraction * 2^-24; exponent 31: infinity or NaN
 *      sign  exponent  fraction       largest 65504; smallest 2^-14 with all its bits, 2^-24 at all
 *
 * In a panel as fp32 (type_f32.c), at 2 bytes an element. */
#include <math.h>

#include "kernels/blocks.h"
#include "kernels/interleave.h"
#include "kernels/storage.h"

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

/* Every case is computed and one is chosen, without a branch: loops over this become vectors. */
static inline uint16_t half_of(float x) {
    uint32_t sign = bits_of(x) >> 16 & 0x8000, magnitude = bits_of(x) & 0x7fffffff;
    /* 2^-14 and above: the bias goes from 127 to 15, and 13 bits are dropped: to nearest, halves to even. */
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* Subnormal: next to 1/2 an fp32 is a multiple of 2^-24, so that the addition rounds as fp16 does. */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff); /* made quiet, the upper payload kept */
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
    half = magnitude >= 0x477ff000 ? 0x7c00 : half; /* 65520 and above lie nearer to 2^16 than to 65504 */
    half = magnitude > 0x7f800000 ? nan : half;
    return (uint16_t)(sign | half);
}

uint16_t f32_to_f16(float x) {
    return half_of(x);
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

bool f16_overflows(float x) {
    return isfinite(x) && fabsf(x) >= 65520.0f;
}

void f16_count_misfits(const float *x, size_t n, uint64_t *n_overflow, uint64_t *n_underflow) {
    while (n > 0) {
        uint32_t over = 0, under = 0;
        size_t some = n < 4096 ? n : 4096; /* counters as wide as the elements */
        for (size_t i = 0; i < some; i++) {
            uint32_t magnitude = bits_of(x[i]) & 0x7fffffff;
            over += magnitude >= 0x477ff000 && magnitude < 0x7f800000;
            under += magnitude != 0 && magnitude <= 102u << 23; /* 2^-25 lies between 0 and 2^-24: 0 is even */
        }
        *n_overflow += over, *n_underflow += under;
        x += some, n -= some;
    }
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
        uint16_t h = half_of(in[i]);
        memcpy(bytes + i * sizeof h, &h, sizeof h);
    }
}

static void pack(unsigned char *panel, panel_shape s, const storage_rows *rows) {
    panel_interleave(panel, rows->data, rows->stride, s.width, s.n, sizeof(uint16_t));
}

static void unpack(unsigned char *row, const unsigned char *panel, panel_shape s, int r) {
    panel_gather(row, panel, s.width, r, s.n, sizeof(uint16_t));
}

static void row_f16(float *out, const unsigned char *panel, panel_shape s, int r) {
    for (size_t k = 0; k < s.n; k++) {
        uint16_t h;
        memcpy(&h, panel + (k * (size_t)s.width + (size_t)r) * sizeof h, sizeof h);
        out[k] = f16_to_f32(h);
    }
}

static void decode_panel(float *out, const unsigned char *panel, panel_shape s, const kernel_set *kernels) {
    kernels->f16_to_f32(out, (const uint16_t *)(const void *)panel, (size_t)s.width * s.n);
}

static float dot(const void *row, const float *x, size_t n, size_t group) {
    (void)group;
    const unsigned char *bytes = row;
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
        uint16_t h;
        memcpy(&h, bytes + k * sizeof h, sizeof h);
        sum += f16_to_f32(h) * x[k];
    }
    return sum;
}

const storage_traits storage_f16 = {
    .product = PRODUCT_F16, .pack = pack, .unpack = unpack, .row = row_f16, .decode = decode_panel, .dot = dot};
