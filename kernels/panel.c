#include "kernels/panel.h"

#include "kernels/storage.h"

/* Bytes that columns [0, n) of one row take in the storage; n on a block edge, or the row's end. */
static size_t columns_bytes(const matrix *w, int n) {
    size_t bytes = 0;
    if (n == 0 || n == w->n_cols) return n == 0 ? 0 : w->row_bytes;
    matrix_row_bytes(w->type, w->group, (size_t)n, &bytes); /* part of a row that was sized when the model was loaded */
    return bytes;
}

int panel_columns(const matrix *w) {
    int block = w->group > 0 ? w->group : dtype_info(w->type)->block_elems;
    return w->n_cols <= PANEL_COLUMNS ? w->n_cols : PANEL_COLUMNS / block * block;
}

/* Packs `lanes` rows of the file's layout into one panel of scratch, for the columns of the slice. */
static void pack_slice(unsigned char *out, const matrix *w, const panel_slice *s, int row, int lanes) {
    const unsigned char *rows = (const unsigned char *)w->data;
    const float *scales = NULL;
    size_t row_stride = w->row_bytes, scale_stride = 0;
    if (w->group > 0) { /* the scales lie apart */
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

void panel_decode(float *out, size_t out_panel_stride, const panel_slice *s, const matrix *w, const kernel_set *kernels,
                  meter *m) {
    const storage_traits *t = dtype_info(w->type)->storage;
    panel_shape shape = {s->width < PANEL_ROWS ? s->width : PANEL_ROWS, (size_t)s->n_columns, (size_t)w->group};
    for (int p = 0; p < s->n_panels; p++) {
        t->decode(out + (size_t)p * out_panel_stride, (const unsigned char *)s->data + (size_t)p * s->panel_stride, shape,
                  kernels);
    }
    uint64_t elems = (uint64_t)s->n_panels * (uint64_t)shape.width * (uint64_t)shape.n;
    if (t->decode_flops > 0) meter_post(m, TERM_FLOPS_QUANTISE, (uint64_t)t->decode_flops * elems);
}
