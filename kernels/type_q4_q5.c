/* type_q4_q5.c - Q4_0, Q4_1, Q5_0, Q5_1: 4 or 5 bits an element, 32 elements a block (bytes: blocks.h). */
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

/* Element i of 32 packed two a byte. */
static int low4(const uint8_t q[16], int i) {
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

static int fifth_bit(const uint8_t high[4], int i) {
    return (high[i / 8] >> (i % 8) & 1) << 4;
}

static void block_4_0(float *out, const void *in) {
    block_q4_0 b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(low4(b.q, i) - 8);
}

static void block_4_1(float *out, const void *in) {
    block_q4_1 b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
    for (int i = 0; i < 32; i++) out[i] = d * (float)low4(b.q, i) + m;
}

static void block_5_0(float *out, const void *in) {
    block_q5_0 b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; i++) out[i] = d * (float)((low4(b.q, i) | fifth_bit(b.high, i)) - 16);
}

static void block_5_1(float *out, const void *in) {
    block_q5_1 b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
    for (int i = 0; i < 32; i++) out[i] = d * (float)(low4(b.q, i) | fifth_bit(b.high, i)) + m;
}

void decode_q4_0(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 32, sizeof(block_q4_0), block_4_0);
}

void decode_q4_1(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 32, sizeof(block_q4_1), block_4_1);
}

void decode_q5_0(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 32, sizeof(block_q5_0), block_5_0);
}

void decode_q5_1(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 32, sizeof(block_q5_1), block_5_1);
}
