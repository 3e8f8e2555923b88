/* The prediction of a step's work: parameters and rows for the matrix products, (row, key) pairs for attention. The bytes of K and V
 * and of the weights are in cost_bytes.c. Formulas and derivations: docs/cost-model.md. */
#include "engine/cost.h"

#include "engine/cost_parts.h"
#include "engine/cost_sums.h"

cost_dims cost_dims_of(const model_config *c) {
    cost_dims s = {
        .nl = (uint64_t)c->n_layers,
        .d = (uint64_t)c->d_model,
        .f = (uint64_t)c->d_ff,
        .v = (uint64_t)c->n_vocab,
        .nh = (uint64_t)c->n_heads,
        .nkv = (uint64_t)c->n_kv_heads,
        .hd = (uint64_t)c->head_dim,
        .q = (uint64_t)config_q_dim(c),
        .kd = (uint64_t)config_kv_dim(c),
        .phi = (uint64_t)config_n_ffn(c),
    };
    for (int il = 0; il < c->n_layers; il++) s.n_windowed += c->layer_windowed[il] != 0;
    s.window = s.n_windowed > 0 ? (uint64_t)c->window : 0;
    s.block_norms = (uint64_t)c->attn_pre_norm + c->attn_post_norm + c->attn_residual_norm + c->ffn_pre_norm +
                    c->ffn_post_norm + c->ffn_residual_norm;
    return s;
}

cost_rows cost_rows_of(const cost_dims *s, const execution_plan *p, int b) {
    const plan_sequence *q = &p->sequences[b];
    uint64_t cached = (uint64_t)q->n_cached, n = (uint64_t)q->n_new, split = (uint64_t)p->key_split;
    uint64_t full = s->nl - s->n_windowed;
    return (cost_rows){
        .rows = n,
        .logit_rows = (uint64_t)q->n_logit_rows,
        .pairs = full * cost_pairs(cached, n, 0) + s->n_windowed * cost_pairs(cached, n, s->window),
        .merges = full * cost_merges(cached, n, 0, split) + s->n_windowed * cost_merges(cached, n, s->window, split),
    };
}

static cost_rows count_rows(const cost_dims *s, const execution_plan *p) {
    cost_rows sum = {0, 0, 0, 0};
    for (int b = 0; b < p->n_sequences; b++) {
        cost_rows r = cost_rows_of(s, p, b);
        sum.rows += r.rows;
        sum.logit_rows += r.logit_rows;
        sum.pairs += r.pairs;
        sum.merges += r.merges;
    }
    return sum;
}

/* Matrix products: 2 m n k each. Attention: every visible key meets every query head once in q.k, once in the weighted sum of V. */
static void predict_products(uint64_t *n, const cost_dims *s, const cost_rows *r) {
    n[TERM_FLOPS_Q] = 2 * r->rows * s->nl * s->d * s->q;
    n[TERM_FLOPS_KV] = 4 * r->rows * s->nl * s->d * s->kd;
    n[TERM_FLOPS_O] = 2 * r->rows * s->nl * s->q * s->d;
    n[TERM_FLOPS_FFN] = 2 * r->rows * s->nl * s->phi * s->d * s->f;
    n[TERM_FLOPS_HEAD] = 2 * r->logit_rows * s->d * s->v;
    n[TERM_FLOPS_SCORES] = 2 * s->q * r->pairs;
    n[TERM_FLOPS_VALUES] = 2 * s->q * r->pairs;
}

/* FLOPs of normalising one row of n elements.
 * RMS: squares n, sum n, mean 1, eps 1, root 1, reciprocal 1, scale n, gain n.
 * LayerNorm: mean n + 1, differences n, squares n, mean of them n + 1, eps, root, reciprocal 3, scale n, gain n, bias n. */
static uint64_t norm_row(const model_config *c, uint64_t n) {
    if (c->norm == NORM_RMS) return 4 * n + 4;
    return 6 * n + 5 + (c->norm_bias ? n : 0);
}

static uint64_t predict_norms(const model_config *c, const cost_dims *s, const cost_rows *r) {
    uint64_t n = r->rows * (s->nl * s->block_norms + c->embedding_norm) * norm_row(c, s->d);
    if (c->final_norm) n += r->logit_rows * norm_row(c, s->d);
    if (c->qk_norm == QK_NORM_HEAD) n += r->rows * s->nl * (s->nh + s->nkv) * norm_row(c, s->hd);
    if (c->qk_norm == QK_NORM_WIDTH) n += r->rows * s->nl * (norm_row(c, s->q) + norm_row(c, s->kd));
    return n;
}

static uint64_t predict_positions(const model_config *c, const cost_dims *s, const cost_rows *r) {
    switch (c->position) {
    case POSITION_LEARNED:
        return r->rows * s->d;
    case POSITION_ROPE:
        return 3 * r->rows * s->nl * (s->nh + s->nkv) * (uint64_t)c->rope_dim;
    case POSITION_ALIBI:
        return 2 * s->nh * r->pairs;
    case POSITION_NONE:
        break;
    }
    return 0;
}

static uint64_t activation_flops(activation_kind a) {
    static const uint64_t flops[] = {[ACTIVATION_RELU] = 1,      [ACTIVATION_SILU] = 4,  [ACTIVATION_GELU_ERF] = 5,
                                     [ACTIVATION_GELU_TANH] = 9, [ACTIVATION_RELU2] = 2, [ACTIVATION_GELU_QUICK] = 5};
    return flops[a];
}

static uint64_t predict_multipliers(const model_config *c, const cost_dims *s, const cost_rows *r) {
    uint64_t n = 0;
    if (c->embedding_scale != 1.0f) n += r->rows * s->d;
    if (c->residual_scale != 1.0f) n += 2 * r->rows * s->nl * s->d;
    if (c->logit_scale != 1.0f) n += r->logit_rows * s->v;
    if (c->final_softcap != 0.0f) n += 3 * r->logit_rows * s->v;
    return n;
}

static void predict_other(uint64_t *n, const model_config *c, const cost_dims *s, const cost_rows *r) {
    uint64_t head_bias = c->head_bias ? s->v : 0;
    n[TERM_FLOPS_BIAS] = r->rows * (config_params(c).biases - head_bias) + r->logit_rows * head_bias;
    n[TERM_FLOPS_NORM] = predict_norms(c, s, r);
    n[TERM_FLOPS_POSITION] = predict_positions(c, s, r);
    n[TERM_FLOPS_SOFTMAX] = (6 + (c->attn_softcap != 0.0f ? 3 : 0)) * s->nh * r->pairs;
    n[TERM_FLOPS_ACTIVATION] = r->rows * s->nl * s->f * (activation_flops(c->activation) + c->gated);
    n[TERM_FLOPS_RESIDUAL] = 2 * r->rows * s->nl * s->d;
    n[TERM_FLOPS_MULTIPLIER] = predict_multipliers(c, s, r);
    n[TERM_FLOPS_MERGE] = r->merges * s->nh * (10 + 3 * s->hd);
}

void cost_flop_terms(uint64_t *n, const model_config *c, const cost_dims *s, const cost_rows *r, const execution_plan *p) {
    predict_products(n, s, r);
    predict_other(n, c, s, r);
    n[TERM_FLOPS_QUANTISE] = cost_quantise_flops(c, s, r, p);
}

void cost_predict(term_counts *out, const model_config *c, const execution_plan *p) {
    *out = (term_counts){{0}};
    cost_dims s = cost_dims_of(c);
    cost_rows r = count_rows(&s, p);
    if (r.rows == 0) return;
    cost_flop_terms(out->n, c, &s, &r, p);
    cost_weight_terms(out->n, c, &s, &r, p->weights);
    cost_kv_terms(out->n, &s, p);
    out->n[TERM_BYTES_LOGITS] = 4 * r.logit_rows * s.v;
    out->n[TERM_KEYS_COMPUTED] = s.nl * r.rows;
    out->n[TERM_KEYS_ATTENDED] = r.pairs;
}
