/* quality.c - every storage against fp32, text by text. */
#include "tools/quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cost.h"
#include "engine/sample.h"

/* Logits of a piece of text, of two models at a time: this many numbers at most. */
enum { MOST_LOGITS = 1 << 24 };

/* Models in each storage. A storage that cannot hold the weights is a line of the table, not the end; fp32 holds them all. */
static status open_models(quality *q, error *e) {
    static const int options[N_WEIGHTS] = {1, 2, 3, 0}; /* "auto|f32|f16|int8" */
    for (int w = 0; w < N_WEIGHTS; w++) {
        session_options o = *q->o;
        o.weights = options[w];
        status st = session_open_model(&q->sessions[w], &o, &q->refused[w]);
        if (st != OK && (w == 0 || st == ERR_MEMORY)) {
            *e = q->refused[w];
            return st;
        }
    }
    session *own = &q->sessions[N_WEIGHTS - 1];
    dtype type = own->model != NULL ? own->model->layers[0].wq.type : DTYPE_F32;
    if (type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_Q8_0) session_close(own);
    return OK;
}

static status run_open(quality *q, int weights, int kv_type, bool int8_activations, error *e) {
    quality_run *r = &q->runs[q->n_runs++];
    session *s = &q->sessions[weights];
    *r = (quality_run){.weights = weights, .kv_type = kv_type, .int8_activations = int8_activations, .agrees = true};
    if (s->model == NULL) return OK;
    session_options o = *q->o;
    o.kv_type = kv_type;
    o.activations = int8_activations ? 0 : 1; /* "int8|f32" */
    o.prefill_chunk = q->piece;
    engine_options eo = session_engine_options(&o);
    status st = engine_create(&r->engine, s->model, &eo, e);
    if (st == OK) st = kv_sequence_create(&r->kv, engine_cache(r->engine), engine_n_ctx(r->engine), e);
    return st == OK ? OK : error_prefix(e, s->name);
}

/* fp32 first, then each type of weights with each cache; int8 weights also against int8 activations. */
static status open_runs(quality *q, error *e) {
    status st = OK;
    for (int w = 0; w < N_WEIGHTS; w++) {
        if (w == N_WEIGHTS - 1 && q->sessions[w].model == NULL) continue;
        for (int int8 = 0; int8 < (w == 2 ? 2 : 1); int8++) {
            for (int kv = 0; kv < N_CACHES && st == OK; kv++) st = run_open(q, w, kv, int8 == 1, e);
        }
    }
    return st;
}

static void compare_counts(void *user, const step_report *report) {
    quality_run *r = user;
    term_counts predicted;
    cost_predict(&predicted, &engine_model(r->engine)->config, report->plan);
    r->agrees = r->agrees && memcmp(&predicted, &report->counted, sizeof predicted) == 0;
}

/* What a decode step of this storage reads of weights, and what a token takes in its cache: counted, by decoding one. */
static status run_measure(quality *q, quality_run *r, error *e) {
    if (r->engine == NULL) return OK;
    engine_observe(r->engine, compare_counts, r);
    status st = engine_decode(r->engine, &r->kv, q->texts.texts[0].ids, 1, q->logits, e);
    const term_counts *n = &engine_last_report(r->engine)->counted;
    r->weight_bytes = term_class_sum(n, CLASS_WEIGHT_BYTES);
    r->kv_bytes = n->n[TERM_BYTES_KV_WRITTEN];
    kv_sequence_truncate(r->kv, 0, engine_cache(r->engine));
    return st;
}

static double log_probability(const float *x, int n, int id) {
    double top = x[sample_greedy(x, n)], sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    // cppcheck-suppress invalidFunctionArg -- the largest logit is one of them: the sum is at least 1
    return (double)x[id] - top - log(sum);
}

static void score_row(quality_run *r, const float *x, const float *reference, int n_vocab, int next) {
    int best = sample_greedy(x, n_vocab);
    r->n_agree += best == sample_greedy(reference, n_vocab);
    r->text_right = r->text_right && best == next;
    r->sum_log += log_probability(x, n_vocab, next);
    for (int i = 0; i < n_vocab; i++) {
        double d = fabs((double)x[i] - (double)reference[i]);
        r->max_logit = fmax(r->max_logit, fabs((double)x[i]));
        r->max_difference = fmax(r->max_difference, d);
        r->sum_difference += d;
    }
    r->n_logits += (uint64_t)n_vocab;
}

/* Rows [at, at + n) of a text through one storage, scored. */
static status run_piece(quality *q, quality_run *r, const quality_text *t, int at, int n, error *e) {
    int n_vocab = engine_model(r->engine)->config.n_vocab;
    float *logits = r == q->runs ? q->reference : q->logits;
    status st = engine_prefill(r->engine, r->kv, t->ids + at, n, n, logits, e);
    for (int i = 0; i < n && st == OK; i++) {
        size_t row = (size_t)i * (size_t)n_vocab;
        if (at + i + 1 >= t->first_scored) score_row(r, logits + row, q->reference + row, n_vocab, t->ids[at + i + 1]);
    }
    return st == OK ? OK : error_prefix(e, quality_run_name(q, r).text);
}

static status text_run(quality *q, const quality_text *t, error *e) {
    status st = OK;
    for (int k = 0; k < q->n_runs; k++) q->runs[k].text_right = true;
    for (int at = 0; at < t->n - 1 && st == OK; at += q->piece) {
        int n = t->n - 1 - at < q->piece ? t->n - 1 - at : q->piece;
        for (int k = 0; k < q->n_runs && st == OK; k++) {
            if (q->runs[k].engine != NULL) st = run_piece(q, &q->runs[k], t, at, n, e);
        }
    }
    for (int k = 0; k < q->n_runs; k++) {
        quality_run *r = &q->runs[k];
        if (r->engine == NULL) continue;
        r->n_right += r->text_right;
        kv_sequence_truncate(r->kv, 0, engine_cache(r->engine));
    }
    return st;
}

static int context_of(const quality *q) {
    int most = q->sessions[0].model->config.n_ctx;
    if (q->o->n_ctx > 0) return q->o->n_ctx;
    return most < DEFAULT_CTX ? most : DEFAULT_CTX;
}

static status quality_open(quality *q, error *e) {
    if (q->o->matmul != 0) {
        return error_set(e, ERR_ARGUMENT, "--quality compares what the native kernels compute (leave out --matmul blas)");
    }
    status st = open_models(q, e);
    if (st == OK) st = quality_texts_read(&q->texts, &q->sessions[0], q->path, q->after, context_of(q), e);
    if (st != OK) return st;
    int n_vocab = q->sessions[0].model->config.n_vocab, most = MOST_LOGITS / n_vocab;
    q->piece = q->o->prefill_chunk < most ? q->o->prefill_chunk : most < 1 ? 1 : most;
    q->logits = calloc((size_t)q->piece * 2, (size_t)n_vocab * sizeof *q->logits);
    if (q->logits == NULL) return error_set(e, ERR_MEMORY, "out of memory for the logits");
    q->reference = q->logits + (size_t)q->piece * (size_t)n_vocab;
    return open_runs(q, e);
}

static void quality_close(quality *q) {
    for (int k = 0; k < q->n_runs; k++) {
        quality_run *r = &q->runs[k];
        if (r->kv != NULL) kv_sequence_free(r->kv, engine_cache(r->engine));
        engine_free(r->engine);
    }
    quality_texts_free(&q->texts);
    free(q->logits);
    for (int w = 0; w < N_WEIGHTS; w++) session_close(&q->sessions[w]);
}

int quality_main(session_options *o, const char *path, const char *after, bool json) {
    error e = {0};
    quality *q = calloc(1, sizeof *q);
    if (q == NULL) {
        error_set(&e, ERR_MEMORY, "out of memory");
        return tool_fail(&e);
    }
    q->o = o;
    q->path = path;
    q->after = after;
    status st = quality_open(q, &e);
    for (int k = 0; k < q->n_runs && st == OK; k++) st = run_measure(q, &q->runs[k], &e);
    for (size_t i = 0; i < q->texts.n && st == OK; i++) st = text_run(q, &q->texts.texts[i], &e);
    int rc = 0;
    if (st == OK && json) rc = quality_json(q);
    if (st == OK && !json) quality_print(q);
    if (st == OK && !quality_agrees(q)) rc = 1;
    if (st != OK) rc = tool_fail(&e);
    quality_close(q);
    free(q);
    return rc;
}
