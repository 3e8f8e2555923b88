/* type_q8_0.c - 8-bit integers with one f16 scale for 32 of them (bytes: blocks.h). */
#include <math.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

static void decode_block(float *out, const void *in) {
    block_q8_0 b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; i++) out[i] = d * (float)b.q[i];
}

void decode_q8_0(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 32, sizeof(block_q8_0), decode_block);
}

static void encode_block(void *out, const float x[32]) {
    float max = 0;
    bool finite = true;
    for (int i = 0; i < 32; i++) {
        max = fmaxf(max, fabsf(x[i]));
        finite = finite && isfinite(x[i]);
    }
    float d = max / 127, inverse = d > 0 ? 1 / d : 0;
    block_q8_0 b = {.d = finite ? f32_to_f16(d) : 0x7e00};
    /* 1/d overflows only where d itself is zero in f16: the block reads as zeros whatever q is. */
    if (!finite || isinf(inverse)) inverse = 0;
    for (int i = 0; i < 32; i++) b.q[i] = inverse > 0 ? (int8_t)roundf(x[i] * inverse) : 0;
    memcpy(out, &b, sizeof b);
}

void encode_q8_0(void *out, const float *in, size_t n) {
    uint8_t *block = out;
    for (; n >= 32; n -= 32, in += 32, block += sizeof(block_q8_0)) encode_block(block, in);
    if (n > 0) {
        float last[32] = {0};
        memcpy(last, in, n * sizeof *in);
        encode_block(block, last);
    }
}
