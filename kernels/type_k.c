/* type_k.c - Q2_K to Q6_K: 256 elements a block, in groups with scales of their own (bytes: blocks.h). */
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

/* Two bits of element i: byte 32*h + l, bits 2*s, where i = 128*h + 32*s + l. Q2_K, Q3_K, and the upper bits of Q6_K. */
static int two_bits(const uint8_t q[64], int i) {
    return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* Four bits of element i: byte 32*p + l, the low half for the first 32 of each 64. Q4_K and Q5_K. */
static int four_bits(const uint8_t q[128], int i) {
    uint8_t byte = q[i / 64 * 32 + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
}

static void block_2(float *out, const void *in) {
    block_q2_k b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
    for (int i = 0; i < 256; i++) {
        int scale = b.scales[i / 16];
        out[i] = d * (float)(scale & 15) * (float)two_bits(b.q, i) - dmin * (float)(scale >> 4);
    }
}

static int scale_q3(const uint8_t scales[12], int group) {
    int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

static void block_3(float *out, const void *in) {
    block_q3_k b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d);
    for (int i = 0; i < 256; i++) {
        int third = (b.high[i % 32] >> (i / 32) & 1) << 2;
        out[i] = d * (float)scale_q3(b.scales, i / 16) * (float)((two_bits(b.q, i) | third) - 4);
    }
}

/* The 6-bit scale and min of a group of Q4_K and Q5_K. */
static void scale_and_min(const uint8_t scales[12], int group, float *scale, float *min) {
    int s, m;
    if (group < 4) {
        s = scales[group] & 63;
        m = scales[group + 4] & 63;
    } else {
        int i = group - 4; /* 0..3 */
        s = (scales[i + 8] & 15) | scales[i] >> 6 << 4;
        m = scales[i + 8] >> 4 | scales[i + 4] >> 6 << 4;
    }
    *scale = (float)s;
    *min = (float)m;
}

static void block_4(float *out, const void *in) {
    block_q4_k b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin), scale, min;
    for (int i = 0; i < 256; i++) {
        scale_and_min(b.scales, i / 32, &scale, &min);
        out[i] = d * scale * (float)four_bits(b.q, i) - dmin * min;
    }
}

static void block_5(float *out, const void *in) {
    block_q5_k b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin), scale, min;
    for (int i = 0; i < 256; i++) {
        int fifth = (b.high[i % 32] >> (i / 32) & 1) << 4;
        scale_and_min(b.scales, i / 32, &scale, &min);
        out[i] = d * scale * (float)(four_bits(b.q, i) | fifth) - dmin * min;
    }
}

static void block_6(float *out, const void *in) {
    block_q6_k b;
    memcpy(&b, in, sizeof b);
    float d = f16_to_f32(b.d);
    for (int i = 0; i < 256; i++) {
        uint8_t byte = b.low[i / 128 * 64 + i % 64];
        int low = i % 128 < 64 ? byte & 15 : byte >> 4;
        int q = (low | two_bits(b.high, i) << 4) - 32;
        out[i] = d * (float)b.scales[i / 16] * (float)q;
    }
}

void decode_q2_k(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 256, sizeof(block_q2_k), block_2);
}

void decode_q3_k(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 256, sizeof(block_q3_k), block_3);
}

void decode_q4_k(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 256, sizeof(block_q4_k), block_4);
}

void decode_q5_k(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 256, sizeof(block_q5_k), block_5);
}

void decode_q6_k(float *out, const void *in, size_t n) {
    blocks_decode(out, in, n, 256, sizeof(block_q6_k), block_6);
}
