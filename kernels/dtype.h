/* dtype.h - the element types of tensors: what a checkpoint may hold, and what Tally stores and computes with.
 *
 * Each type is one row of DTYPE_LIST and one group of functions in a type_*.c file, which also shows its bytes (block types: blocks.h).
 * decode and encode are the plain references: clear, exact, not fast. Kernels have their own ways, tested against these.
 *
 * A row of n elements of a block type takes ceil(n / block_elems) * block_bytes; the last block is padded with zeros. */
#ifndef TALLY_DTYPE_H
#define TALLY_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, name, elements a block, bytes a block, decode to fp32, encode from fp32, as a storage of weights): 0 where there is none.
 * Types without decode (integers, complex) may stand in a container but are never weights. */
#define DTYPE_LIST(X)                                                                                                          \
    X(DTYPE_F32, "f32", 1, 4, decode_f32, encode_f32, &storage_f32)                                                            \
    X(DTYPE_F16, "f16", 1, 2, decode_f16, encode_f16, &storage_f16)                                                            \
    X(DTYPE_BF16, "bf16", 1, 2, decode_bf16, 0, 0)                                                                             \
    X(DTYPE_F64, "f64", 1, 8, decode_f64, 0, 0)                                                                                \
    X(DTYPE_Q8_0, "q8_0", 32, 34, decode_q8_0, encode_q8_0, &storage_q8_0)                                                     \
    X(DTYPE_Q4_0, "q4_0", 32, 18, decode_q4_0, 0, 0)                                                                           \
    X(DTYPE_Q4_1, "q4_1", 32, 20, decode_q4_1, 0, 0)                                                                           \
    X(DTYPE_Q5_0, "q5_0", 32, 22, decode_q5_0, 0, 0)                                                                           \
    X(DTYPE_Q5_1, "q5_1", 32, 24, decode_q5_1, 0, 0)                                                                           \
    X(DTYPE_Q2_K, "q2_k", 256, 84, decode_q2_k, 0, 0)                                                                          \
    X(DTYPE_Q3_K, "q3_k", 256, 110, decode_q3_k, 0, 0)                                                                         \
    X(DTYPE_Q4_K, "q4_k", 256, 144, decode_q4_k, 0, 0)                                                                         \
    X(DTYPE_Q5_K, "q5_k", 256, 176, decode_q5_k, 0, 0)                                                                         \
    X(DTYPE_Q6_K, "q6_k", 256, 210, decode_q6_k, 0, 0)                                                                         \
    X(DTYPE_I8, "i8", 1, 1, 0, 0, 0)                                                                                           \
    X(DTYPE_U8, "u8", 1, 1, 0, 0, 0)                                                                                           \
    X(DTYPE_I16, "i16", 1, 2, 0, 0, 0)                                                                                         \
    X(DTYPE_U16, "u16", 1, 2, 0, 0, 0)                                                                                         \
    X(DTYPE_I32, "i32", 1, 4, 0, 0, 0)                                                                                         \
    X(DTYPE_U32, "u32", 1, 4, 0, 0, 0)                                                                                         \
    X(DTYPE_I64, "i64", 1, 8, 0, 0, 0)                                                                                         \
    X(DTYPE_U64, "u64", 1, 8, 0, 0, 0)                                                                                         \
    X(DTYPE_BOOL, "bool", 1, 1, 0, 0, 0)                                                                                       \
    X(DTYPE_I8G, "i8g", 1, 1, 0, 0, &storage_i8g) /* llama2.c: int8 with an fp32 scale a group; the scales lie apart */        \
    X(DTYPE_OTHER, "other", 1, 1, 0, 0,                                                                                        \
      0) /* a type known by name only (complex, fp8, IQ…): listed, never read; its bytes are what the container says */

typedef enum {
#define DTYPE_ENUM(id, name, elems, bytes, decode, encode, storage) id,
    DTYPE_LIST(DTYPE_ENUM)
#undef DTYPE_ENUM
        N_DTYPES
} dtype;

typedef struct storage_traits storage_traits; /* storage.h */

typedef struct {
    const char *name;
    int block_elems;
    int block_bytes;
    void (*decode)(float *out, const void *in, size_t n); /* n elements; a partial last block is read whole, n written */
    void (*encode)(void *out, const float *in, size_t n); /* rounds to nearest even; pads the last block with zeros */
    const storage_traits *storage;                        /* how weights lie in it; NULL: none do */
} dtype_traits;

/* Never NULL for a valid id. */
const dtype_traits *dtype_info(dtype type);

/* Bytes of a row of n elements; false on overflow. */
bool dtype_row_bytes(dtype type, size_t n, size_t *out);

/* The type of that name ("f16"); N_DTYPES where there is none. */
dtype dtype_by_name(const char *name);

/* One number at a time: IEEE 754 binary16, round to nearest even, subnormals, infinities, NaN (quiet). */
uint16_t f32_to_f16(float x);
float f16_to_f32(uint16_t h);
float bf16_to_f32(uint16_t h);

/* Is x out of the range of fp16 (finite, but infinite after rounding)? */
bool f16_overflows(float x);
/* Of n numbers, adds how many do so, and how many are not zero but become zero. */
void f16_count_misfits(const float *x, size_t n, uint64_t *n_overflow, uint64_t *n_underflow);

#endif
