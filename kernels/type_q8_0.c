/* type_q8_0.c - 8-bit integers with one f16 scale for 32 of them (bytes: blocks.h), and as a storage of weights.
 *
 * A block of a panel of w rows: the scales of all rows, then words of four k, row by row; 34*w bytes:
 *
 *   d0 d1 ... d(w-1) | r0: q0 q1 q2 q3 | r1: q0 q1 q2 q3 | ... | r0: q4 q5 q6 q7 | ... */
#include <math.h>

#include "kernels/blocks.h"
#include "kernels/interleave.h"
#include "kernels/sizes.h"
#include "kernels/storage.h"

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

enum { BLOCK = 32, BYTES = sizeof(block_q8_0), SCALE = sizeof(uint16_t), WORD = 4 };

static void pack(unsigned char *panel, panel_shape s, const storage_rows *rows) {
    const unsigned char *block = rows->data;
    for (size_t k = 0; k < s.n; k += BLOCK, block += BYTES, panel += BYTES * (size_t)s.width) {
        panel_interleave(panel, block, rows->stride, s.width, 1, SCALE);
        panel_interleave(panel + SCALE * (size_t)s.width, block + SCALE, rows->stride, s.width, BLOCK / WORD, WORD);
    }
}

static void unpack_block(unsigned char *out, const unsigned char *panel, int width, int r) {
    panel_gather(out, panel, width, r, 1, SCALE);
    panel_gather(out + SCALE, panel + SCALE * (size_t)width, width, r, BLOCK / WORD, WORD);
}

static void unpack(unsigned char *row, const unsigned char *panel, panel_shape s, int r) {
    for (size_t k = 0; k < s.n; k += BLOCK, row += BYTES, panel += BYTES * (size_t)s.width) {
        unpack_block(row, panel, s.width, r);
    }
}

static void row_q8_0(float *out, const unsigned char *panel, panel_shape s, int r) {
    for (size_t k = 0; k < s.n; k += BLOCK, panel += BYTES * (size_t)s.width) {
        unsigned char block[BYTES];
        unpack_block(block, panel, s.width, r);
        decode_q8_0(out + k, block, s.n - k < BLOCK ? s.n - k : BLOCK);
    }
}

static void decode_panel(float *out, const unsigned char *panel, panel_shape s, const kernel_set *kernels) {
    size_t width = (size_t)s.width;
    for (size_t column = 0; column < s.n; column += BLOCK, panel += BYTES * width) {
        size_t left = s.n - column < BLOCK ? s.n - column : BLOCK;
        const int8_t *q = (const int8_t *)(panel + SCALE * width);
        uint16_t h[16];
        float scale[16];
        memcpy(h, panel, width * sizeof *h);
        kernels->f16_to_f32(scale, h, width);
        if (width == 16) {
            kernels->int8_scaled(out + column * 16, q, scale, (int)left, true);
            continue;
        }
        for (size_t r = 0; r < width; r++) {
            for (size_t k = 0; k < left; k++) {
                out[(column + k) * width + r] = scale[r] * (float)q[(k / WORD * width + r) * WORD + k % WORD];
            }
        }
    }
}

/* A block of x in int8: x ~ scale * q, scale = max|x| / 127, q to nearest even. A scale of NaN where x is not all finite. */
static float quantise_block(int8_t q[BLOCK], const float *x, size_t n) {
    float top = 0;
    bool finite = true;
    for (size_t k = 0; k < n; k++) {
        top = fmaxf(top, fabsf(x[k]));
        finite = finite && isfinite(x[k]);
    }
    float inverse = finite && top > 0 && isfinite(127.0f / top) ? 127.0f / top : 0;
    for (size_t k = 0; k < BLOCK; k++) {
        float v = k < n && inverse > 0 ? nearbyintf(x[k] * inverse) : 0;
        q[k] = (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
    }
    return finite ? top / 127.0f : NAN;
}

/* int8 x int8: in each block an exact integer sum, times both scales; blocks in order. */
static float dot(const void *row, const float *x, size_t n, size_t group) {
    (void)group;
    const unsigned char *bytes = row;
    float sum = 0;
    for (size_t k = 0; k < n; k += BLOCK, bytes += BYTES) {
        block_q8_0 w;
        int8_t q[BLOCK];
        int32_t total = 0;
        memcpy(&w, bytes, sizeof w);
        float scale = quantise_block(q, x + k, n - k < BLOCK ? n - k : BLOCK);
        for (int i = 0; i < BLOCK; i++) total += w.q[i] * q[i];
        sum += (float)total * (f16_to_f32(w.d) * scale);
    }
    return sum;
}

const storage_traits storage_q8_0 = {.product = PRODUCT_DECODED,
                                     .meets_int8 = true,
                                     .decode_flops = 1,
                                     .pack = pack,
                                     .unpack = unpack,
                                     .row = row_q8_0,
                                     .decode = decode_panel,
                                     .dot = dot};
