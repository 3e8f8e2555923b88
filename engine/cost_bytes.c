/* The prediction of a step's bytes: weights once a pass, K and V once a tile. */
#include "engine/cost_parts.h"
#include "engine/cost_sums.h"

static uint64_t ceil_of(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

uint64_t cost_matrix_bytes(uint64_t n_rows, uint64_t n_cols, matrix_storage s) {
    switch (s.type) {
    case DTYPE_F32:
        return n_rows * n_cols * 4;
    case DTYPE_F16:
        return n_rows * n_cols * 2;
    case DTYPE_Q8_0: /* 32 int8 and an fp16 scale a block */
        return n_rows * ceil_of(n_cols, 32) * 34;
    case DTYPE_I8G: /* an fp32 scale a group */
        return n_rows * (n_cols + 4 * ceil_of(n_cols, (uint64_t)s.group));
    default:
        return 0; /* not a weight storage: the engine makes no plan with it */
    }
}

/* Bytes of one token's K (or V) of one head. */
static uint64_t kv_row_bytes(uint64_t head_dim, dtype kv_type) {
    switch (kv_type) {
    case DTYPE_F32:
        return 4 * head_dim;
    case DTYPE_F16:
        return 2 * head_dim;
    case DTYPE_Q8_0: /* int8 and an fp16 scale */
        return head_dim + 2;
    default:
        return 0;
    }
}

/* K and V of one token in one layer. */
static uint64_t kv_layer_bytes(const cost_dims *s, dtype kv_type) {
    return 2 * s->nkv * kv_row_bytes(s->hd, kv_type);
}

uint64_t cost_kv_bytes_per_token(const model_config *c, dtype kv_type) {
    cost_dims s = cost_dims_of(c);
    return s.nl * kv_layer_bytes(&s, kv_type);
}

/* Norm gains and biases, fp32; the final norm only where some row goes on to the head. */
static uint64_t norm_bytes(const model_config *c, const cost_dims *s, bool head) {
    uint64_t vectors = config_params(c).norms;
    if (c->final_norm && !head) vectors -= s->d * (c->norm_bias ? 2 : 1);
    return 4 * vectors;
}

void cost_weight_terms(uint64_t *n, const model_config *c, const cost_dims *s, const cost_rows *r, const weight_storage *w) {
    bool head = r->logit_rows > 0;
    for (int il = 0; il < c->n_layers; il++) {
        const matrix_storage *l = w->layers[il];
        n[TERM_BYTES_Q] += cost_matrix_bytes(s->q, s->d, l[MATRIX_Q]);
        n[TERM_BYTES_KV] += cost_matrix_bytes(s->kd, s->d, l[MATRIX_K]) + cost_matrix_bytes(s->kd, s->d, l[MATRIX_V]);
        n[TERM_BYTES_O] += cost_matrix_bytes(s->d, s->q, l[MATRIX_O]);
        n[TERM_BYTES_FFN] += cost_matrix_bytes(s->f, s->d, l[MATRIX_UP]) + cost_matrix_bytes(s->d, s->f, l[MATRIX_DOWN]);
        if (c->gated) n[TERM_BYTES_FFN] += cost_matrix_bytes(s->f, s->d, l[MATRIX_GATE]);
    }
    if (head) n[TERM_BYTES_HEAD] = cost_matrix_bytes(s->v, s->d, c->tied ? w->embedding : w->head);
    n[TERM_BYTES_BIAS] = 4 * (config_params(c).biases - (c->head_bias && !head ? s->v : 0));
    n[TERM_BYTES_NORM] = norm_bytes(c, s, head);
    n[TERM_BYTES_EMBEDDING] = r->rows * cost_matrix_bytes(1, s->d, w->embedding);
    if (c->position == POSITION_LEARNED) n[TERM_BYTES_POSITION] = r->rows * cost_matrix_bytes(1, s->d, w->positions);
}

/* Of a shared prefix this many tokens are read at sequence b: the first of a group reads them for all. */
static uint64_t shared_tokens_read(const execution_plan *p, int b) {
    const plan_sequence *q = &p->sequences[b];
    return b > 0 && p->sequences[b - 1].group == q->group ? 0 : (uint64_t)q->n_shared;
}

/* One sequence: tokens read in full layers and in windowed ones, times the layers of each. */
void cost_kv_sequence(uint64_t *n, const cost_dims *s, const execution_plan *p, int b, uint64_t n_shared_read) {
    const plan_sequence *q = &p->sequences[b];
    uint64_t layer_bytes = kv_layer_bytes(s, p->kv_type), cached = (uint64_t)q->n_cached, n_new = (uint64_t)q->n_new;
    uint64_t tile = (uint64_t)p->query_tile, page = (uint64_t)p->page_size;
    uint64_t full = s->nl - s->n_windowed;
    kv_tokens in_full = cost_tokens_read(cached, n_new, 0, tile);
    kv_tokens in_windowed = cost_tokens_read(cached, n_new, s->window, tile);
    if (q->group >= 0) in_full.cached -= (uint64_t)q->n_shared - n_shared_read;

    n[TERM_BYTES_KV_WRITTEN] += n_new * s->nl * layer_bytes;
    n[TERM_BYTES_KV_CACHED] += (full * in_full.cached + s->n_windowed * in_windowed.cached) * layer_bytes;
    n[TERM_BYTES_KV_OWN] += (full * in_full.own + s->n_windowed * in_windowed.own) * layer_bytes;
    n[TERM_BYTES_PAGE_TABLE] +=
        4 * (full * cost_pages(cached, n_new, 0, page) + s->n_windowed * cost_pages(cached, n_new, s->window, page));
}

uint64_t cost_shared_token_bytes(const cost_dims *s, dtype kv_type) {
    return (s->nl - s->n_windowed) * kv_layer_bytes(s, kv_type);
}

void cost_kv_terms(uint64_t *n, const cost_dims *s, const execution_plan *p) {
    for (int b = 0; b < p->n_sequences; b++) cost_kv_sequence(n, s, p, b, shared_tokens_read(p, b));
}
