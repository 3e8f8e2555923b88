/* matrix.h - a weight matrix as the kernels read it: panels of 16 rows.
 *
 *   y[t][r] = bias[r] + sum_k w[r][k] x[t][k]
 *
 * Every element of y is one sum over k in increasing k (for int8: over blocks of 32, each an exact integer sum), whatever the
 * number of rows, tokens or threads: so prefill, chunks and decode give the same bits. To go through k in order and still fill a
 * vector register, 16 rows lie side by side:
 *
 *   panel p holds rows 16p ... 16p+w-1, w = min(16, n_rows - 16p); the panels follow one another without a gap.
 *
 *   f32, f16    k=0: r0 r1 ... r(w-1) | k=1: r0 r1 ... | ...            element (r, k) at k*w + r
 *   q8_0        for each block of 32 along k:  w fp16 scales, then 8 groups of 4 k:  r0 (4 int8) r1 (4 int8) ...
 *               34*w bytes a block; columns past n_cols are zero
 *   i8g         for each group along k:  w fp32 scales, then for each k of it  r0 r1 ... int8;  the last group may be short
 *
 * A panel takes exactly as many bytes as its rows do in a file: nothing is padded but the last block of a Q8_0 row.
 * Rows as a file has them (`packed` false: a mapped GGUF or safetensors) are packed into scratch on the fly, panel by panel,
 * and then meet the same kernels: the same bits, and no copy of the model. */
#ifndef TALLY_MATRIX_H
#define TALLY_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"
#include "kernels/terms.h"

#define PANEL_ROWS 16

typedef struct {
    dtype type; /* DTYPE_F32, DTYPE_F16, DTYPE_Q8_0 or DTYPE_I8G */
    int group;  /* DTYPE_I8G: elements a scale; else 0 */
    int n_rows, n_cols;
    bool packed;                 /* panels; else rows, one after another (DTYPE_I8G: the int8 only, n_cols bytes a row) */
    const void *data;            /* borrowed: the model's memory, or the mapped file */
    const void *scales;          /* DTYPE_I8G with packed false: fp32 [n_rows][ceil(n_cols / group)]; else NULL */
    size_t row_bytes;            /* bytes of one row, scales included */
    const float *bias;           /* [n_rows], or NULL */
    term flops_term, bytes_term; /* what reading it, and multiplying by it, is posted as */
} matrix;

/* Bytes of one row in a storage type, scales included; false on overflow or a type that is no weight storage. */
bool matrix_row_bytes(dtype type, int group, size_t n_cols, size_t *out);

static inline int matrix_n_panels(const matrix *w) {
    return (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}
static inline int matrix_panel_width(const matrix *w, int panel) {
    int left = w->n_rows - panel * PANEL_ROWS;
    return left < PANEL_ROWS ? left : PANEL_ROWS;
}
static inline size_t matrix_bytes(const matrix *w) {
    return (size_t)w->n_rows * w->row_bytes;
}

/* Writes one panel from `width` rows in w->type, row-major, row_stride bytes apart (scales: DTYPE_I8G, fp32, scale_stride floats apart). */
void panel_pack(void *panel, dtype type, int group, int width, int n_cols, const void *rows, size_t row_stride,
                const float *scales, size_t scale_stride);
/* One row out of a matrix, packed or not, as fp32 [n_cols]. For tests, conversion, and the embedding lookup of a tied table. */
void matrix_row_f32(float *out, const matrix *w, int row);
/* One row out of a matrix in w->type, row-major (row_bytes bytes; DTYPE_I8G: int8 then scales). Undoes panel_pack. */
void matrix_row_raw(void *out, const matrix *w, int row);

#endif
