/* matrix.c - panels of rows: packing, and taking one row out again. How each type lies there: its own file (storage.h). */
#include "kernels/matrix.h"

#include <string.h>

#include "kernels/storage.h"

bool matrix_row_bytes(dtype type, int group, size_t n_cols, size_t *out) {
    const storage_traits *t = dtype_info(type)->storage;
    if (t == NULL || group < 0) return false;
    return t->row_bytes != NULL ? t->row_bytes(n_cols, (size_t)group, out) : dtype_row_bytes(type, n_cols, out);
}

void panel_pack(void *panel, dtype type, int group, int width, int n_cols, const void *rows, size_t row_stride,
                const float *scales, size_t scale_stride) {
    const storage_rows from = {rows, row_stride, (const unsigned char *)scales, scale_stride * sizeof(float)};
    const panel_shape shape = {width, (size_t)n_cols, (size_t)group};
    dtype_info(type)->storage->pack(panel, shape, &from);
}

/* Where the panel of a row lies, and its shape. */
static const unsigned char *panel_of(const matrix *w, int row, panel_shape *shape) {
    int p = row / PANEL_ROWS;
    *shape = (panel_shape){matrix_panel_width(w, p), (size_t)w->n_cols, (size_t)w->group};
    return (const unsigned char *)w->data + (size_t)p * PANEL_ROWS * w->row_bytes;
}

/* Rows that lie as the file has them: the elements, and the scales where these are apart. */
static const unsigned char *row_of(const matrix *w, int row, const unsigned char **scales, size_t *scale_bytes) {
    *scale_bytes = w->group > 0 ? w->row_bytes - (size_t)w->n_cols : 0;
    *scales = *scale_bytes > 0 ? (const unsigned char *)w->scales + (size_t)row * *scale_bytes : NULL;
    return (const unsigned char *)w->data + (size_t)row * (w->row_bytes - *scale_bytes);
}

void matrix_row_raw(void *out, const matrix *w, int row) {
    if (w->packed) {
        panel_shape shape;
        const unsigned char *panel = panel_of(w, row, &shape);
        dtype_info(w->type)->storage->unpack(out, panel, shape, row % PANEL_ROWS);
        return;
    }
    const unsigned char *scales;
    size_t scale_bytes;
    const unsigned char *data = row_of(w, row, &scales, &scale_bytes);
    memcpy(out, data, w->row_bytes - scale_bytes);
    if (scale_bytes > 0) memcpy((unsigned char *)out + w->row_bytes - scale_bytes, scales, scale_bytes);
}

void matrix_row_f32(float *out, const matrix *w, int row) {
    if (w->packed) {
        panel_shape shape;
        const unsigned char *panel = panel_of(w, row, &shape);
        dtype_info(w->type)->storage->row(out, panel, shape, row % PANEL_ROWS);
        return;
    }
    const unsigned char *scales;
    size_t scale_bytes, n = (size_t)w->n_cols;
    const unsigned char *data = row_of(w, row, &scales, &scale_bytes);
    if (scale_bytes == 0) {
        dtype_info(w->type)->decode(out, data, n);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        float scale;
        memcpy(&scale, scales + k / (size_t)w->group * sizeof scale, sizeof scale);
        out[k] = scale * (float)(int8_t)data[k];
    }
}
