/* type_float.c - bf16 and f64: read from checkpoints, never computed with.
 *
 *         sign  exponent  fraction            1.fraction * 2^(exponent - bias); exponent 0: no leading 1 (subnormal);
 *   f64    1      11        52  bias 1023     exponent all ones: infinity (fraction 0) or NaN
 *   f32    1       8        23  bias  127
 *   bf16   1       8         7  bias  127     the upper half of an f32 */
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

float bf16_to_f32(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
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
