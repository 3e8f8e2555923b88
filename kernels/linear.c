#include "kernels/linear.h"

#include <limits.h>

#include "kernels/blas.h"
#include "kernels/panel.h"
#include "kernels/storage.h"

/* Panels that lie as the products want them go through in one call, as far as their outputs fit the tile,
 * which holds TILE_PANELS of every row; others PANEL_GROUP at a time. */
enum { TILE_PANELS = 8, GROUP_ROWS = TILE_PANELS * PANEL_ROWS, TILE_LEAST_FLOATS = 32 * 1024 };

/* A worker's scratch: [decoded fp32 panels | packed panels | tile | tile of the gate]. */
typedef struct {
    float *decoded; /* [PANEL_GROUP][PANEL_COLUMNS][16] */
    void *packed;
    float *tile, *gate_tile; /* [n_rows, 16 * the panels of a group] */
    size_t tile_floats;      /* room in each */
} linear_scratch;

size_t linear_scratch_bytes(int max_rows) {
    size_t tile = (size_t)max_rows * GROUP_ROWS > TILE_LEAST_FLOATS ? (size_t)max_rows * GROUP_ROWS : TILE_LEAST_FLOATS;
    return 2 * tile * sizeof(float) + 2 * (size_t)PANEL_SLICE_BYTES;
}

static linear_scratch scratch_of(const worker *w) {
    linear_scratch s;
    s.decoded = w->scratch;
    s.packed = s.decoded + PANEL_SLICE_BYTES / sizeof(float);
    s.tile = s.decoded + 2 * (PANEL_SLICE_BYTES / sizeof(float));
    s.tile_floats = (w->scratch_bytes - 2 * (size_t)PANEL_SLICE_BYTES) / (2 * sizeof(float)) / 16 * 16;
    s.gate_tile = s.tile + s.tile_floats;
    return s;
}

/* The rows of x that this call multiplies, and their quantised form where some matrix wants it. */
typedef struct {
    const float *x;
    int n_rows, n_cols;
    const linear_mode *mode;
} linear_input;

static bool meets_int8(const matrix *m, const linear_mode *mode) {
    return mode->int8_activations && mode->blas == NULL && dtype_info(m->type)->storage->meets_int8;
}

/* Quantises x once for all matrices that share it; each worker takes rows. */
static void input_quantise(const linear_input *in, worker *w) {
    const q8_rows *q = &in->mode->quantised;
    int first, last, n_blocks = (in->n_cols + 31) / 32;
    worker_share(w, in->n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        size_t at = (size_t)t * (size_t)n_blocks;
        w->kernels->quantise(q->q + at * 32, q->scale + at, q->sum + at, in->x + (size_t)t * (size_t)in->n_cols, in->n_cols);
        meter_post(&w->meter, TERM_FLOPS_QUANTISE, 3 * (uint64_t)in->n_cols);
    }
    worker_barrier(w);
}

static void post_multiply_adds(const matrix *m, int n_t, int n_k, int width, worker *w) {
    meter_post(&w->meter, m->flops_term, 2 * (uint64_t)n_t * (uint64_t)n_k * (uint64_t)width);
}

/* int8 weights against int8 activations. */
static void slice_product_q8(float *y, size_t ldy, const panel_slice *s, const matrix *m, const linear_input *in, bool more,
                             worker *w) {
    int n_blocks = (in->n_cols + 31) / 32, first = s->column / 32, n = (s->n_columns + 31) / 32;
    const q8_rows *q = &in->mode->quantised;
    q8_product p = {.y = y,
                    .ldy = ldy,
                    .q = q->q + first * 32,
                    .scale = q->scale + first,
                    .sum = q->sum + first,
                    .q_stride = (size_t)n_blocks * 32,
                    .scale_stride = (size_t)n_blocks,
                    .w = s->data,
                    .panel_stride = s->panel_stride,
                    .n_t = in->n_rows,
                    .n_blocks = n,
                    .width = s->width,
                    .more = more};
    w->kernels->product_q8(&p);
    post_multiply_adds(m, in->n_rows, s->n_columns, s->width, w);
    meter_post(&w->meter, TERM_FLOPS_QUANTISE, 2 * (uint64_t)in->n_rows * (uint64_t)n * (uint64_t)s->width);
}

/* fp32 or fp16 panels as they lie, or fp32 panels just decoded (w16 false). */
static void slice_product(float *y, size_t ldy, const panel_slice *s, const matrix *m, const void *panels, size_t panel_stride,
                          bool w16, const linear_input *in, bool more, worker *w) {
    panel_product p = {.y = y,
                       .ldy = ldy,
                       .x = in->x + s->column,
                       .ldx = (size_t)in->n_cols,
                       .w = panels,
                       .k_stride = (size_t)(s->width < PANEL_ROWS ? s->width : PANEL_ROWS),
                       .chunk_stride = panel_stride,
                       .n_t = in->n_rows,
                       .n_k = s->n_columns,
                       .width = s->width,
                       .more = more};
    if (w16) {
        w->kernels->product_f16(&p);
    } else {
        w->kernels->product_f32(&p);
    }
    post_multiply_adds(m, in->n_rows, s->n_columns, s->width, w);
}

/* Does a product loop take the panels of m as they lie? Else they are decoded first. The one place that chooses. */
static bool taken_as_it_lies(const matrix *m, const linear_input *in) {
    return meets_int8(m, in->mode) || dtype_info(m->type)->storage->product != PRODUCT_DECODED;
}

/* y[t][0..width) = x[t] . rows of n_panels panels. */
static void group_product(float *y, size_t ldy, const matrix *m, int panel, int n_panels, const linear_input *in, worker *w) {
    linear_scratch s = scratch_of(w);
    bool int8 = meets_int8(m, in->mode), as_it_lies = taken_as_it_lies(m, in);
    product_kind kind = dtype_info(m->type)->storage->product;
    int step = m->packed && as_it_lies ? m->n_cols : panel_columns(m);
    for (int column = 0; column < m->n_cols; column += step) {
        int n = m->n_cols - column < step ? m->n_cols - column : step;
        panel_slice slice = panel_slice_get(m, panel, n_panels, column, n, s.packed, &w->meter);
        if (int8) {
            slice_product_q8(y, ldy, &slice, m, in, column > 0, w);
        } else if (as_it_lies) {
            size_t stride = slice.panel_stride / (size_t)dtype_info(m->type)->block_bytes;
            slice_product(y, ldy, &slice, m, slice.data, stride, kind == PRODUCT_F16, in, column > 0, w);
        } else {
            size_t stride = (size_t)PANEL_ROWS * (size_t)n;
            panel_decode(s.decoded, stride, &slice, m, w->kernels, &w->meter);
            slice_product(y, ldy, &slice, m, s.decoded, stride, false, in, column > 0, w);
        }
    }
}

/* y[t] += bias, for the outputs of a group. */
static void group_bias(float *y, size_t ldy, const matrix *m, int panel, int width, int n_rows, worker *w) {
    if (m->bias == NULL) return;
    const float *bias = m->bias + (size_t)panel * PANEL_ROWS;
    meter_post(&w->meter, TERM_BYTES_BIAS, (uint64_t)width * sizeof *bias);
    for (int t = 0; t < n_rows; t++) w->kernels->add(y + (size_t)t * ldy, bias, width);
    meter_post(&w->meter, TERM_FLOPS_BIAS, (uint64_t)n_rows * (uint64_t)width);
}

/* Panels that go through at once, full ones: into `room` floats where they pass through a tile. */
static int group_panels(const matrix *m, const linear_input *in, size_t room) {
    if (in->mode->blas != NULL || !m->packed || !taken_as_it_lies(m, in)) return PANEL_GROUP;
    size_t n = room / ((size_t)in->n_rows * PANEL_ROWS);
    return n < TILE_PANELS ? TILE_PANELS : n > INT_MAX / PANEL_ROWS ? INT_MAX / PANEL_ROWS : (int)n;
}

/* The next group from `panel`: up to `most` full panels, or the short last one alone. */
static int group_size(const matrix *m, int panel, int end, int most, int *width) {
    int full = m->n_rows / PANEL_ROWS, n = end - panel < most ? end - panel : most;
    if (panel >= full) {
        *width = matrix_panel_width(m, panel);
        return 1;
    }
    if (panel + n > full) n = full - panel;
    *width = n * PANEL_ROWS;
    return n;
}

static linear_input input_make(const float *x, int n_rows, int n_cols, const linear_mode *mode, bool any_int8, worker *w) {
    linear_input in = {.x = x, .n_rows = n_rows, .n_cols = n_cols, .mode = mode};
    if (any_int8) input_quantise(&in, w);
    return in;
}

void linear(const linear_output *out, int n_out, const float *x, int n_rows, const linear_mode *mode, worker *w) {
    int n_panels = 0;
    bool any_int8 = false;
    for (int i = 0; i < n_out; i++) {
        n_panels += matrix_n_panels(out[i].w);
        any_int8 = any_int8 || meets_int8(out[i].w, mode);
    }
    linear_input in = input_make(x, n_rows, out[0].w->n_cols, mode, any_int8, w);
    int first, last, base = 0;
    worker_share(w, n_panels, &first, &last); /* of the panels of all matrices in a row */
    for (int i = 0; i < n_out; base += matrix_n_panels(out[i].w), i++) {
        const matrix *m = out[i].w;
        int begin = first > base ? first - base : 0;
        int end = last - base < matrix_n_panels(m) ? last - base : matrix_n_panels(m);
        if (mode->blas != NULL && begin < end) {
            blas_product(out[i].y + (size_t)begin * PANEL_ROWS, (size_t)m->n_rows, m, begin, end, x, n_rows, mode->blas, w);
        }
        int most = group_panels(m, &in, SIZE_MAX);
        for (int p = begin, n, width; p < end; p += n) {
            n = group_size(m, p, end, most, &width);
            float *y = out[i].y + (size_t)p * PANEL_ROWS;
            if (mode->blas == NULL) group_product(y, (size_t)m->n_rows, m, p, n, &in, w);
            group_bias(y, (size_t)m->n_rows, m, p, width, n_rows, w);
            if (out[i].written_term != 0) {
                meter_post(&w->meter, out[i].written_term, (uint64_t)n_rows * (uint64_t)width * sizeof *y);
            }
        }
    }
    worker_barrier(w);
}

/* A group into a tile of scratch, [n_rows, width], bias added. */
static void group_tile(float *tile, const matrix *m, int panel, int n_panels, int width, const linear_input *in, worker *w) {
    if (in->mode->blas != NULL) {
        blas_product(tile, (size_t)width, m, panel, panel + n_panels, in->x, in->n_rows, in->mode->blas, w);
    } else {
        group_product(tile, (size_t)width, m, panel, n_panels, in, w);
    }
    group_bias(tile, (size_t)width, m, panel, width, in->n_rows, w);
}

void linear_add(float *y, const matrix *m, const float *x, int n_rows, float scale, const linear_mode *mode, worker *w) {
    linear_input in = input_make(x, n_rows, m->n_cols, mode, meets_int8(m, mode), w);
    linear_scratch s = scratch_of(w);
    int first, last, most = group_panels(m, &in, s.tile_floats);
    worker_share(w, matrix_n_panels(m), &first, &last);
    for (int p = first, n, width; p < last; p += n) {
        n = group_size(m, p, last, most, &width);
        group_tile(s.tile, m, p, n, width, &in, w);
        for (int t = 0; t < n_rows; t++) {
            float *row = y + (size_t)t * (size_t)m->n_rows + (size_t)p * PANEL_ROWS;
            const float *tile = s.tile + (size_t)t * (size_t)width;
            if (scale == 1.0f) {
                w->kernels->add(row, tile, width);
            } else {
                w->kernels->add_scaled(row, tile, scale, width);
            }
        }
        uint64_t n_elems = (uint64_t)n_rows * (uint64_t)width;
        meter_post(&w->meter, TERM_FLOPS_RESIDUAL, n_elems);
        if (scale != 1.0f) meter_post(&w->meter, TERM_FLOPS_MULTIPLIER, n_elems);
    }
    worker_barrier(w);
}

/* FLOPs of one activation, by ACT_*. */
static const uint64_t activation_flops[] = {1, 4, 5, 9, 2, 5};

void linear_activate(float *y, const matrix *gate, const matrix *up, int activation, const float *x, int n_rows,
                     const linear_mode *mode, worker *w) {
    bool any_int8 = meets_int8(up, mode) || (gate != NULL && meets_int8(gate, mode));
    linear_input in = input_make(x, n_rows, up->n_cols, mode, any_int8, w);
    linear_scratch s = scratch_of(w);
    int first, last, most = group_panels(up, &in, s.tile_floats);
    worker_share(w, matrix_n_panels(up), &first, &last);
    for (int p = first, n, width; p < last; p += n) {
        n = group_size(up, p, last, most, &width);
        group_tile(s.tile, up, p, n, width, &in, w);
        if (gate != NULL) group_tile(s.gate_tile, gate, p, n, width, &in, w);
        for (int t = 0; t < n_rows; t++) {
            float *row = y + (size_t)t * (size_t)up->n_rows + (size_t)p * PANEL_ROWS;
            const float *tile = s.tile + (size_t)t * (size_t)width, *gate_tile = s.gate_tile + (size_t)t * (size_t)width;
            w->kernels->activate(row, gate != NULL ? gate_tile : tile, gate != NULL ? tile : NULL, width, activation);
        }
        uint64_t each = activation_flops[activation] + (gate != NULL);
        meter_post(&w->meter, TERM_FLOPS_ACTIVATION, (uint64_t)n_rows * (uint64_t)width * each);
    }
    worker_barrier(w);
}
