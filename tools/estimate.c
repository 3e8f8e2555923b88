#include "tools/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"

static dtype storage_dtype(int storage) {
    static const dtype types[] = {[STORAGE_F32] = DTYPE_F32, [STORAGE_F16] = DTYPE_F16, [STORAGE_INT8] = DTYPE_Q8_0};
    return types[storage];
}

/* The rows of a step that the conventions need. */
typedef struct {
    uint64_t rows, full_pairs; /* (query, key) pairs of all layers if nothing were masked */
    uint64_t passes;
} step_rows;

/* Bytes a number in place of a storage type: predicted with fp32, then scaled. */
static void scale_bytes(term_counts *t, const question *q) {
    static const term weights[] = {TERM_BYTES_Q,    TERM_BYTES_KV,        TERM_BYTES_O,       TERM_BYTES_FFN,
                                   TERM_BYTES_HEAD, TERM_BYTES_EMBEDDING, TERM_BYTES_POSITION};
    static const term cache[] = {TERM_BYTES_KV_WRITTEN, TERM_BYTES_KV_CACHED, TERM_BYTES_KV_OWN};
    for (size_t i = 0; q->weight_bytes != 0 && i < sizeof weights / sizeof *weights; i++) {
        t->n[weights[i]] = (uint64_t)((double)(t->n[weights[i]] / 4) * q->weight_bytes);
    }
    for (size_t i = 0; q->kv_bytes != 0 && i < sizeof cache / sizeof *cache; i++) {
        t->n[cache[i]] = (uint64_t)((double)(t->n[cache[i]] / 4) * q->kv_bytes);
    }
}

static void set_attention(term_counts *t, const question *q, const step_rows *r) {
    const model_config *c = &q->config;
    if (q->attention == ATTENTION_EXACT) return;
    uint64_t pairs = q->attention == ATTENTION_FULL ? r->full_pairs : 0, nh = (uint64_t)c->n_heads;
    t->n[TERM_FLOPS_SCORES] = t->n[TERM_FLOPS_VALUES] = 2 * (uint64_t)config_q_dim(c) * pairs;
    t->n[TERM_FLOPS_SOFTMAX] = (c->attn_softcap != 0.0f ? 9 : 6) * nh * pairs;
    if (c->position == POSITION_ALIBI) t->n[TERM_FLOPS_POSITION] = 2 * nh * pairs;
    if (q->kv_type == STORAGE_INT8 && q->kv_bytes == 0)
        t->n[TERM_FLOPS_QUANTISE] += 2 * nh * (pairs - t->n[TERM_KEYS_ATTENDED]);
    t->n[TERM_FLOPS_MERGE] = 0;
    t->n[TERM_KEYS_ATTENDED] = pairs;
}

static void set_other(term_counts *t, const question *q, const step_rows *r) {
    if (q->vectors == VECTORS_NONE) {
        t->n[TERM_FLOPS_BIAS] = t->n[TERM_FLOPS_NORM] = t->n[TERM_BYTES_BIAS] = t->n[TERM_BYTES_NORM] = 0;
    }
    if (q->other == OTHER_EXACT) return;
    for (int k = 0; k < N_TERMS; k++) {
        if (term_table[k].class_ == CLASS_OTHER) t->n[k] = 0;
    }
    if (q->other == OTHER_NONE) return;
    t->n[TERM_FLOPS_SOFTMAX] = (uint64_t)q->config.n_heads * t->n[TERM_KEYS_ATTENDED];
    t->n[TERM_FLOPS_ACTIVATION] = r->rows * (uint64_t)q->config.n_layers * (uint64_t)q->config.d_ff;
}

/* Returns the FLOPs of the embedding as a matrix product. */
static uint64_t set_embedding(term_counts *t, const question *q, const step_rows *r) {
    uint64_t v = (uint64_t)q->config.n_vocab, d = (uint64_t)q->config.d_model;
    if (q->embedding == EMBEDDING_NONE) t->n[TERM_BYTES_EMBEDDING] = t->n[TERM_BYTES_POSITION] = 0;
    if (q->embedding != EMBEDDING_MATMUL) return 0;
    t->n[TERM_BYTES_EMBEDDING] = t->n[TERM_BYTES_EMBEDDING] / r->rows * v * r->passes;
    return 2 * r->rows * v * d;
}

static void work_from_terms(work *w, const question *q, const step_rows *r) {
    term_counts *t = &w->terms;
    scale_bytes(t, q);
    set_attention(t, q, r);
    set_other(t, q, r);
    w->one_hot = set_embedding(t, q, r);
    w->matmul = term_class_sum(t, CLASS_MATMUL) + w->one_hot;
    w->attention = term_class_sum(t, CLASS_ATTENTION);
    w->other = term_class_sum(t, CLASS_OTHER);
    uint64_t rows = t->n[TERM_BYTES_EMBEDDING] + t->n[TERM_BYTES_POSITION];
    w->weights = term_class_sum(t, CLASS_WEIGHT_BYTES) - rows;
    w->rest = rows + term_class_sum(t, CLASS_KV_BYTES) + term_class_sum(t, CLASS_LOGIT_BYTES);
}

/* The storage and the plan that a question stands for. storage->layers is to be freed. */
static status make_plan(execution_plan *p, weight_storage *storage, const question *q, error *e) {
    dtype type = q->weight_bytes != 0 ? DTYPE_F32 : storage_dtype(q->weights);
    dtype positions = type == DTYPE_Q8_0 ? DTYPE_F32 : type;
    *storage = (weight_storage){.embedding = {type, 0}, .positions = {positions, 0}, .head = {type, 0}};
    storage->layers = malloc((size_t)q->config.n_layers * sizeof *storage->layers);
    if (storage->layers == NULL) return error_set(e, ERR_MEMORY, "no memory for a plan of %d layers", q->config.n_layers);
    for (int il = 0; il < q->config.n_layers; il++) {
        for (int k = 0; k < N_LAYER_MATRICES; k++) storage->layers[il][k] = (matrix_storage){type, 0};
    }
    *p = (execution_plan){.weights = storage,
                          .kv_type = q->kv_bytes != 0 ? DTYPE_F32 : storage_dtype(q->kv_type),
                          .page_size = q->page_size > 0 ? q->page_size : 16,
                          .query_tile = q->query_tile,
                          .key_split = q->key_split,
                          .int8_activations = q->int8_activations};
    return OK;
}

/* Lesson: 2 FLOPs a weight and row, 4 a layer, width and pair of attention; every weight once; K and V of the keys. */
static void work_from_numbers(work *w, const question *q, uint64_t rows, uint64_t pairs, uint64_t tokens_read) {
    uint64_t width = (uint64_t)q->n_layers * (uint64_t)q->n_heads * (uint64_t)q->head_dim;
    memset(w, 0, sizeof *w);
    w->matmul = 2 * q->params * rows;
    if (q->attention != ATTENTION_NONE) w->attention = 4 * width * pairs;
    w->weights = q->resident != 0 ? q->resident : (uint64_t)((double)q->params * q->weight_bytes + 0.5);
    w->rest = tokens_read * question_kv_bytes(q);
}

/* Users bring the same rows each, so that every term is linear in their number: two predictions give all of them. */
static void terms_of_batch(term_counts *out, const question *q, execution_plan *p, uint64_t batch) {
    plan_sequence user = {.n_cached = (int)q->context, .n_new = 1, .n_logit_rows = q->logits != LOGITS_NONE, .group = -1};
    plan_sequence two[2] = {user, user};
    term_counts t1, t2;
    p->sequences = two;
    p->n_sequences = 1;
    cost_predict(&t1, &q->config, p);
    p->n_sequences = 2;
    cost_predict(&t2, &q->config, p);
    for (int k = 0; k < N_TERMS; k++) out->n[k] = t1.n[k] + (batch - 1) * (t2.n[k] - t1.n[k]);
}

status estimate_decode(work *w, const question *q, uint64_t batch, error *e) {
    memset(w, 0, sizeof *w);
    if (!q->has_config) {
        work_from_numbers(w, q, batch, batch * q->context, batch * q->context);
        return OK;
    }
    execution_plan p;
    weight_storage storage;
    status s = make_plan(&p, &storage, q, e);
    if (s != OK) return s;
    terms_of_batch(&w->terms, q, &p, batch);
    free(storage.layers);
    uint64_t nl = (uint64_t)q->config.n_layers;
    work_from_terms(w, q, &(step_rows){.rows = batch, .full_pairs = batch * nl * (q->context + 1), .passes = 1});
    return OK;
}

status estimate_prefill(work *w, const question *q, error *e) {
    uint64_t n = q->prompt;
    memset(w, 0, sizeof *w);
    if (!q->has_config) {
        work_from_numbers(w, q, n, q->attention == ATTENTION_FULL ? n * n : n * (n + 1) / 2, 0);
        return OK;
    }
    execution_plan p;
    weight_storage storage;
    status s = make_plan(&p, &storage, q, e);
    if (s != OK) return s;
    step_rows r = {.rows = n, .full_pairs = (uint64_t)q->config.n_layers * n * n, .passes = ceil_div(n, (size_t)q->chunk)};
    for (uint64_t at = 0; at < n; at += (uint64_t)q->chunk) {
        int rows = (int)(n - at < (uint64_t)q->chunk ? n - at : (uint64_t)q->chunk);
        bool last = at + (uint64_t)rows == n;
        plan_sequence seq = {.n_cached = (int)at, .n_new = rows, .group = -1};
        seq.n_logit_rows = q->logits == LOGITS_ALL ? rows : q->logits == LOGITS_LAST && last;
        p.sequences = &seq;
        p.n_sequences = 1;
        term_counts t;
        cost_predict(&t, &q->config, &p);
        term_counts_add(&w->terms, &t);
    }
    free(storage.layers);
    work_from_terms(w, q, &r);
    return OK;
}

double estimate_seconds(const question *q, const work *w) {
    double compute = q->flops > 0 ? (double)(w->matmul + w->attention) / q->flops : 0;
    double memory = q->bandwidth > 0 ? (double)(w->weights + w->rest) / q->bandwidth : 0;
    return fmax(compute, memory);
}

uint64_t estimate_stored(const model_config *c, int storage) {
    matrix_storage s = {storage_dtype(storage), 0};
    matrix_storage pos = {s.type == DTYPE_Q8_0 ? DTYPE_F32 : s.type, 0};
    uint64_t d = (uint64_t)c->d_model, f = (uint64_t)c->d_ff, v = (uint64_t)c->n_vocab;
    uint64_t q = (uint64_t)config_q_dim(c), kd = (uint64_t)config_kv_dim(c);
    uint64_t up = c->gated ? 2 : 1;
    uint64_t layer = cost_matrix_bytes(q + 2 * kd + up * f, d, s) + cost_matrix_bytes(d, q, s) + cost_matrix_bytes(d, f, s);
    uint64_t n = (uint64_t)c->n_layers * layer + (c->tied ? 1 : 2) * cost_matrix_bytes(v, d, s);
    if (c->position == POSITION_LEARNED) n += cost_matrix_bytes((uint64_t)c->n_ctx, d, pos);
    param_counts p = config_params(c);
    return n + 4 * (p.biases + p.norms);
}

uint64_t estimate_resident(const question *q) {
    if (q->resident != 0) return q->resident;
    if (!q->has_config) return (uint64_t)((double)q->params * q->weight_bytes + 0.5);
    if (q->weight_bytes == 0) return estimate_stored(&q->config, q->weights);
    param_counts p = config_params(&q->config);
    return (uint64_t)((double)(p.matrices + p.embedding + p.positions) * q->weight_bytes + 0.5) + 4 * (p.biases + p.norms);
}

double estimate_crossover(const question *q, const work *one_user) {
    if (q->flops <= 0 || q->bandwidth <= 0 || one_user->matmul == 0) return INFINITY;
    return (double)one_user->weights / q->bandwidth / ((double)one_user->matmul / q->flops);
}

double estimate_crossover_with_caches(const question *q, const work *one_user) {
    if (q->flops <= 0 || q->bandwidth <= 0) return INFINITY;
    double arithmetic = (double)(one_user->matmul + one_user->attention) / q->flops;
    double slope =
        arithmetic - (double)one_user->rest / q->bandwidth; /* each user adds this much more arithmetic than reading */
    return slope > 0 ? (double)one_user->weights / q->bandwidth / slope : INFINITY;
}

uint64_t estimate_cache(const question *q, uint64_t n_tokens) {
    uint64_t stored = q->page_size > 0 ? round_up(n_tokens, (size_t)q->page_size) : n_tokens;
    return stored * question_kv_bytes(q);
}

capacity estimate_capacity(const question *q, uint64_t resident) {
    capacity c = {.fits = true};
    if (q->kv_memory != 0) {
        c.left = q->kv_memory;
    } else {
        c.fits = resident <= q->memory;
        c.left = c.fits ? q->memory - resident : 0;
    }
    uint64_t token = question_kv_bytes(q), page = (uint64_t)q->page_size;
    if (token == 0) return c;
    if (page > 0) c.pages = c.left / (page * token);
    c.tokens = page > 0 ? c.pages * page : c.left / token;
    if (q->context > 0) c.users = c.left / estimate_cache(q, q->context);
    return c;
}
