#include "weights/fill.h"

#include <omp.h>
#include <string.h>

#include "kernels/sizes.h"

/* Matrices smaller than this are not worth waking threads for. */
#define TEAM_BYTES ((size_t)1 << 18)
/* Threads take pieces of about this size, the next one as soon as they are free: a fresh huge page each, and no more of the source in
 * memory than a piece for each thread. */
#define PIECE_BYTES ((size_t)2 << 20)

/* A thread's scratch: the source's rows, the same as fp32, the same in the storage type. Every part is a multiple of 64 bytes. */
typedef struct {
    unsigned char *raw;
    float *f32;
    unsigned char *stored;
} scratch_parts;

static bool part_bytes(size_t row, size_t *out) {
    size_t n;
    if (!size_mul(row, PANEL_ROWS, &n) || !size_add(n, 63, &n)) return false;
    *out = n / 64 * 64;
    return true;
}

static bool scale_bytes(dtype type, int group, size_t n_cols, size_t *out) {
    *out = 0;
    return type != DTYPE_I8G || size_mul(ceil_div(n_cols, (size_t)group), sizeof(float), out);
}

bool fill_scratch_bytes(const row_source *from, dtype type, int group, size_t n_cols, size_t *out) {
    size_t raw, raw_scales, f32, stored, total;
    if (!scale_bytes(from->type, from->group, n_cols, &raw_scales) || !size_add(from->row_bytes, raw_scales, &raw))
        return false;
    if (!part_bytes(raw, &raw) || !size_mul(n_cols, sizeof(float), &f32) || !part_bytes(f32, &f32)) return false;
    if (!matrix_row_bytes(type, group, n_cols, &stored) || !part_bytes(stored, &stored)) return false;
    if (!size_add(raw, f32, &total) || !size_add(total, stored, &total)) return false;
    *out = total;
    return true;
}

static scratch_parts scratch_split(void *scratch, const row_source *from, size_t n_cols) {
    size_t raw = 0, f32 = 0, scales; /* sizes that fill_scratch_bytes has checked */
    scale_bytes(from->type, from->group, n_cols, &scales);
    part_bytes(from->row_bytes + scales, &raw);
    part_bytes(n_cols * sizeof(float), &f32);
    unsigned char *p = scratch;
    return (scratch_parts){p, (float *)(void *)(p + raw), p + raw + f32};
}

/* scales * int8: the one type whose rows do not carry their scales. */
static void decode_i8g(float *out, const signed char *q, const void *scales, size_t n, size_t group) {
    for (size_t k = 0; k < n; k++) {
        float scale;
        memcpy(&scale, (const unsigned char *)scales + k / group * sizeof scale, sizeof scale);
        out[k] = scale * (float)q[k];
    }
}

static void decode_rows(float *out, const raw_rows *raw, const row_source *from, int n, size_t n_cols) {
    for (int r = 0; r < n; r++, out += n_cols) {
        const unsigned char *row = (const unsigned char *)raw->rows + (size_t)r * raw->stride;
        if (from->type == DTYPE_I8G) {
            const unsigned char *scales = (const unsigned char *)raw->scales + (size_t)r * raw->scale_stride;
            decode_i8g(out, (const signed char *)row, scales, n_cols, (size_t)from->group);
        } else {
            dtype_info(from->type)->decode(out, row, n_cols);
        }
        if (from->offset != 0)
            for (size_t k = 0; k < n_cols; k++) out[k] += from->offset;
    }
}

/* fp16's largest finite number is 65504, and what lies below half of its smallest, 2^-24, becomes zero. A Q8_0 block's scale is
 * its largest element / 127, so only that can overflow. */
static void count_misfits(const float *x, size_t n, dtype type, fill_counts *counts) {
    if (type == DTYPE_F16) f16_count_misfits(x, n, &counts->n_overflow, &counts->n_underflow);
    for (size_t i = 0; type == DTYPE_Q8_0 && i < n; i++) counts->n_overflow += f16_overflows(x[i] / 127.0f);
}

static void encode_rows(unsigned char *out, const float *in, const matrix *w, int n) {
    for (int r = 0; r < n; r++)
        dtype_info(w->type)->encode(out + (size_t)r * w->row_bytes, in + (size_t)r * (size_t)w->n_cols, (size_t)w->n_cols);
}

/* Rows in w's type, to their place: packed, or one after another (DTYPE_I8G: all int8, then all scales). */
static void put_rows(const matrix *w, unsigned char *out, int first, int n, const raw_rows *rows) {
    if (w->packed) {
        panel_pack(out + (size_t)first * w->row_bytes, w->type, w->group, n, w->n_cols, rows->rows, rows->stride, rows->scales,
                   rows->scale_stride / sizeof(float));
        return;
    }
    size_t n_cols = (size_t)w->n_cols, n_scales = w->type == DTYPE_I8G ? w->row_bytes - n_cols : 0;
    size_t data_bytes = w->row_bytes - n_scales;
    for (int r = 0; r < n; r++) {
        size_t row = (size_t)first + (size_t)r;
        memcpy(out + row * data_bytes, (const unsigned char *)rows->rows + (size_t)r * rows->stride, data_bytes);
        if (n_scales)
            memcpy(out + (size_t)w->n_rows * data_bytes + row * n_scales,
                   (const unsigned char *)rows->scales + (size_t)r * rows->scale_stride, n_scales);
    }
}

static void fill_panel(const matrix *w, unsigned char *out, const row_source *from, int panel, void *scratch,
                       fill_counts *counts) {
    int first = panel * PANEL_ROWS, n = matrix_panel_width(w, panel);
    scratch_parts s = scratch_split(scratch, from, (size_t)w->n_cols);
    raw_rows raw;
    from->rows(from, first, n, s.raw, &raw);
    if (from->type != w->type || from->group != w->group || from->offset != 0) {
        decode_rows(s.f32, &raw, from, n, (size_t)w->n_cols);
        count_misfits(s.f32, (size_t)n * (size_t)w->n_cols, w->type, counts);
        encode_rows(s.stored, s.f32, w, n);
        raw = (raw_rows){.rows = s.stored, .stride = w->row_bytes};
    }
    put_rows(w, out, first, n, &raw);
}

/* Panels first ... end-1, one after another; then their rows in the source are done with. */
static void fill_piece(const matrix *w, void *out, const row_source *from, int first, int end, void *scratch,
                       fill_counts *counts) {
    for (int p = first; p < end; p++) fill_panel(w, out, from, p, scratch, counts);
    int row = first * PANEL_ROWS, end_row = end * PANEL_ROWS < w->n_rows ? end * PANEL_ROWS : w->n_rows;
    if (from->forget != NULL) from->forget(from, row, end_row - row);
}

/* Panels of a piece: of PIECE_BYTES, or less where there are threads for more. */
static int piece_panels(const matrix *w, int n_threads) {
    size_t most = PIECE_BYTES / (PANEL_ROWS * w->row_bytes);
    int share = (matrix_n_panels(w) + n_threads - 1) / n_threads;
    return most < 1 ? 1 : most < (size_t)share ? (int)most : share;
}

void fill_matrix(const matrix *w, void *out, const row_source *from, void *scratch, size_t scratch_bytes, int n_threads,
                 fill_counts *counts) {
    uint64_t over = 0, under = 0;
    if (matrix_bytes(w) < TEAM_BYTES) n_threads = 1;
    int n_panels = matrix_n_panels(w), step = piece_panels(w, n_threads);
    /* A team is started only where there is work for it. */
    if (n_threads == 1) {
        for (int p = 0; p < n_panels; p += step)
            fill_piece(w, out, from, p, n_panels - p < step ? n_panels : p + step, scratch, counts);
        return;
    }
#pragma omp parallel for num_threads(n_threads) schedule(dynamic) reduction(+ : over, under)
    for (int p = 0; p < n_panels; p += step) {
        fill_counts mine = {0, 0};
        unsigned char *own = (unsigned char *)scratch + (size_t)omp_get_thread_num() * scratch_bytes;
        fill_piece(w, out, from, p, n_panels - p < step ? n_panels : p + step, own, &mine);
        over += mine.n_overflow, under += mine.n_underflow;
    }
    counts->n_overflow += over, counts->n_underflow += under;
}

void fill_vector(float *out, int n, const row_source *from, void *scratch) {
    for (int first = 0; first < n; first += PANEL_ROWS) {
        int count = n - first < PANEL_ROWS ? n - first : PANEL_ROWS;
        raw_rows raw;
        from->rows(from, first, count, scratch, &raw);
        decode_rows(out + first, &raw, from, count, 1);
    }
}
