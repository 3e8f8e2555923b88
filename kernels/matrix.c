/* matrix.c - panels of rows: packing, and taking one row out again. See matrix.h for the byte layouts. */
#include "kernels/matrix.h"

#include <string.h>

#include "kernels/sizes.h"

enum { Q8_BLOCK = 32, Q8_BYTES = 34, Q8_SCALE_BYTES = 2, Q8_WORDS = Q8_BLOCK / 4 };

bool matrix_row_bytes(dtype type, int group, size_t n_cols, size_t *out) {
    if (type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_Q8_0) return dtype_row_bytes(type, n_cols, out);
    if (type != DTYPE_I8G || group <= 0) return false;
    size_t scale_bytes, bytes;
    if (!size_mul(ceil_div(n_cols, (size_t)group), sizeof(float), &scale_bytes)) return false;
    if (!size_add(n_cols, scale_bytes, &bytes)) return false;
    *out = bytes;
    return true;
}

/* The three interleaves below read `width` streams and write one. Inlined with width = 16 known, the loop over rows unrolls.
 * Rows of a mapped file may lie at odd addresses: every element is moved with memcpy. */
static inline void interleave_4(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    for (size_t k = 0; k < n; k++, out += 4 * (size_t)width)
        for (int r = 0; r < width; r++) memcpy(out + 4 * (size_t)r, rows + (size_t)r * stride + 4 * k, 4);
}

static inline void interleave_2(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    for (size_t k = 0; k < n; k++, out += 2 * (size_t)width)
        for (int r = 0; r < width; r++) memcpy(out + 2 * (size_t)r, rows + (size_t)r * stride + 2 * k, 2);
}

static inline void interleave_1(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    for (size_t k = 0; k < n; k++, out += width)
        for (int r = 0; r < width; r++) out[r] = rows[(size_t)r * stride + k];
}

static inline void pack_f32(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    if (width == PANEL_ROWS)
        interleave_4(out, rows, stride, PANEL_ROWS, n);
    else
        interleave_4(out, rows, stride, width, n);
}

static inline void pack_f16(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    if (width == PANEL_ROWS)
        interleave_2(out, rows, stride, PANEL_ROWS, n);
    else
        interleave_2(out, rows, stride, width, n);
}

/* A block: the scales of all rows, then words of four k. */
static inline void pack_q8_0(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n) {
    for (size_t b = 0; b < ceil_div(n, Q8_BLOCK); b++, rows += Q8_BYTES, out += Q8_BYTES * (size_t)width) {
        unsigned char *words = out + Q8_SCALE_BYTES * (size_t)width;
        for (int r = 0; r < width; r++) memcpy(out + Q8_SCALE_BYTES * (size_t)r, rows + (size_t)r * stride, Q8_SCALE_BYTES);
        if (width == PANEL_ROWS)
            interleave_4(words, rows + Q8_SCALE_BYTES, stride, PANEL_ROWS, Q8_WORDS);
        else
            interleave_4(words, rows + Q8_SCALE_BYTES, stride, width, Q8_WORDS);
    }
}

static inline void pack_i8g(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n, size_t group,
                            const float *scales, size_t scale_stride) {
    for (size_t k = 0; k < n; k += group, scales++) {
        size_t len = n - k < group ? n - k : group;
        for (int r = 0; r < width; r++, out += sizeof(float)) /* llama2.c's scales follow an odd number of bytes */
            memcpy(out, (const unsigned char *)scales + (size_t)r * scale_stride * sizeof(float), sizeof(float));
        if (width == PANEL_ROWS)
            interleave_1(out, rows + k, stride, PANEL_ROWS, len);
        else
            interleave_1(out, rows + k, stride, width, len);
        out += len * (size_t)width;
    }
}

void panel_pack(void *panel, dtype type, int group, int width, int n_cols, const void *rows, size_t row_stride,
                const float *scales, size_t scale_stride) {
    size_t n = (size_t)n_cols;
    switch (type) {
    case DTYPE_F32:
        pack_f32(panel, rows, row_stride, width, n);
        break;
    case DTYPE_F16:
        pack_f16(panel, rows, row_stride, width, n);
        break;
    case DTYPE_Q8_0:
        pack_q8_0(panel, rows, row_stride, width, n);
        break;
    case DTYPE_I8G:
        pack_i8g(panel, rows, row_stride, width, n, (size_t)group, scales, scale_stride);
        break;
    default:
        break;
    }
}

/* Row r of a panel of w rows whose pieces (elements, or words of four) are `size` bytes, n pieces. */
static void gather(unsigned char *out, const unsigned char *panel, size_t size, int width, int r, size_t n) {
    for (size_t k = 0; k < n; k++) memcpy(out + k * size, panel + (k * (size_t)width + (size_t)r) * size, size);
}

static void unpack_q8_0(unsigned char *out, const unsigned char *panel, int width, int r, size_t n) {
    for (size_t b = 0; b < ceil_div(n, Q8_BLOCK); b++, out += Q8_BYTES, panel += Q8_BYTES * (size_t)width) {
        memcpy(out, panel + Q8_SCALE_BYTES * (size_t)r, Q8_SCALE_BYTES);
        gather(out + Q8_SCALE_BYTES, panel + Q8_SCALE_BYTES * (size_t)width, 4, width, r, Q8_WORDS);
    }
}

static void unpack_i8g(unsigned char *out, const unsigned char *panel, int width, int r, size_t n, size_t group) {
    unsigned char *scale = out + n;
    for (size_t k = 0; k < n; k += group, scale += sizeof(float)) {
        size_t len = n - k < group ? n - k : group;
        memcpy(scale, panel + sizeof(float) * (size_t)r, sizeof(float));
        panel += sizeof(float) * (size_t)width;
        gather(out + k, panel, 1, width, r, len);
        panel += len * (size_t)width;
    }
}

/* Rows that lie as the file has them. llama2.c keeps the scales apart from the int8 rows. */
static void copy_row(unsigned char *out, const matrix *w, int row) {
    const unsigned char *data = w->data;
    if (w->type != DTYPE_I8G) {
        memcpy(out, data + (size_t)row * w->row_bytes, w->row_bytes);
        return;
    }
    size_t n = (size_t)w->n_cols, scale_bytes = w->row_bytes - n;
    memcpy(out, data + (size_t)row * n, n);
    memcpy(out + n, (const unsigned char *)w->scales + (size_t)row * scale_bytes, scale_bytes);
}

void matrix_row_raw(void *out, const matrix *w, int row) {
    if (!w->packed) {
        copy_row(out, w, row);
        return;
    }
    int p = row / PANEL_ROWS, r = row % PANEL_ROWS, width = matrix_panel_width(w, p);
    const unsigned char *panel = (const unsigned char *)w->data + (size_t)p * PANEL_ROWS * w->row_bytes;
    size_t n = (size_t)w->n_cols;
    switch (w->type) {
    case DTYPE_F32:
        gather(out, panel, 4, width, r, n);
        break;
    case DTYPE_F16:
        gather(out, panel, 2, width, r, n);
        break;
    case DTYPE_Q8_0:
        unpack_q8_0(out, panel, width, r, n);
        break;
    case DTYPE_I8G:
        unpack_i8g(out, panel, width, r, n, (size_t)w->group);
        break;
    default:
        break;
    }
}

/* The row's pieces are decoded one block at a time, so that no scratch is needed. */
static void row_f32_q8_0(float *out, const unsigned char *block, int width, int r, size_t n) {
    for (size_t k = 0; k < n; k += Q8_BLOCK, block += Q8_BYTES * (size_t)width) {
        unsigned char one[Q8_BYTES];
        unpack_q8_0(one, block, width, r, Q8_BLOCK);
        dtype_info(DTYPE_Q8_0)->decode(out + k, one, n - k < Q8_BLOCK ? n - k : Q8_BLOCK);
    }
}

static void row_f32_i8g_packed(float *out, const unsigned char *panel, int width, int r, size_t n, size_t group) {
    for (size_t k = 0; k < n; k += group) {
        size_t len = n - k < group ? n - k : group;
        float scale;
        memcpy(&scale, panel + sizeof scale * (size_t)r, sizeof scale);
        panel += sizeof scale * (size_t)width;
        for (size_t i = 0; i < len; i++) out[k + i] = scale * (float)(int8_t)panel[i * (size_t)width + (size_t)r];
        panel += len * (size_t)width;
    }
}

static void row_f32_i8g_rows(float *out, const matrix *w, int row) {
    size_t n = (size_t)w->n_cols, group = (size_t)w->group;
    const unsigned char *scales = (const unsigned char *)w->scales + (size_t)row * (w->row_bytes - n);
    const signed char *q = (const signed char *)w->data + (size_t)row * n;
    for (size_t k = 0; k < n; k++) {
        float scale;
        memcpy(&scale, scales + k / group * sizeof scale, sizeof scale);
        out[k] = scale * (float)q[k];
    }
}

void matrix_row_f32(float *out, const matrix *w, int row) {
    size_t n = (size_t)w->n_cols;
    if (!w->packed) {
        if (w->type == DTYPE_I8G)
            row_f32_i8g_rows(out, w, row);
        else
            dtype_info(w->type)->decode(out, (const unsigned char *)w->data + (size_t)row * w->row_bytes, n);
        return;
    }
    int p = row / PANEL_ROWS, r = row % PANEL_ROWS, width = matrix_panel_width(w, p);
    const unsigned char *panel = (const unsigned char *)w->data + (size_t)p * PANEL_ROWS * w->row_bytes;
    switch (w->type) {
    case DTYPE_F32:
        gather((unsigned char *)out, panel, sizeof(float), width, r, n);
        break;
    case DTYPE_F16:
        for (size_t k = 0; k < n; k++) {
            uint16_t h;
            memcpy(&h, panel + 2 * (k * (size_t)width + (size_t)r), sizeof h);
            out[k] = f16_to_f32(h);
        }
        break;
    case DTYPE_Q8_0:
        row_f32_q8_0(out, panel, width, r, n);
        break;
    case DTYPE_I8G:
        row_f32_i8g_packed(out, panel, width, r, n, (size_t)w->group);
        break;
    default:
        break;
    }
}
