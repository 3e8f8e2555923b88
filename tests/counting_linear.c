/* counting_linear.c - weights, products and norms of the counting reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/counting_parts.h"

enum { BLOCK = 32, BLOCK_BYTES = 34 };

double *counting_numbers(size_t n) {
    double *p = calloc(n ? n : 1, sizeof *p);
    if (p == NULL) {
        fprintf(stderr, "counting reference: no memory\n");
        exit(1);
    }
    return p;
}

static double half_at(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return (double)f16_to_f32(h);
}

static double float_at(const unsigned char *p) {
    float f;
    memcpy(&f, p, sizeof f);
    return (double)f;
}

/* One row of weights: what is in the array, and the scale that goes with each element (1: none). */
typedef struct {
    double *w, *scale; /* [n_cols] */
} weight_row;

static weight_row row_take(int n_cols) {
    double *both = counting_numbers(2 * (size_t)n_cols);
    return (weight_row){both, both + n_cols};
}

/* Fetches element k of a row that lies at `raw`; returns how many bytes that asked for: an element's own, and a scale (Q8_0: the whole
 * block, padding and all) with the first element that it is for. */
static int element_fetch(weight_row *out, const matrix *w, const unsigned char *raw, int k) {
    out->scale[k] = 1;
    switch (w->type) {
    case DTYPE_F32:
        out->w[k] = float_at(raw + 4 * k);
        return 4;
    case DTYPE_F16:
        out->w[k] = half_at(raw + 2 * k);
        return 2;
    case DTYPE_Q8_0: {
        const unsigned char *block = raw + k / BLOCK * BLOCK_BYTES;
        out->scale[k] = half_at(block);
        out->w[k] = (double)(signed char)block[2 + k % BLOCK];
        return k % BLOCK == 0 ? BLOCK_BYTES : 0;
    }
    case DTYPE_I8G: /* the row's int8, then its scales */
        out->scale[k] = float_at(raw + w->n_cols + 4 * (k / w->group));
        out->w[k] = (double)(signed char)raw[k];
        return k % w->group == 0 ? 1 + 4 : 1;
    default:
        fprintf(stderr, "counting reference: no such weights\n");
        exit(1);
    }
}

static void row_fetch(counting_run *r, weight_row *out, const matrix *w, int row, term bytes) {
    unsigned char *raw = malloc(w->row_bytes);
    if (raw == NULL) exit(1);
    matrix_row_raw(raw, w, row);
    for (int k = 0; k < w->n_cols; k++) r->count.n[bytes] += (uint64_t)element_fetch(out, w, raw, k);
    free(raw);
}

void counting_table_row(counting_run *r, double *out, const matrix *table, int row, term bytes) {
    weight_row fetched = row_take(table->n_cols);
    row_fetch(r, &fetched, table, row, bytes);
    for (int k = 0; k < table->n_cols; k++) out[k] = fetched.w[k] * fetched.scale[k];
    free(fetched.w);
}

static bool wants_int8(const counting_run *r, const matrix *w) {
    return w->type == DTYPE_Q8_0 && r->plan->int8_activations && !r->plan->blas;
}

/* A block's largest magnitude, then each element times the inverse of its step, rounded: three an element. */
static void block_quantise(counter *c, double *q, double *scale, const double *x, int n) {
    double top = 0;
    c->to = TERM_FLOPS_QUANTISE;
    for (int i = 0; i < n; i++) top = larger(c, top, fabs(x[i]));
    double inverse = top > 0 ? 127 / top : 0;
    for (int i = 0; i < n; i++) q[i] = round_even(c, mul(c, x[i], inverse));
    *scale = top / 127;
}

counting_input counting_input_make(counting_run *r, const double *x, int n_rows, int n_cols, const matrix *const *w, int n) {
    counting_input in = {.x = x, .n_rows = n_rows, .n_cols = n_cols};
    bool wanted = false;
    for (int i = 0; i < n; i++) wanted = wanted || wants_int8(r, w[i]);
    if (!wanted) return in;
    int n_blocks = (n_cols + BLOCK - 1) / BLOCK;
    in.q = counting_numbers((size_t)n_rows * (size_t)n_cols);
    in.scale = counting_numbers((size_t)n_rows * (size_t)n_blocks);
    for (int t = 0; t < n_rows; t++)
        for (int b = 0; b < n_blocks; b++) {
            int at = t * n_cols + b * BLOCK, left = n_cols - b * BLOCK < BLOCK ? n_cols - b * BLOCK : BLOCK;
            block_quantise(&r->count, in.q + at, &in.scale[t * n_blocks + b], x + at, left);
        }
    return in;
}

void counting_input_free(counting_input *in) {
    free(in->q);
    free(in->scale);
}

static double dot(counter *c, const double *w, const double *x, int n, term flops) {
    double sum = 0;
    c->to = flops;
    for (int k = 0; k < n; k++) sum = add(c, sum, mul(c, w[k], x[k]));
    return sum;
}

/* int8 by int8: in each block whole numbers, of which the first starts the sum; the block's sum, scaled, is what is added on. */
static double dot_int8(counter *c, const weight_row *w, const double *q, const double *scale, int n, term flops) {
    double sum = 0;
    for (int k = 0; k < n; k += BLOCK) {
        c->to = flops;
        double block = mul(c, w->w[k], q[k]);
        for (int i = k + 1; i < n && i < k + BLOCK; i++) block = add(c, block, mul(c, w->w[i], q[i]));
        c->to = TERM_FLOPS_QUANTISE;
        double scaled = mul(c, block, mul(c, w->scale[k], scale[k / BLOCK]));
        c->to = flops;
        sum = add(c, sum, scaled);
    }
    return sum;
}

double *counting_linear(counting_run *r, const matrix *w, const counting_input *in, term flops, term bytes) {
    double *y = counting_numbers((size_t)in->n_rows * (size_t)w->n_rows);
    weight_row row = row_take(w->n_cols);
    int n = w->n_cols, n_blocks = (n + BLOCK - 1) / BLOCK;
    bool int8 = wants_int8(r, w), scaled = w->type == DTYPE_Q8_0 || w->type == DTYPE_I8G;
    counter *c = &r->count;
    for (int i = 0; i < w->n_rows; i++) {
        row_fetch(r, &row, w, i, bytes); /* once for all rows of x */
        c->to = TERM_FLOPS_QUANTISE;
        for (int k = 0; k < n && scaled && !int8; k++) row.w[k] = mul(c, row.w[k], row.scale[k]);
        if (w->bias != NULL) c->n[TERM_BYTES_BIAS] += sizeof w->bias[i];
        for (int t = 0; t < in->n_rows; t++) {
            double sum = int8 ? dot_int8(c, &row, in->q + t * n, in->scale + t * n_blocks, n, flops)
                              : dot(c, row.w, in->x + t * n, n, flops);
            c->to = TERM_FLOPS_BIAS;
            y[t * w->n_rows + i] = w->bias != NULL ? add(c, sum, (double)w->bias[i]) : sum;
        }
    }
    free(row.w);
    return y;
}

/* (x - mean) / sqrt(mean of squares + eps) * gain + bias; RMSNorm takes no mean away. */
static void norm_part(counter *c, double *x, const norm_weights *w, const model_config *config) {
    int n = w->n;
    double mean = 0, square = 0;
    c->to = TERM_FLOPS_NORM;
    if (config->norm == NORM_LAYER) {
        for (int i = 0; i < n; i++) mean = add(c, mean, x[i]);
        mean = divide(c, mean, n);
        for (int i = 0; i < n; i++) x[i] = sub(c, x[i], mean);
    }
    for (int i = 0; i < n; i++) square = add(c, square, mul(c, x[i], x[i]));
    double inverse = divide(c, 1, root(c, add(c, divide(c, square, n), (double)config->norm_eps)));
    for (int i = 0; i < n; i++) x[i] = mul(c, mul(c, x[i], inverse), (double)w->gain[i]);
    for (int i = 0; i < n && w->bias != NULL; i++) x[i] = add(c, x[i], (double)w->bias[i]);
}

void counting_norm(counting_run *r, double *x, int n_rows, int n_parts, const norm_weights *w) {
    if (w->gain == NULL) return;
    for (int i = 0; i < w->n; i++) r->count.n[TERM_BYTES_NORM] += sizeof(float) * (w->bias != NULL ? 2 : 1);
    for (int i = 0; i < n_rows * n_parts; i++) norm_part(&r->count, x + i * w->n, w, r->c);
}
