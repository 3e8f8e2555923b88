#include "tests/counting_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernel_sets.h"

static bool coin(uint64_t *state) {
    return random_below(state, 2) == 0;
}
static bool seldom(uint64_t *state) {
    return random_below(state, 5) == 0;
}

/* n_heads = n_kv_heads only where a shape has no groups; then q_dim is kv_dim too. */
static bool all_differ(const model_config *c) {
    int n[] = {c->n_layers,   c->d_model, c->d_ff,          c->n_vocab,      c->head_dim,
               c->n_kv_heads, c->n_heads, config_kv_dim(c), config_q_dim(c), c->n_ctx};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (size_t k = 0; k < i; k++)
            if (n[i] == n[k] && !(c->n_heads == c->n_kv_heads && (i == 6 || i == 8) && k == i - 1)) return false;
    return true;
}

static void draw_dims(model_config *c, uint64_t *state) {
    do {
        int group = seldom(state) ? 1 : 2 + random_below(state, 3);
        c->n_layers = 1 + random_below(state, 3);
        c->n_kv_heads = 1 + random_below(state, 4), c->n_heads = group * c->n_kv_heads;
        c->head_dim = 3 + random_below(state, 18);
        c->d_model = 5 + random_below(state, 50), c->d_ff = 5 + random_below(state, 110),
        c->n_vocab = 9 + random_below(state, 100);
        c->n_ctx = 100 + random_below(state, 40);
    } while (!all_differ(c));
}

static void draw_norms(model_config *c, uint64_t *state) {
    c->norm = coin(state) ? NORM_RMS : NORM_LAYER;
    c->norm_bias = c->norm == NORM_LAYER && coin(state);
    c->attn_pre_norm = !seldom(state), c->ffn_pre_norm = !seldom(state);
    c->attn_post_norm = seldom(state), c->ffn_post_norm = seldom(state);
    c->attn_residual_norm = seldom(state), c->ffn_residual_norm = seldom(state);
    c->embedding_norm = seldom(state), c->final_norm = !seldom(state);
    c->qk_norm = (qk_norm_kind)random_below(state, 3);
    c->parallel_residual = seldom(state);
    if (c->parallel_residual) { /* config_check: no stream between the halves, and a norm before them */
        c->attn_residual_norm = false;
        c->attn_pre_norm = c->attn_pre_norm || !c->ffn_pre_norm;
    }
}

static void draw_positions(model_config *c, uint64_t *state) {
    c->position = (position_kind)random_below(state, 4);
    c->rope = coin(state) ? ROPE_HALVES : ROPE_PAIRS;
    c->rope_dim = c->position == POSITION_ROPE ? 2 * (1 + random_below(state, c->head_dim / 2)) : 0;
    c->rope_base = 10000, c->rope_local_base = coin(state) ? 500 : 0;
    c->window = coin(state) ? 1 + random_below(state, 50) : 0;
    for (int il = 0; il < c->n_layers; il++) c->layer_windowed[il] = c->window > 0 && coin(state);
}

static float draw_multiplier(uint64_t *state) {
    return seldom(state) ? 0.5f + 0.25f * (float)random_below(state, 5) : 1.0f; /* 1 among them */
}

static void draw_switches(model_config *c, uint64_t *state) {
    c->activation = (activation_kind)random_below(state, 6);
    c->gated = coin(state), c->tied = coin(state);
    c->q_bias = coin(state), c->kv_bias = coin(state), c->o_bias = coin(state), c->ffn_bias = coin(state);
    c->head_bias = seldom(state);
    c->attn_scale = 1 / sqrtf((float)c->head_dim) * draw_multiplier(state);
    c->attn_softcap = seldom(state) ? 5 : 0, c->final_softcap = seldom(state) ? 7 : 0;
    c->embedding_scale = draw_multiplier(state), c->residual_scale = draw_multiplier(state);
    c->logit_scale = draw_multiplier(state);
}

model_config counting_random_config(uint64_t *state) {
    model_config c;
    config_init(&c);
    draw_dims(&c, state);
    draw_norms(&c, state);
    draw_positions(&c, state);
    draw_switches(&c, state);
    return c;
}

static void *taken(counting_model *cm, size_t bytes) {
    void **more = realloc(cm->owned, (size_t)(cm->n_owned + 1) * sizeof *more), *p = malloc(bytes);
    if (more == NULL || p == NULL) {
        fprintf(stderr, "counting cases: no memory\n");
        exit(1);
    }
    cm->owned = more;
    return cm->owned[cm->n_owned++] = p;
}

/* The matrix's rows as a file would have them, in place of its panels. */
static void lay_as_rows(counting_model *cm, matrix *w) {
    unsigned char *rows = taken(cm, matrix_bytes(w));
    size_t n = (size_t)w->n_cols, scales = w->row_bytes - n;
    unsigned char *apart = rows + (size_t)w->n_rows * n, *one = malloc(w->row_bytes);
    if (one == NULL) exit(1);
    for (int r = 0; r < w->n_rows; r++) {
        matrix_row_raw(one, w, r);
        if (w->type == DTYPE_I8G) { /* int8 first, then all scales */
            memcpy(rows + (size_t)r * n, one, n);
            memcpy(apart + (size_t)r * scales, one + n, scales);
        } else {
            memcpy(rows + (size_t)r * w->row_bytes, one, w->row_bytes);
        }
    }
    free(one);
    w->data = rows, w->scales = w->type == DTYPE_I8G ? apart : NULL, w->packed = false;
}

/* fp32 panels become int8 in groups along k with fp32 scales, as panels again. */
static void store_i8g(counting_model *cm, matrix *w, int group) {
    size_t n = (size_t)w->n_cols, n_groups = (n + (size_t)group - 1) / (size_t)group, row_bytes = n + 4 * n_groups;
    float *x = malloc(n * sizeof *x), *scales = malloc((size_t)w->n_rows * n_groups * sizeof *scales);
    signed char *q = malloc((size_t)w->n_rows * n);
    unsigned char *panels = taken(cm, (size_t)w->n_rows * row_bytes);
    if (x == NULL || scales == NULL || q == NULL) exit(1);
    for (int r = 0; r < w->n_rows; r++) {
        matrix_row_f32(x, w, r);
        for (size_t k = 0; k < n; k++) {
            float *scale = &scales[(size_t)r * n_groups + k / (size_t)group];
            if (k % (size_t)group == 0) *scale = 0;
            *scale = fmaxf(*scale, fabsf(x[k]) / 127);
        }
        for (size_t k = 0; k < n; k++)
            q[(size_t)r * n + k] = (signed char)lrintf(x[k] / fmaxf(scales[(size_t)r * n_groups + k / (size_t)group], 1e-20f));
    }
    w->type = DTYPE_I8G, w->group = group, w->row_bytes = row_bytes;
    for (int p = 0; p < matrix_n_panels(w); p++)
        panel_pack(panels + (size_t)p * PANEL_ROWS * row_bytes, DTYPE_I8G, group, matrix_panel_width(w, p), w->n_cols,
                   q + (size_t)p * PANEL_ROWS * n, n, scales + (size_t)p * PANEL_ROWS * n_groups, n_groups);
    w->data = panels, w->packed = true;
    free(x), free(q), free(scales);
}

static model *random_model(const model_config *c, int weights, uint64_t seed) {
    model_options o;
    model_options_init(&o);
    o.weights = weights, o.n_threads = 1;
    error e = {0};
    model *m = NULL;
    if (model_random(&m, c, seed, &o, &e) != OK) {
        fprintf(stderr, "counting cases: %s\n", e.message);
        exit(1);
    }
    return m;
}

enum { LAYER_MATRICES = 7 };
static void layer_matrices(layer_weights *l, matrix *out[LAYER_MATRICES]) {
    matrix *all[] = {&l->wq, &l->wk, &l->wv, &l->wo, &l->w_gate, &l->w_up, &l->w_down};
    memcpy(out, all, sizeof all);
}

/* Each matrix of a layer from one of three models, so that some inputs meet several kinds of weights. Biases are the same in all. */
static void mix(counting_model *cm, uint64_t *state) {
    for (int il = 0; il < cm->m->config.n_layers; il++) {
        matrix *to[LAYER_MATRICES], *from[2][LAYER_MATRICES];
        layer_matrices(&cm->m->layers[il], to);
        for (int i = 0; i < 2; i++) layer_matrices(&cm->others[i]->layers[il], from[i]);
        for (int k = 0; k < LAYER_MATRICES; k++) {
            int pick = random_below(state, 4);
            if (pick < 2) *to[k] = *from[pick][k];
            if (pick == 2 && to[k]->data != NULL) store_i8g(cm, to[k], 1 + random_below(state, 40));
        }
    }
}

static void each_matrix(counting_model *cm, void (*f)(counting_model *, matrix *)) {
    matrix *all[LAYER_MATRICES];
    for (int il = 0; il < cm->m->config.n_layers; il++) {
        layer_matrices(&cm->m->layers[il], all);
        for (int k = 0; k < LAYER_MATRICES; k++)
            if (all[k]->data != NULL) f(cm, all[k]);
    }
    f(cm, &cm->m->head);
    if (!cm->m->config.tied) return;
    const matrix *h = &cm->m->head; /* a tied table is the head */
    matrix *e = &cm->m->embedding;
    e->type = h->type, e->group = h->group, e->row_bytes = h->row_bytes;
    e->data = h->data, e->scales = h->scales, e->packed = h->packed;
}

static void to_i8g(counting_model *cm, matrix *w) {
    store_i8g(cm, w, 4 + w->n_rows % 13);
}

counting_model counting_model_make(const model_config *c, counting_storage stored, bool rows, uint64_t seed) {
    static const int types[N_STORED] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0, DTYPE_F32, DTYPE_F32};
    counting_model cm = {.m = random_model(c, types[stored], seed)};
    uint64_t state = seed;
    if (stored == STORED_I8G) each_matrix(&cm, to_i8g);
    if (stored == STORED_MIXED) {
        cm.others[0] = random_model(c, DTYPE_F16, seed);
        cm.others[1] = random_model(c, DTYPE_Q8_0, seed);
        mix(&cm, &state);
    }
    if (rows) each_matrix(&cm, lay_as_rows);
    return cm;
}

void counting_model_free(counting_model *cm) {
    for (int i = 0; i < cm->n_owned; i++) free(cm->owned[i]);
    free(cm->owned);
    model_free(cm->m);
    for (int i = 0; i < 2; i++)
        if (cm->others[i] != NULL) model_free(cm->others[i]);
}

double counting_tolerance(counting_storage stored, const engine_options *o) {
    bool int8 = o->kv_type == DTYPE_Q8_0 || (o->int8_activations && (stored == STORED_Q8_0 || stored == STORED_MIXED));
    return int8 ? 0.1 : o->kv_type == DTYPE_F16 ? 0.01 : 0.001;
}
