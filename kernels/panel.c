#include "kernels/panel.h"

#include <string.h>

/* Bytes that columns [0, n) of one row take in the storage; n on a block edge, or the row's end. */
static size_t columns_bytes(const matrix *w, int n) {
    size_t bytes = 0;
    matrix_row_bytes(w->type, w->group, (size_t)n, &bytes); /* part of a row that was sized when the model was loaded */
    return bytes;
}

int panel_columns(const matrix *w) {
    int block = w->type == DTYPE_I8G ? w->group : dtype_info(w->type)->block_elems;
    return w->n_cols <= PANEL_COLUMNS ? w->n_cols : PANEL_COLUMNS / block * block;
}

/* Packs `lanes` rows of the file's layout into one panel of scratch, for the columns of the slice. */
static void pack_slice(unsigned char *out, const matrix *w, const panel_slice *s, int row, int lanes) {
    const unsigned char *rows = (const unsigned char *)w->data;
    const float *scales = NULL;
    size_t row_stride = w->row_bytes, scale_stride = 0;
    if (w->type == DTYPE_I8G) {
        row_stride = (size_t)w->n_cols;
        scale_stride = ((size_t)w->n_cols + (size_t)w->group - 1) / (size_t)w->group;
        scales = (const float *)w->scales + (size_t)row * scale_stride + (size_t)(s->column / w->group);
        rows += (size_t)row * row_stride + (size_t)s->column;
    } else {
        rows += (size_t)row * row_stride + columns_bytes(w, s->column);
    }
    panel_pack(out, w->type, w->group, lanes, s->n_columns, rows, row_stride, scales, scale_stride);
}

panel_slice panel_slice_get(const matrix *w, int panel, int n_panels, int column, int n_columns, void *scratch, meter *m) {
    panel_slice s = {.n_panels = n_panels, .column = column, .n_columns = n_columns};
    for (int p = 0; p < n_panels; p++) s.width += matrix_panel_width(w, panel + p);
    size_t before = columns_bytes(w, column), bytes = columns_bytes(w, column + n_columns) - before;
    meter_post(m, w->bytes_term, (uint64_t)s.width * bytes);
    if (w->packed) {
        int lanes = s.width < PANEL_ROWS ? s.width : PANEL_ROWS;
        s.panel_stride = PANEL_ROWS * w->row_bytes;
        s.data = (const unsigned char *)w->data + (size_t)panel * PANEL_ROWS * w->row_bytes + before * (size_t)lanes;
        return s;
    }
    s.panel_stride = PANEL_ROWS * bytes;
    for (int p = 0; p < n_panels; p++) {
        pack_slice((unsigned char *)scratch + (size_t)p * s.panel_stride, w, &s, (panel + p) * PANEL_ROWS,
                   matrix_panel_width(w, panel + p));
    }
    s.data = scratch;
    return s;
}

static void decode_q8_0_panel(float *out, const unsigned char *in, int lanes, int n_columns) {
    for (int column = 0; column < n_columns; column += 32, in += (size_t)lanes * 34) {
        int left = n_columns - column < 32 ? n_columns - column : 32;
        const int8_t *q = (const int8_t *)(in + 2 * lanes);
        for (int r = 0; r < lanes; r++) {
            uint16_t h;
            memcpy(&h, in + 2 * r, 2);
            float scale = f16_to_f32(h);
            for (int k = 0; k < left; k++) out[(column + k) * lanes + r] = scale * (float)q[(k / 4 * lanes + r) * 4 + k % 4];
        }
    }
}

static void decode_i8g_panel(float *out, const unsigned char *in, int lanes, int n_columns, int group) {
    for (int column = 0; column < n_columns; column += group) {
        int left = n_columns - column < group ? n_columns - column : group;
        float scale[PANEL_ROWS];
        memcpy(scale, in, (size_t)lanes * sizeof *scale);
        const int8_t *q = (const int8_t *)(in + (size_t)lanes * sizeof *scale);
        for (int k = 0; k < left; k++) {
            for (int r = 0; r < lanes; r++) out[(column + k) * lanes + r] = scale[r] * (float)q[k * lanes + r];
        }
        in += (size_t)lanes * (sizeof *scale + (size_t)left);
    }
}

void panel_decode(float *out, size_t out_panel_stride, const panel_slice *s, const matrix *w, const kernel_set *kernels,
                  meter *m) {
    int lanes = s->width < PANEL_ROWS ? s->width : PANEL_ROWS;
    size_t n = (size_t)lanes * (size_t)s->n_columns;
    for (int p = 0; p < s->n_panels; p++, out += out_panel_stride) {
        const unsigned char *in = (const unsigned char *)s->data + (size_t)p * s->panel_stride;
        switch (w->type) {
        case DTYPE_F16:
            kernels->f16_to_f32(out, (const uint16_t *)(const void *)in, n);
            break;
        case DTYPE_Q8_0:
            decode_q8_0_panel(out, in, lanes, s->n_columns);
            break;
        case DTYPE_I8G:
            decode_i8g_panel(out, in, lanes, s->n_columns, w->group);
            break;
        default:
            memcpy(out, in, n * sizeof *out);
            break;
        }
    }
    if (w->type == DTYPE_Q8_0 || w->type == DTYPE_I8G) meter_post(m, TERM_FLOPS_QUANTISE, (uint64_t)s->n_panels * n);
}
