/* Work and time: FLOPs of a token, a decode step, a prefill, training. */
#include "tools/cost_report.h"

#include <math.h>

/* Numbers inside a formula; each lives until the end of the statement. */
#define N(x) format_exact((uint64_t)(x)).text
#define R(x) format_input((double)(x)).text

static result *flops_line(report *r, const work *w, term t) {
    return report_exact(r, term_table[t].key, term_table[t].words, w->terms.n[t], UNIT_FLOPS);
}

static void report_products(report *r, const question *q, const work *w) {
    const model_config *c = &q->config;
    int nl = c->n_layers, d = c->d_model, width = config_q_dim(c);
    result_formula(flops_line(r, w, TERM_FLOPS_Q), "2 × n_layers × d_model × q_dim", "2 × %d × %s × %s", nl, N(d), N(width));
    result_formula(flops_line(r, w, TERM_FLOPS_KV), "4 × n_layers × d_model × kv_dim", "4 × %d × %s × %s", nl, N(d),
                   N(config_kv_dim(c)));
    result_formula(flops_line(r, w, TERM_FLOPS_O), "2 × n_layers × q_dim × d_model", "2 × %d × %s × %s", nl, N(width), N(d));
    result_formula(flops_line(r, w, TERM_FLOPS_FFN), "2 × n_layers × n_ffn × d_model × d_ff", "2 × %d × %d × %s × %s", nl,
                   config_n_ffn(c), N(d), N(c->d_ff));
    if (q->logits == LOGITS_NONE) {
        result_note(flops_line(r, w, TERM_FLOPS_HEAD), "left out: --logit-rows none");
    } else {
        result_formula(flops_line(r, w, TERM_FLOPS_HEAD), "2 × d_model × n_vocab", "2 × %s × %s", N(d), N(c->n_vocab));
    }
    if (w->one_hot == 0) return;
    result *a = report_exact(r, "flops_embedding", "embedding as a product", w->one_hot, UNIT_FLOPS);
    result_formula(a, "2 × n_vocab × d_model", "2 × %s × %s", N(c->n_vocab), N(d));
}

static void report_attention(report *r, const question *q, const work *w) {
    int width = config_q_dim(&q->config);
    uint64_t keys = w->terms.n[TERM_KEYS_ATTENDED];
    result *a = report_exact(r, "keys", "keys that the token sees, over all layers", keys, UNIT_COUNT);
    if (keys == (uint64_t)q->config.n_layers * (q->context + 1)) {
        result_formula(a, "n_layers × (context + 1)", "%d × (%s + 1)", q->config.n_layers, N(q->context));
    }
    result_formula(flops_line(r, w, TERM_FLOPS_SCORES), "2 × q_dim × keys", "2 × %s × %s", N(width), N(keys));
    result_formula(flops_line(r, w, TERM_FLOPS_VALUES), "2 × q_dim × keys", "2 × %s × %s", N(width), N(keys));
}

/* Sums, the lesson's simple formula beside them, and where attention overtakes the matrix products. */
static void report_sums(report *r, const question *q, const work *w) {
    uint64_t lesson = 4 * (uint64_t)q->config.d_model * w->terms.n[TERM_KEYS_ATTENDED];
    report_exact(r, "flops_matmul", "matrix products", w->matmul, UNIT_FLOPS);
    report_exact(r, "flops_attention", "attention", w->attention, UNIT_FLOPS);
    result *a =
        report_exact(r, "flops_matmul_attention", "matrix products and attention", w->matmul + w->attention, UNIT_FLOPS);
    result_formula(a, "matmul + attention", "%s + %s", N(w->matmul), N(w->attention));
    a = report_exact(r, "flops_other", "everything else", w->other, UNIT_FLOPS);
    result_note(a, "bias adds, norms, positions, softmax, activation, residual adds, scales");
    report_exact(r, "flops_total", "together", w->matmul + w->attention + w->other, UNIT_FLOPS);
    a = report_exact(r, "flops_lesson", "the simple formula", 2 * q->params + lesson, UNIT_FLOPS);
    result_formula(a, "2 × parameters + 4 × d_model × keys", "2 × %s + 4 × %s × %s", N(q->params), N(q->config.d_model),
                   N(w->terms.n[TERM_KEYS_ATTENDED]));
    result_note(a, "counts embedding, positions, biases and gains as if they were multiplied; d_model for q_dim");
    double even = (double)w->matmul / (4.0 * q->config.n_layers * config_q_dim(&q->config));
    a = report_real(r, "attention_equals_matmul_at", "attention costs as much as the matrix products at", even, UNIT_COUNT);
    result_formula(a, "matmul / (4 × n_layers × q_dim)", "%s / (4 × %d × %s)", N(w->matmul), q->config.n_layers,
                   N(config_q_dim(&q->config)));
    result_suffix(a, "keys");
}

status cost_report_token(report *r, const question *q, error *e) {
    work w;
    status s = estimate_decode(&w, q, 1, e);
    if (s != OK) return s;
    report_heading(r, "FLOPs of one token after %s others", N(q->context));
    report_products(r, q, &w);
    report_attention(r, q, &w);
    for (int t = 0; t < N_TERMS; t++) {
        if (term_table[t].class_ == CLASS_OTHER && w.terms.n[t] != 0) flops_line(r, &w, (term)t);
    }
    report_sums(r, q, &w);
    return OK;
}

/* The time of a pass, with the formula of bare numbers or of a shape. */
static void report_step_time(report *r, const question *q, const work *w, const char *key, const char *title) {
    result *a = report_real(r, key, title, estimate_seconds(q, w), UNIT_SECONDS);
    uint64_t flops = w->matmul + w->attention, bytes = w->weights + w->rest;
    if (q->flops > 0 && q->bandwidth > 0) {
        bool memory = (double)bytes / q->bandwidth >= (double)flops / q->flops;
        result_formula(a, "max(FLOPs / flops, bytes / bandwidth)", "max(%s / %s, %s / %s)", N(flops), R(q->flops), N(bytes),
                       R(q->bandwidth));
        result_note(a, "%s decides: %s for arithmetic, %s for reading", memory ? "reading" : "arithmetic",
                    format_rounded((double)flops / q->flops, UNIT_SECONDS, q->units).text,
                    format_rounded((double)bytes / q->bandwidth, UNIT_SECONDS, q->units).text);
    } else if (q->flops > 0) {
        result_formula(a, "FLOPs / flops", "%s / %s", N(flops), R(q->flops));
        result_note(a, "arithmetic only: no bandwidth was given");
    } else {
        result_formula(a, "bytes / bandwidth", "%s / %s", N(bytes), R(q->bandwidth));
        result_note(a, "reading only: no FLOP/s were given");
    }
}

static void report_step_work(report *r, const question *q, const work *w) {
    result *a = report_exact(r, "step_flops", "FLOPs of matrix products and attention", w->matmul + w->attention, UNIT_FLOPS);
    if (!q->has_config && q->attention == ATTENTION_NONE) {
        result_formula(a, "2 × parameters × users", "2 × %s × %s", R(q->params), N(q->batch));
    } else if (!q->has_config) {
        result_formula(a, "(2 × parameters + 4 × n_layers × n_heads × head_dim × context) × users",
                       "(2 × %s + 4 × %d × %d × %d × %s) × %s", R(q->params), q->n_layers, q->n_heads, q->head_dim,
                       N(q->context), N(q->batch));
    }
    a = report_exact(r, "step_weight_bytes", "bytes of weights, once for all users", w->weights, UNIT_BYTES);
    if (!q->has_config && q->resident == 0)
        result_formula(a, "parameters × bytes", "%s × %s", R(q->params), R(q->weight_bytes));
    if (q->has_config) {
        const uint64_t *n = w->terms.n;
        a = report_exact(r, "step_weight_side_bytes", "with the rows of the embedding and position tables",
                         w->weights + n[TERM_BYTES_EMBEDDING] + n[TERM_BYTES_POSITION], UNIT_BYTES);
    }
    a = report_exact(r, "step_cache_bytes", q->has_config ? "bytes of rows, K and V, page tables, logits" : "bytes of caches",
                     w->rest, UNIT_BYTES);
    if (!q->has_config && w->rest > 0) {
        result_formula(a, "users × context × kv_bytes_per_token", "%s × %s × %s", N(q->batch), N(q->context),
                       N(question_kv_bytes(q)));
    }
}

static void report_rates(report *r, const question *q, double seconds) {
    if (seconds <= 0) return;
    result *a = report_real(r, "tokens_per_second_user", "each user", 1 / seconds, UNIT_TOKENS_PER_SECOND);
    result_formula(a, "1 / step", "1 / %s", format_rounded(seconds, UNIT_SECONDS, q->units).text);
    a = report_real(r, "tokens_per_second", "all users", (double)q->batch / seconds, UNIT_TOKENS_PER_SECOND);
    result_formula(a, "users / step", "%s / %s", N(q->batch), format_rounded(seconds, UNIT_SECONDS, q->units).text);
}

static void report_crossovers(report *r, const question *q, const work *one) {
    if (q->flops <= 0 || q->bandwidth <= 0) return;
    result *a = report_real(r, "machine_balance", "this machine does", q->flops / q->bandwidth, UNIT_COUNT);
    result_formula(a, "flops / bandwidth", "%s / %s", R(q->flops), R(q->bandwidth));
    result_suffix(a, "FLOPs in the time of reading a byte");
    if (q->measured[0] != '\0') result_note(a, "%s", q->measured);
    a = report_real(r, "crossover", "crossover without caches", estimate_crossover(q, one), UNIT_COUNT);
    if (!q->has_config && q->resident == 0) {
        result_formula(a, "bytes × flops / (2 × bandwidth)", "%s × %s / (2 × %s)", R(q->weight_bytes), R(q->flops),
                       R(q->bandwidth));
    } else {
        result_formula(a, "(weight bytes / bandwidth) / (matmul FLOPs of a user / flops)", "(%s / %s) / (%s / %s)",
                       N(one->weights), R(q->bandwidth), N(one->matmul), R(q->flops));
    }
    result_suffix(a, "users");
    if (one->rest == 0) return;
    a = report_real(r, "crossover_with_caches", "crossover with caches", estimate_crossover_with_caches(q, one), UNIT_COUNT);
    result_formula(a, "(weight bytes / bandwidth) / (FLOPs of a user / flops - bytes of a user / bandwidth)",
                   "(%s / %s) / (%s / %s - %s / %s)", N(one->weights), R(q->bandwidth), N(one->matmul + one->attention),
                   R(q->flops), N(one->rest), R(q->bandwidth));
    result_suffix(a, "users");
    if (isinf(a->x)) result_note(a, "a user's cache takes longer to read than its arithmetic takes: more users never help");
}

status cost_report_decode(report *r, const question *q, error *e) {
    work w, one;
    status s = estimate_decode(&w, q, q->batch, e);
    if (s == OK) s = estimate_decode(&one, q, 1, e);
    if (s != OK) return s;
    report_heading(r, "Decode step, %s user%s of %s tokens", N(q->batch), q->batch == 1 ? "" : "s", N(q->context));
    report_step_work(r, q, &w);
    if (q->flops <= 0 && q->bandwidth <= 0) return OK;
    report_step_time(r, q, &w, "step_seconds", "step");
    report_rates(r, q, estimate_seconds(q, &w));
    report_crossovers(r, q, &one);
    return OK;
}

status cost_report_prefill(report *r, const question *q, error *e) {
    work w;
    status s = estimate_prefill(&w, q, e);
    if (s != OK) return s;
    report_heading(r, "Prefill of %s tokens", N(q->prompt));
    report_exact(r, "prefill_matmul", "FLOPs of matrix products", w.matmul, UNIT_FLOPS);
    if (w.attention != 0) report_exact(r, "prefill_attention", "FLOPs of attention", w.attention, UNIT_FLOPS);
    result *a = report_exact(r, "prefill_flops", "FLOPs of matrix products and attention", w.matmul + w.attention, UNIT_FLOPS);
    if (!q->has_config && q->attention == ATTENTION_NONE) {
        result_formula(a, "2 × parameters × tokens", "2 × %s × %s", R(q->params), N(q->prompt));
    } else {
        result_formula(a, "matmul + attention", "%s + %s", N(w.matmul), N(w.attention));
    }
    if (q->has_config) {
        report_exact(r, "prefill_other", "everything else", w.other, UNIT_FLOPS);
        a = report_exact(r, "prefill_total", "together", w.matmul + w.attention + w.other, UNIT_FLOPS);
        result_note(a, "%s multiply-adds, at 2 FLOPs each",
                    format_rounded((double)(w.matmul + w.attention + w.other) / 2, UNIT_COUNT, q->units).text);
    }
    a = report_exact(r, "prefill_bytes", "bytes", w.weights + w.rest, UNIT_BYTES);
    result_formula(a, "weights + rest", "%s + %s", N(w.weights), N(w.rest));
    if (q->flops > 0 || q->bandwidth > 0) report_step_time(r, q, &w, "prefill_seconds", "time to the first token");
    return OK;
}

void cost_report_training(report *r, const question *q) {
    double flops = 6.0 * (double)q->params * (double)q->train_tokens;
    report_heading(r, "Training");
    result *a = flops < 1e18 ? report_exact(r, "training_flops", "FLOPs", 6 * q->params * q->train_tokens, UNIT_FLOPS)
                             : report_real(r, "training_flops", "FLOPs", flops, UNIT_FLOPS);
    result_formula(a, "6 × parameters × tokens", "6 × %s × %s", N(q->params), R(q->train_tokens));
    result_note(a, "2 forward, 4 backward, for each weight and token; no attention");
    if (q->flops <= 0) return;
    a = report_real(r, "training_seconds", "time", flops / q->flops, UNIT_SECONDS);
    result_formula(a, "FLOPs / flops", "%s / %s", R(flops), R(q->flops));
}
