/* Sizes: parameters, cache, weights, what fits. Work and time are in cost_report_work.c. */
#include "tools/cost_report.h"

/* Numbers inside a formula. */
#define N(x) format_exact((uint64_t)(x)).text
#define R(x) format_input((double)(x)).text

status cost_report(report *r, const question *q, error *e) {
    status s = OK;
    if (q->has_config) cost_report_shape(r, q);
    if (question_kv_bytes(q) != 0) cost_report_cache(r, q);
    if (q->params != 0) cost_report_weights(r, q);
    cost_report_memory(r, q);
    if (s == OK && q->has_config) s = cost_report_token(r, q, e);
    if (s == OK && q->params != 0) s = cost_report_decode(r, q, e);
    if (s == OK && q->params != 0 && q->prompt != 0) s = cost_report_prefill(r, q, e);
    if (s == OK && q->params != 0 && q->train_tokens != 0) cost_report_training(r, q);
    return s;
}

void cost_report_shape(report *r, const question *q) {
    const model_config *c = &q->config;
    param_counts p = config_params(c);
    report_heading(r, "%s: %d layers, d_model %d, %d heads of %d, %d K/V heads, d_ff %d, vocabulary %d", q->name, c->n_layers,
                   c->d_model, c->n_heads, c->head_dim, c->n_kv_heads, c->d_ff, c->n_vocab);
    result *a = report_exact(r, "matrices", "weights in matrix products", p.matrices, UNIT_COUNT);
    result_formula(a, "n_layers × (2 × d_model × q_dim + 2 × d_model × kv_dim + n_ffn × d_model × d_ff) + n_vocab × d_model",
                   "%d × (2 × %s × %s + 2 × %s × %s + %d × %s × %s) + %s × %s", c->n_layers, N(c->d_model), N(config_q_dim(c)),
                   N(c->d_model), N(config_kv_dim(c)), config_n_ffn(c), N(c->d_model), N(c->d_ff), N(c->n_vocab),
                   N(c->d_model));
    a = report_exact(r, "parameters", "parameters", p.total, UNIT_COUNT);
    result_formula(a, "matrices + biases + norms + embedding + positions", "%s + %s + %s + %s + %s", N(p.matrices), N(p.biases),
                   N(p.norms), N(p.embedding), N(p.positions));
    if (c->tied) result_note(a, "the head is the embedding table: counted once");
}

static void report_heads(report *r, const question *q) {
    if (q->n_heads == 0) return;
    result *a = report_exact(r, "queries_per_kv_head", "query heads that share a K/V head",
                             (uint64_t)(q->n_heads / q->n_kv_heads), UNIT_COUNT);
    result_formula(a, "n_heads / n_kv_heads", "%d / %d", q->n_heads, q->n_kv_heads);
}

/* int8 storage of a shape has a scale a token and head; a plain number of bytes has none. */
static void report_token_bytes(report *r, const question *q) {
    double b = question_kv_number_bytes(q);
    result *a = report_exact(r, "kv_bytes_per_token", "KV cache, one token", question_kv_bytes(q), UNIT_BYTES);
    if (b == 0 && q->has_config) {
        result_formula(a, "2 × n_kv_heads × (head_dim + 2) × n_layers", "2 × %d × (%d + 2) × %d", q->n_kv_heads, q->head_dim,
                       q->n_layers);
        result_note(a, "int8, with an fp16 scale for each token and head of K and of V");
    } else {
        result_formula(a, "2 × n_kv_heads × head_dim × n_layers × kv_bytes", "2 × %d × %d × %d × %s", q->n_kv_heads,
                       q->head_dim, q->n_layers, R(b == 0 ? 1 : b));
    }
    result_suffix(a, "per token");
}

static void report_pages(report *r, const question *q) {
    uint64_t token = question_kv_bytes(q), p = (uint64_t)q->page_size, n = (q->context + p - 1) / p;
    result *a = report_exact(r, "kv_bytes_allocated", "the same in whole pages", n * p * token, UNIT_BYTES);
    result_formula(a, "ceil(context / page_size) × page_size × kv_bytes_per_token", "ceil(%s / %s) × %s × %s", N(q->context),
                   N(p), N(p), N(token));
    a = report_exact(r, "kv_bytes_empty", "of which empty", (n * p - q->context) * token, UNIT_BYTES);
    result_formula(a, "(ceil(context / page_size) × page_size - context) × kv_bytes_per_token", "(%s - %s) × %s", N(n * p),
                   N(q->context), N(token));
}

/* Keys that a layer computes for n tokens generated one at a time. */
static void report_keys(report *r, uint64_t n) {
    report_exact(r, "keys_computed_with_cache", "keys computed in each layer, one token at a time, with the cache", n,
                 UNIT_COUNT);
    result *a = report_exact(r, "keys_computed_without_cache", "without it", n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n,
                             UNIT_COUNT);
    result_formula(a, "n × (n + 1) / 2", "%s × %s / 2", N(n), N(n + 1));
    a = report_exact(r, "keys_attended", "keys attended, either way", n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n,
                     UNIT_COUNT);
    result_formula(a, "n × (n + 1) / 2", "%s × %s / 2", N(n), N(n + 1));
}

void cost_report_cache(report *r, const question *q) {
    uint64_t token = question_kv_bytes(q);
    report_heading(r, "KV cache");
    report_heads(r, q);
    report_token_bytes(r, q);
    if (q->context == 0) return;
    result *a = report_exact(r, "kv_bytes_conversation", "KV cache, one conversation", q->context * token, UNIT_BYTES);
    result_formula(a, "context × kv_bytes_per_token", "%s × %s", N(q->context), N(token));
    if (q->has_config && q->context > (uint64_t)q->config.n_ctx) {
        result_note(a, "more than the %s positions that the model was made for", N(q->config.n_ctx));
    }
    if (q->page_size > 0) report_pages(r, q);
    if (q->batch > 1) {
        a = report_exact(r, "kv_bytes_all", "KV cache, all users", q->batch * q->context * token, UNIT_BYTES);
        result_formula(a, "users × context × kv_bytes_per_token", "%s × %s × %s", N(q->batch), N(q->context), N(token));
    }
    report_keys(r, q->context);
}

void cost_report_weights(report *r, const question *q) {
    static const char *const names[] = {"f32", "f16", "int8"};
    report_heading(r, "Weights in memory");
    if (q->resident != 0 || !q->has_config || q->weight_bytes != 0) {
        result *a = report_exact(r, "weight_bytes", "weights", estimate_resident(q), UNIT_BYTES);
        if (q->resident == 0) result_formula(a, "parameters × bytes", "%s × %s", R(q->params), R(q->weight_bytes));
        if (q->has_config) result_note(a, "biases and norm gains stay fp32");
        return;
    }
    for (int s = STORAGE_F32; s <= STORAGE_INT8; s++) {
        char key[32], title[64];
        snprintf(key, sizeof key, "weight_bytes_%s", names[s]);
        snprintf(title, sizeof title, "%s%s", names[s], s == q->weights ? " (in use)" : "");
        result *a = report_exact(r, key, title, estimate_stored(&q->config, s), UNIT_BYTES);
        if (s == STORAGE_INT8)
            result_note(a, "34 bytes for 32 weights of a row, scale included; position table, biases and gains fp32");
    }
}

/* What fits beside the weights, or in a memory for the cache alone. */
static void report_capacity(report *r, const question *q, uint64_t resident) {
    capacity c = estimate_capacity(q, resident);
    uint64_t token = question_kv_bytes(q);
    result *a;
    if (q->kv_memory == 0) {
        a = report_exact(r, "memory_left", "memory left for caches", c.left, UNIT_BYTES);
        result_formula(a, "memory - weights", "%s - %s", N(q->memory), N(resident));
        if (!c.fits) result_note(a, "the weights alone do not fit");
    }
    if (token == 0) return;
    if (q->page_size > 0) {
        a = report_exact(r, "pages_that_fit", "pages that fit", c.pages, UNIT_COUNT);
        result_formula(a, "floor(bytes / (page_size × kv_bytes_per_token))", "floor(%s / (%d × %s))", N(c.left), q->page_size,
                       N(token));
    }
    a = report_exact(r, "tokens_that_fit", "tokens that fit", c.tokens, UNIT_COUNT);
    if (q->page_size > 0) {
        result_formula(a, "pages × page_size", "%s × %d", N(c.pages), q->page_size);
    } else {
        result_formula(a, "floor(bytes / kv_bytes_per_token)", "floor(%s / %s)", N(c.left), N(token));
    }
    if (q->context == 0) return;
    a = report_exact(r, "users_that_fit", "users that fit", c.users, UNIT_COUNT);
    result_formula(a, "floor(bytes / cache of one user)", "floor(%s / %s)", N(c.left), N(estimate_cache(q, q->context)));
}

/* What the process takes at most; left out where this program could not run the question. */
static void report_peak(report *r, const question *q) {
    peak_memory m;
    if (!q->has_config || q->weight_bytes != 0 || q->kv_bytes != 0 || q->resident != 0) return;
    if (estimate_peak(&m, q, NULL) != OK) return;
    result *a = report_exact(r, "peak_memory_bytes", "most memory of this program, one thread", m.total, UNIT_BYTES);
    result_formula(a, "weights and vectors + pool of pages + page bookkeeping + activations and scratch", "%s + %s + %s + %s",
                   N(m.weights), N(m.pool), N(m.tables), N(m.activations));
    result_note(a, "beyond what an empty process with the same libraries takes; steps of at most %d rows", q->chunk);
}

void cost_report_memory(report *r, const question *q) {
    uint64_t resident = q->params != 0 || q->resident != 0 ? estimate_resident(q) : 0, token = question_kv_bytes(q);
    bool together = resident != 0 && token != 0 && q->context != 0;
    if (!together && q->memory == 0 && q->kv_memory == 0) return;
    report_heading(r, "Memory");
    if (together) {
        uint64_t one = estimate_cache(q, q->context);
        result *a = report_exact(r, "memory_bytes", "weights and caches", resident + q->batch * one, UNIT_BYTES);
        result_formula(a, "weights + users × cache of one user", "%s + %s × %s", N(resident), N(q->batch), N(one));
    }
    if (together) report_peak(r, q);
    if (q->memory != 0 || q->kv_memory != 0) report_capacity(r, q, resident);
}
