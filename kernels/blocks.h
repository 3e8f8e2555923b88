/* blocks.h - the block types' bytes, and the reference decoders and encoders behind dtype.h.
 *
 * A block type cuts a row into blocks of 32 or 256 elements; a block holds small integers and what scales them. The layouts
 * are GGML's (llama.cpp), so that a GGUF's tensors are read as they lie. All numbers are little-endian; f16 is IEEE binary16.
 * In memory a block may start at any byte: copy it into its struct before reading its fields. */
#ifndef TALLY_BLOCKS_H
#define TALLY_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/dtype.h"

/* x[i] = d * q[i]
 *   byte 0    2                                34
 *        | d  | q[0] q[1] ...            q[31] | */
typedef struct {
    uint16_t d;   /* f16 */
    int8_t q[32]; /* -127..127 as written by encode_q8_0; -128 is read as it is */
} block_q8_0;
_Static_assert(sizeof(block_q8_0) == 34, "8.5 bits an element");

/* x[i] = d * (q[i] - 8), q in 0..15. Byte i holds element i in its low half and element i + 16 in its high half.
 *   byte 0    2                      18
 *        | d  | q[16|0] ... q[31|15] | */
typedef struct {
    uint16_t d; /* f16 */
    uint8_t q[16];
} block_q4_0;
_Static_assert(sizeof(block_q4_0) == 18, "4.5 bits an element");

/* x[i] = d * q[i] + m, q in 0..15, packed as in Q4_0.
 *   byte 0    2    4                      20
 *        | d  | m  | q[16|0] ... q[31|15] | */
typedef struct {
    uint16_t d, m; /* f16 */
    uint8_t q[16];
} block_q4_1;
_Static_assert(sizeof(block_q4_1) == 20, "5 bits an element");

/* x[i] = d * (q[i] - 16), q in 0..31: the low four bits packed as in Q4_0, the fifth of element i is bit i of high.
 *   byte 0    2      6                      22
 *        | d  | high | q[16|0] ... q[31|15] | */
typedef struct {
    uint16_t d;      /* f16 */
    uint8_t high[4]; /* one little-endian word of 32 bits */
    uint8_t q[16];
} block_q5_0;
_Static_assert(sizeof(block_q5_0) == 22, "5.5 bits an element");

/* x[i] = d * q[i] + m, q in 0..31, packed as in Q5_0.
 *   byte 0    2    4      8                      24
 *        | d  | m  | high | q[16|0] ... q[31|15] | */
typedef struct {
    uint16_t d, m; /* f16 */
    uint8_t high[4];
    uint8_t q[16];
} block_q5_1;
_Static_assert(sizeof(block_q5_1) == 24, "6 bits an element");

/* The K types: 256 elements in groups with a small scale each, and one f16 (or two) that scales the scales. */

/* 16 groups of 16: x[i] = d * (scale & 15) * q - dmin * (scale >> 4), q in 0..3.
 * Byte 32*h + l of q holds elements 128*h + 32*s + l for s = 0..3, in bits 2*s and 2*s + 1.
 *   byte 0             16           80   82     84
 *        | scales[16]  | q[64]      | d  | dmin | */
typedef struct {
    uint8_t scales[16]; /* low half: scale of q; high half: what is subtracted */
    uint8_t q[64];
    uint16_t d, dmin; /* f16 */
} block_q2_k;
_Static_assert(sizeof(block_q2_k) == 84, "2.625 bits an element");

/* 16 groups of 16: x[i] = d * (scale - 32) * (q - 4), q in 0..7: two low bits packed as in Q2_K, and a third bit:
 * bit 4*h + s of high[l] belongs to element 128*h + 32*s + l.
 * The 6-bit scale of group g: four low bits in a half of byte g % 8 (the high half from group 8 on), two high bits in byte
 * 8 + g % 4, at bit 2 * (g / 4).
 *   byte 0          32         96           108  110
 *        | high[32] | q[64]    | scales[12] | d  | */
typedef struct {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scales[12];
    uint16_t d; /* f16 */
} block_q3_k;
_Static_assert(sizeof(block_q3_k) == 110, "3.4375 bits an element");

/* 8 groups of 32: x[i] = d * scale * q - dmin * min, q in 0..15.
 * Byte 32*p + l of q holds element 64*p + l in its low half and element 64*p + 32 + l in its high half.
 * The 6-bit scales and mins of groups 0..3 are the low six bits of bytes 0..3 and 4..7; those of groups 4..7 have their low four
 * bits in the halves of bytes 8..11 (scale low, min high) and their high two in the top bits of bytes 0..3 and 4..7.
 *   byte 0    2      4            16             144
 *        | d  | dmin | scales[12] | q[128]       | */
typedef struct {
    uint16_t d, dmin; /* f16 */
    uint8_t scales[12];
    uint8_t q[128];
} block_q4_k;
_Static_assert(sizeof(block_q4_k) == 144, "4.5 bits an element");

/* As Q4_K with q in 0..31: the fifth bit of group g, element l, is bit g of high[l].
 *   byte 0    2      4            16         48            176
 *        | d  | dmin | scales[12] | high[32] | q[128]      | */
typedef struct {
    uint16_t d, dmin; /* f16 */
    uint8_t scales[12];
    uint8_t high[32];
    uint8_t q[128];
} block_q5_k;
_Static_assert(sizeof(block_q5_k) == 176, "5.5 bits an element");

/* 16 groups of 16: x[i] = d * scale * (q - 32), q in 0..63.
 * Element 128*h + 32*s + l: four low bits in byte 64*h + 32*(s % 2) + l of low (its high half for s = 2, 3), two high bits in
 * byte 32*h + l of high, at bit 2*s.
 *   byte 0           128        192          208  210
 *        | low[128]  | high[64] | scales[16] | d  | */
typedef struct {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t d; /* f16 */
} block_q6_k;
_Static_assert(sizeof(block_q6_k) == 210, "6.5625 bits an element");

/* Decodes n elements of blocks of `elems` elements and `bytes` bytes through `one`, which decodes a whole block. */
void blocks_decode(float *out, const void *in, size_t n, size_t elems, size_t bytes,
                   void (*one)(float *out, const void *block));

/* The functions of the rows of DTYPE_LIST; contract in dtype.h. */
void decode_f32(float *out, const void *in, size_t n);
void decode_f16(float *out, const void *in, size_t n);
void decode_bf16(float *out, const void *in, size_t n);
void decode_f64(float *out, const void *in, size_t n);
void decode_q8_0(float *out, const void *in, size_t n);
void decode_q4_0(float *out, const void *in, size_t n);
void decode_q4_1(float *out, const void *in, size_t n);
void decode_q5_0(float *out, const void *in, size_t n);
void decode_q5_1(float *out, const void *in, size_t n);
void decode_q2_k(float *out, const void *in, size_t n);
void decode_q3_k(float *out, const void *in, size_t n);
void decode_q4_k(float *out, const void *in, size_t n);
void decode_q5_k(float *out, const void *in, size_t n);
void decode_q6_k(float *out, const void *in, size_t n);

void encode_f32(void *out, const float *in, size_t n);
void encode_f16(void *out, const float *in, size_t n);

/* d = max |x| / 127 in f16, q = x / d rounded, halves away from zero (GGML's reference: the same bytes). d is taken before its
 * rounding to f16, as there. A block that holds an infinity or a NaN gets d = NaN, so that it cannot pass for numbers. */
void encode_q8_0(void *out, const float *in, size_t n);

extern const storage_traits storage_f32, storage_f16, storage_q8_0, storage_i8g;

#endif
