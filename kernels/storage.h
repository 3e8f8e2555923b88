/* storage.h - what a type must be able to do for weights to be stored in it.
 *
 * Weights lie in panels of 16 rows (matrix.h). How a type lies there, and how it comes out again, is one struct of functions in the
 * type's own file, reached from its row of DTYPE_LIST: adding a storage type is that row and that file. Everything else asks the row.
 * These are the plain ways; the product loops of kernels.h are the fast ones, tested against `dot`. */
#ifndef TALLY_STORAGE_H
#define TALLY_STORAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"
#include "kernels/kernels.h"

/* Rows one after another, as a file has them or as encode made them. */
typedef struct {
    const unsigned char *data;
    size_t stride;               /* bytes from one row to the next */
    const unsigned char *scales; /* fp32, where the type keeps them apart from the rows (group > 0); else NULL */
    size_t scale_stride;         /* bytes */
} storage_rows;

/* `width` rows of n columns side by side. group: elements a scale, where the type does not fix it (DTYPE_I8G); else 0. */
typedef struct {
    int width;
    size_t n, group;
} panel_shape;

/* Which product loop takes the panels as they lie. Any type can be decoded into fp32 panels first. */
typedef enum { PRODUCT_DECODED, PRODUCT_F32, PRODUCT_F16 } product_kind;

struct storage_traits {
    product_kind product; /* with fp32 activations */
    bool meets_int8;      /* kernel_set.product_q8 takes the panels, against activations quantised per block of 32 */
    int decode_flops;     /* multiplications that decoding an element takes: counted as quantisation */

    /* Bytes of a row of n elements, scales included; false on overflow. NULL: dtype_row_bytes. */
    bool (*row_bytes)(size_t n, size_t group, size_t *out);
    void (*pack)(unsigned char *panel, panel_shape s, const storage_rows *rows);
    /* Row r of a panel as it went in: row_bytes bytes (scales that were apart: after the elements). */
    void (*unpack)(unsigned char *row, const unsigned char *panel, panel_shape s, int r);
    /* Row r of a panel as fp32, [n]. */
    void (*row)(float *out, const unsigned char *panel, panel_shape s, int r);
    /* The whole panel as fp32: out[k * width + r]. Exact, or one rounding an element. */
    void (*decode)(float *out, const unsigned char *panel, panel_shape s, const kernel_set *kernels);
    /* One output, plainly: a row (as unpack gives it) times x, [n], in the order in which the portable kernels add; the same bits. */
    float (*dot)(const void *row, const float *x, size_t n, size_t group);
};

#endif
