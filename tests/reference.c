#include "tests/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *numbers(size_t n) {
    double *p = calloc(n ? n : 1, sizeof *p);
    if (p == NULL) {
        fprintf(stderr, "reference: no memory\n");
        exit(1);
    }
    return p;
}

/* What is rounded in this pass. */
static reference_storage storage;

/* x ~ s q, q to the nearest whole number: s = max|x| / 127, which a cache keeps in fp16. */
static void round_int8(double *x, int n, bool half_scale) {
    double top = 0;
    for (int i = 0; i < n; i++) top = fmax(top, fabs(x[i]));
    double s = half_scale ? (double)f16_to_f32(f32_to_f16((float)(top / 127))) : top / 127;
    for (int i = 0; i < n && s > 0; i++) x[i] = s * fmax(-127, fmin(127, nearbyint(x[i] / s)));
}

/* Rows of K or V, in runs of one head. */
static void round_cache(double *x, size_t n_elems, int head_dim) {
    for (size_t i = 0; i < n_elems && storage.kv_type == DTYPE_F16; i++) x[i] = (double)f16_to_f32(f32_to_f16((float)x[i]));
    for (size_t i = 0; i < n_elems && storage.kv_type == DTYPE_Q8_0; i += (size_t)head_dim) round_int8(x + i, head_dim, true);
}

static void round_input(double *x, int n, int n_cols) {
    for (int t = 0; t < n; t++, x += n_cols)
        for (int k = 0; k < n_cols; k += 32) round_int8(x + k, n_cols - k < 32 ? n_cols - k : 32, false);
}

static double *product(const matrix *w, const double *x, int n) {
    double *y = numbers((size_t)n * (size_t)w->n_rows);
    float *row = malloc((size_t)w->n_cols * sizeof *row);
    for (int r = 0; r < w->n_rows; r++) {
        matrix_row_f32(row, w, r);
        for (int t = 0; t < n; t++) {
            double sum = w->bias != NULL ? (double)w->bias[r] : 0;
            for (int k = 0; k < w->n_cols; k++) sum += (double)row[k] * x[(size_t)t * (size_t)w->n_cols + (size_t)k];
            y[(size_t)t * (size_t)w->n_rows + (size_t)r] = sum;
        }
    }
    free(row);
    return y;
}

/* y[t] = W x[t] + b for n rows */
static double *linear(const matrix *w, const double *x, int n) {
    if (w->type != DTYPE_Q8_0 || !storage.int8_activations) return product(w, x, n);
    double *rounded = numbers((size_t)n * (size_t)w->n_cols);
    memcpy(rounded, x, (size_t)n * (size_t)w->n_cols * sizeof *rounded);
    round_input(rounded, n, w->n_cols);
    double *y = product(w, rounded, n);
    free(rounded);
    return y;
}

/* In place, over groups of w->n elements. */
static void norm(double *x, size_t n_elems, const norm_weights *w, const model_config *c) {
    if (w->gain == NULL) return;
    size_t n = (size_t)w->n;
    for (double *row = x; row < x + n_elems; row += n) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < n; i++) mean += row[i] / (double)n;
        if (c->norm == NORM_RMS) mean = 0;
        for (size_t i = 0; i < n; i++) square += (row[i] - mean) * (row[i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++) {
            row[i] = (row[i] - mean) / sqrt(square + (double)c->norm_eps) * (double)w->gain[i];
            if (w->bias != NULL) row[i] += (double)w->bias[i];
        }
    }
}

static double *copy(const double *x, size_t n) {
    double *y = numbers(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Radians that pair i turns from one position to the next. */
static double turn(const model_config *c, int i, bool windowed) {
    const double pi = acos(-1);
    bool local = windowed && c->rope_local_base != 0;
    double base = local ? c->rope_local_base : c->rope_base, w = 1 / pow(base, 2.0 * i / c->rope_dim);
    double s = c->rope_factor, rotations = c->rope_original_ctx * w / (2 * pi); /* over the original context */
    if (local) return w;
    switch (c->rope_scaling) {
    case ROPE_SCALING_NONE:
        return w;
    case ROPE_SCALING_LINEAR:
        return w / s;
    case ROPE_SCALING_FACTORS:
        return w / (double)c->rope_factors[i];
    case ROPE_SCALING_LLAMA3: {
        /* Slow pairs are slowed by s, fast ones kept, the ones between in proportion to their rotations. */
        double share = (rotations - c->rope_low_freq_factor) / (c->rope_high_freq_factor - c->rope_low_freq_factor);
        share = clamp(share, 0, 1);
        return share * w + (1 - share) * w / s;
    }
    case ROPE_SCALING_YARN: {
        /* Peng et al., section 3.2, with the ramp in the pair's index between the pairs that make beta_fast and beta_slow rotations. */
        double fast = c->rope_dim / 2.0 * log(c->rope_original_ctx / (2 * pi * c->rope_beta_fast)) / log(base);
        double slow = c->rope_dim / 2.0 * log(c->rope_original_ctx / (2 * pi * c->rope_beta_slow)) / log(base);
        double from = clamp(floor(fast), 0, c->rope_dim), to = clamp(ceil(slow), 0, c->rope_dim - 1);
        double share = to > from ? clamp((i - from) / (to - from), 0, 1) : i > from;
        return (1 - share) * w + share * w / s;
    }
    }
    return w;
}

static double magnitude(const model_config *c) {
    if (c->rope_attn_factor != 0) return c->rope_attn_factor;
    if (c->rope_scaling == ROPE_SCALING_YARN && c->rope_factor > 1) return 0.1 * log(c->rope_factor) + 1;
    if (c->rope_scaling == ROPE_SCALING_FACTORS && c->rope_factor > 1)
        return sqrt(1 + log(c->rope_factor) / log(c->rope_original_ctx));
    return 1;
}

static void rotate(double *x, int n_heads, int n, const model_config *c, bool windowed) {
    if (c->position != POSITION_ROPE) return;
    int half = c->rope_dim / 2;
    for (int t = 0; t < n; t++)
        for (int h = 0; h < n_heads; h++)
            for (int i = 0; i < half; i++) {
                double *head = x + ((size_t)t * (size_t)n_heads + (size_t)h) * (size_t)c->head_dim;
                double *a = &head[c->rope == ROPE_PAIRS ? 2 * i : i], *b = &head[c->rope == ROPE_PAIRS ? 2 * i + 1 : i + half];
                double angle = t * turn(c, i, windowed), u = *a, v = *b, m = magnitude(c);
                *a = m * (u * cos(angle) - v * sin(angle));
                *b = m * (u * sin(angle) + v * cos(angle));
            }
}

/* Every K/V head, once for each of the query heads that share it: [n][n_heads][head_dim]. */
static double *repeat(const double *kv, int n, const model_config *c) {
    size_t hd = (size_t)c->head_dim, n_heads = (size_t)c->n_heads, n_kv = (size_t)c->n_kv_heads;
    double *out = numbers((size_t)n * n_heads * hd);
    for (size_t t = 0; t < (size_t)n; t++)
        for (size_t h = 0; h < n_heads; h++)
            memcpy(out + (t * n_heads + h) * hd, kv + (t * n_kv + h * n_kv / n_heads) * hd, hd * sizeof *out);
    return out;
}

/* Press et al.: a geometric sequence; where the heads are no power of two, every other one of twice as many fills up. */
static double alibi_slope(int h, int n_heads) {
    int power = 1;
    while (2 * power <= n_heads) power *= 2;
    return h < power ? pow(2, -8.0 * (h + 1) / power) : pow(2, -4.0 * (2 * (h - power) + 1) / power);
}

static double score(const double *q, const double *k, int distance, int h, const model_config *c) {
    double s = 0;
    for (int i = 0; i < c->head_dim; i++) s += q[i] * k[i];
    s *= (double)c->attn_scale;
    if (c->attn_softcap != 0) s = (double)c->attn_softcap * tanh(s / (double)c->attn_softcap);
    if (c->position == POSITION_ALIBI) s -= alibi_slope(h, c->n_heads) * distance;
    return s;
}

/* o[t,h] = sum_s softmax_s(score(t, s)) v[s,h], over the keys that row t sees. */
static double *attend(const double *q, const double *k, const double *v, int n, bool windowed, const model_config *c) {
    size_t hd = (size_t)c->head_dim, width = (size_t)config_q_dim(c);
    double *o = numbers((size_t)n * width), *p = numbers((size_t)n);
    for (int t = 0; t < n; t++)
        for (int h = 0; h < c->n_heads; h++) {
            size_t at = (size_t)h * hd;
            int first = windowed && t - c->window + 1 > 0 ? t - c->window + 1 : 0;
            double top = -INFINITY, sum = 0;
            for (int s = first; s <= t; s++) {
                p[s] = score(q + (size_t)t * width + at, k + (size_t)s * width + at, t - s, h, c);
                top = fmax(top, p[s]);
            }
            for (int s = first; s <= t; s++) sum += p[s] = exp(p[s] - top);
            for (int s = first; s <= t; s++)
                for (size_t i = 0; i < hd; i++) o[(size_t)t * width + at + i] += p[s] / sum * v[(size_t)s * width + at + i];
        }
    free(p);
    return o;
}

static double *attention(const layer_weights *l, const double *x, int n, bool windowed, const model_config *c) {
    double *q = linear(&l->wq, x, n), *k = linear(&l->wk, x, n), *v = linear(&l->wv, x, n);
    norm(q, (size_t)n * (size_t)config_q_dim(c), &l->q_norm, c);
    norm(k, (size_t)n * (size_t)config_kv_dim(c), &l->k_norm, c);
    rotate(q, c->n_heads, n, c, windowed);
    rotate(k, c->n_kv_heads, n, c, windowed);
    round_cache(k, (size_t)n * (size_t)config_kv_dim(c), c->head_dim);
    round_cache(v, (size_t)n * (size_t)config_kv_dim(c), c->head_dim);
    double *all_k = repeat(k, n, c), *all_v = repeat(v, n, c), *o = attend(q, all_k, all_v, n, windowed, c);
    double *y = linear(&l->wo, o, n);
    free(q), free(k), free(v), free(all_k), free(all_v), free(o);
    return y;
}

static double activate(double x, activation_kind a) {
    const double pi = acos(-1);
    switch (a) {
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_RELU2:
        return x > 0 ? x * x : 0;
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_GELU_ERF:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    }
    return NAN;
}

static double *feed_forward(const layer_weights *l, const double *x, int n, const model_config *c) {
    double *up = linear(&l->w_up, x, n), *gate = c->gated ? linear(&l->w_gate, x, n) : NULL;
    for (size_t i = 0; i < (size_t)n * (size_t)c->d_ff; i++)
        up[i] = gate != NULL ? activate(gate[i], c->activation) * up[i] : activate(up[i], c->activation);
    double *y = linear(&l->w_down, up, n);
    free(up), free(gate);
    return y;
}

static void add(double *x, double *branch, size_t size, const norm_weights *post, const model_config *c) {
    norm(branch, size, post, c);
    for (size_t i = 0; i < size; i++) x[i] += (double)c->residual_scale * branch[i];
    free(branch);
}

static void block(double *x, int n, int il, const model *m) {
    const model_config *c = &m->config;
    const layer_weights *l = &m->layers[il];
    size_t size = (size_t)n * (size_t)c->d_model;
    double *in = copy(x, size), *n1 = copy(x, size);
    norm(n1, size, &l->attn_pre, c);
    add(x, attention(l, n1, n, c->layer_windowed[il], c), size, &l->attn_post, c);
    norm(x, size, &l->attn_residual, c);
    double *n2 = copy(c->parallel_residual ? in : x, size);
    if (c->parallel_residual && l->ffn_pre.gain == NULL) memcpy(n2, n1, size * sizeof *n2);
    norm(n2, size, &l->ffn_pre, c);
    add(x, feed_forward(l, n2, n, c), size, &l->ffn_post, c);
    norm(x, size, &l->ffn_residual, c);
    free(in), free(n1), free(n2);
}

static void embed(double *x, const model *m, const int *ids, int n) {
    size_t d = (size_t)m->config.d_model;
    float *row = malloc(d * sizeof *row);
    for (int t = 0; t < n; t++) {
        matrix_row_f32(row, &m->embedding, ids[t]);
        for (size_t i = 0; i < d; i++) x[(size_t)t * d + i] = (double)m->config.embedding_scale * (double)row[i];
        if (m->config.position != POSITION_LEARNED) continue;
        matrix_row_f32(row, &m->positions, t);
        for (size_t i = 0; i < d; i++) x[(size_t)t * d + i] += (double)row[i];
    }
    free(row);
}

double *reference_logits(const model *m, const int *ids, int n) {
    return reference_logits_stored(m, ids, n, (reference_storage){DTYPE_F32, false});
}

double *reference_logits_stored(const model *m, const int *ids, int n, reference_storage how) {
    storage = how;
    const model_config *c = &m->config;
    size_t size = (size_t)n * (size_t)c->d_model;
    double *x = numbers(size), cap = (double)c->final_softcap;
    embed(x, m, ids, n);
    norm(x, size, &m->embedding_norm, c);
    for (int il = 0; il < c->n_layers; il++) block(x, n, il, m);
    norm(x, size, &m->final_norm, c);
    double *logits = linear(&m->head, x, n);
    for (size_t i = 0; i < (size_t)n * (size_t)c->n_vocab; i++) {
        logits[i] *= (double)c->logit_scale;
        if (cap != 0) logits[i] = cap * tanh(logits[i] / cap);
    }
    free(x);
    return logits;
}
