#include "kernels/rows.h"

#include <math.h>
#include <string.h>

#include "kernels/finite.h"
#include "kernels/kernels.h"

/* The accessor of table rows: posts what the row takes as stored. */
static void table_row(float *out, const matrix *table, int row, meter *m) {
    matrix_row_f32(out, table, row);
    meter_post(m, table->bytes_term, table->row_bytes);
}

void rows_embed(float *x, const matrix *table, const matrix *positions, const int *ids, const int *pos, int n_rows, float scale,
                worker *w) {
    int first, last, d = table->n_cols;
    matrix lookup = *table; /* a tied table is the head too: as a lookup it is posted as one */
    lookup.bytes_term = TERM_BYTES_EMBEDDING;
    float *position = w->scratch;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        float *row = x + (size_t)t * (size_t)d;
        table_row(row, &lookup, ids[t], &w->meter);
        if (scale != 1.0f) {
            for (int i = 0; i < d; i++) row[i] *= scale;
            meter_post(&w->meter, TERM_FLOPS_MULTIPLIER, (uint64_t)d);
        }
        if (positions != NULL) {
            table_row(position, positions, pos[t], &w->meter);
            w->kernels->add(row, position, d);
            meter_post(&w->meter, TERM_FLOPS_POSITION, (uint64_t)d);
        }
    }
    worker_barrier(w);
}

static void norm_part(float *y, const float *x, const row_norm *norm, worker *w) {
    uint64_t n = (uint64_t)norm->n;
    if (norm->kind == ROW_NORM_RMS) {
        w->kernels->rms_norm(y, x, norm->gain, norm->n, norm->eps);
        meter_post(&w->meter, TERM_FLOPS_NORM, 4 * n + 4);
    } else {
        w->kernels->layer_norm(y, x, norm->gain, norm->bias, norm->n, norm->eps);
        meter_post(&w->meter, TERM_FLOPS_NORM, 6 * n + 5 + (norm->bias != NULL ? n : 0));
    }
}

void rows_norm(float *y, const float *x, const row_norm *norm, int n_rows, int n_parts, const int *pick, worker *w) {
    int first, last;
    size_t width = (size_t)n_parts * (size_t)norm->n;
    worker_share(w, n_rows, &first, &last);
    /* Gain and bias are streamed once for all rows of the step: posted by the worker that has the first row. */
    if (first == 0 && last > 0) {
        meter_post(&w->meter, TERM_BYTES_NORM, (uint64_t)norm->n * sizeof(float) * (norm->bias != NULL ? 2 : 1));
    }
    for (int t = first; t < last; t++) {
        const float *from = x + (size_t)(pick != NULL ? pick[t] : t) * width;
        for (int p = 0; p < n_parts; p++) {
            norm_part(y + (size_t)t * width + (size_t)p * (size_t)norm->n, from + (size_t)p * (size_t)norm->n, norm, w);
        }
    }
    worker_barrier(w);
}

void rows_pick(float *y, const float *x, const int *pick, int n_rows, int n, worker *w) {
    int first, last;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++)
        memcpy(y + (size_t)t * (size_t)n, x + (size_t)pick[t] * (size_t)n, (size_t)n * sizeof *y);
    worker_barrier(w);
}

void rows_add(float *y, const float *x, int n_rows, int n, float scale, worker *w) {
    int first, last;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        if (scale == 1.0f) {
            w->kernels->add(y + (size_t)t * (size_t)n, x + (size_t)t * (size_t)n, n);
        } else {
            w->kernels->add_scaled(y + (size_t)t * (size_t)n, x + (size_t)t * (size_t)n, scale, n);
            meter_post(&w->meter, TERM_FLOPS_MULTIPLIER, (uint64_t)n);
        }
        meter_post(&w->meter, TERM_FLOPS_RESIDUAL, (uint64_t)n);
    }
    worker_barrier(w);
}

void rope_angles(float *cos_sin, const float *freq, int rope_dim, float magnitude, const int *pos, int n_rows, worker *w) {
    int first, last, half = rope_dim / 2;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        float *c = cos_sin + (size_t)t * (size_t)rope_dim, *s = c + half;
        for (int i = 0; i < half; i++) {
            double angle = (double)pos[t] * (double)freq[i]; /* fp32 would lose the angle at long contexts */
            c[i] = (float)cos(angle) * magnitude;
            s[i] = (float)sin(angle) * magnitude;
        }
    }
    worker_barrier(w);
}

static void rope_head(float *x, const float *c, const float *s, int half, bool pairs) {
    int step = pairs ? 2 : 1, partner = pairs ? 1 : half;
    for (int i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + partner];
        x[i * step] = a * c[i] - b * s[i];
        x[i * step + partner] = a * s[i] + b * c[i];
    }
}

void rows_rope(float *x, int n_heads, int head_dim, const float *cos_sin, int rope_dim, bool pairs, int n_rows, worker *w) {
    int first, last;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        const float *c = cos_sin + (size_t)t * (size_t)rope_dim;
        for (int h = 0; h < n_heads; h++) {
            rope_head(x + ((size_t)t * (size_t)n_heads + (size_t)h) * (size_t)head_dim, c, c + rope_dim / 2, rope_dim / 2,
                      pairs);
        }
        meter_post(&w->meter, TERM_FLOPS_POSITION, 3 * (uint64_t)n_heads * (uint64_t)rope_dim);
    }
    worker_barrier(w);
}

void rows_scale_cap(float *x, int n_rows, int n, float scale, float cap, worker *w) {
    if (scale == 1.0f && cap == 0.0f) return;
    int first, last;
    worker_share(w, n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        float *row = x + (size_t)t * (size_t)n;
        if (scale != 1.0f) {
            for (int i = 0; i < n; i++) row[i] *= scale;
            meter_post(&w->meter, TERM_FLOPS_MULTIPLIER, (uint64_t)n);
        }
        if (cap != 0.0f) {
            for (int i = 0; i < n; i++) row[i] = cap * tanhf(row[i] / cap);
            meter_post(&w->meter, TERM_FLOPS_MULTIPLIER, 3 * (uint64_t)n);
        }
    }
    worker_barrier(w);
}

bool row_finite(const float *x, size_t n) {
    return all_finite(x, n);
}
