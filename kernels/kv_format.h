/* kv_format.h - what the cache's numbers are stored as: one row of a table a format, with everything that depends on it.
 *
 *   f32     [elem] 4 bytes
 *   f16     [elem] 2 bytes, IEEE binary16, to nearest even
 *   int8    [elem] 1 byte, and for each token, head and side an fp16 scale, apart from the elements (kv_page.h):
 *           x ~ scale * q,  scale = max|x| / 127 rounded to fp16,  q = x / scale to nearest even, in -127..127
 *
 * A number that its format cannot hold (65520 and above in f16; max|x| / 127 of as much in int8; infinities, NaN) is stored so that it
 * reads back as infinite or NaN, and the writer says so: the step ends in an error rather than in a quietly wrong answer (a key of minus
 * infinity would otherwise just be a key that nobody attends to). */
#ifndef TALLY_KV_FORMAT_H
#define TALLY_KV_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"
#include "kernels/kernels.h"

typedef struct {
    const char *name;
    size_t elem_bytes, scale_bytes; /* of an element; of a token's scale, 0: none */
    int write_flops;                /* arithmetic of storing an element: counted as quantisation */
    /* Stores n numbers of one token, head and side, `stride` elements apart, and their scale. False: one of them is not finite as stored. */
    bool (*write)(unsigned char *to, const float *x, int n, size_t stride, unsigned char *scale, const kernel_set *kernels);
    /* n elements as fp32, exactly; int8's without their scale. */
    void (*to_f32)(float *out, const void *in, size_t n, const kernel_set *kernels);
    /* The panel product whose w lies in this format; scales are the caller's. */
    void (*product)(const panel_product *p, const kernel_set *kernels);
    /* One row's attention to K and V in this format; NULL: they have scales, and go by products. */
    void (*attend)(const row_attention *a, const kernel_set *kernels);
} kv_format;

extern const kv_format kv_f32; /* also of keys and values that were converted for many rows */

/* DTYPE_F32, DTYPE_F16, and DTYPE_Q8_0 standing for int8; NULL: no cache is of that type. */
const kv_format *kv_format_of(dtype type);

#endif
