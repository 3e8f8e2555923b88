#include "tools/bench_case.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "tools/bench_probe.h"

static const double SETTLE_SECONDS = 1;
enum { MOST_REPEATS = 200, LEAST_REPEATS = 3, BURST = 16 };
static const double REPEAT_SECONDS = 2e-3;

typedef struct {
    session *s;
    bench_work work;
    int n_sequences, n_burst; /* decode steps in one repeat */
    kv_sequence **seqs;
    int *ids;
    float *logits;
} runner;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static bench_spread spread_of(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return (bench_spread){x[0], x[n / 2], x[n - 1]};
}

static void runner_close(runner *r) {
    for (int i = 0; r->seqs != NULL && i < r->n_sequences; i++) kv_sequence_free(r->seqs[i], engine_cache(r->s->engine));
    free(r->seqs);
    free(r->ids);
    free(r->logits);
}

/* Every sequence gets its own pages up to the context, and the pool a constant that is an ordinary number in every cache type. */
static status runner_open(runner *r, session *s, bench_work work, error *e) {
    int n_vocab = s->model->config.n_vocab, n_ids = work.prefill && work.n > BURST ? work.n : BURST;
    kv_cache *cache = engine_cache(s->engine);
    *r = (runner){.s = s, .work = work, .n_sequences = work.prefill ? 1 : work.n};
    if (n_ids < r->n_sequences) n_ids = r->n_sequences;
    r->n_burst = engine_n_ctx(s->engine) - work.context < BURST ? engine_n_ctx(s->engine) - work.context : BURST;
    r->seqs = calloc((size_t)r->n_sequences, sizeof *r->seqs);
    r->ids = calloc((size_t)n_ids, sizeof *r->ids);
    r->logits = calloc((size_t)r->n_sequences * (size_t)n_vocab, sizeof *r->logits);
    if (r->seqs == NULL || r->ids == NULL || r->logits == NULL) return error_set(e, ERR_MEMORY, "out of memory for the run");
    for (int i = 0; i < n_ids; i++) r->ids[i] = (int)((i * 7919LL + 3) % n_vocab);
    memset(cache->pool, 0x2c, cache->pool_bytes);
    status st = OK;
    for (int i = 0; i < r->n_sequences && st == OK; i++) {
        st = kv_sequence_create(&r->seqs[i], cache, engine_n_ctx(s->engine), e);
        if (st == OK && work.context > 0) st = kv_sequence_reserve(r->seqs[i], work.context, cache, e);
        if (st == OK && work.context > 0) kv_sequence_commit(r->seqs[i], work.context, cache);
    }
    return st;
}

/* A prefill, or a burst of decode steps, from the case's context. */
static status runner_once(runner *r, error *e) {
    kv_cache *cache = engine_cache(r->s->engine);
    status st = OK;
    if (r->work.prefill) {
        st = engine_prefill(r->s->engine, r->seqs[0], r->ids, r->work.n, 1, r->logits, e);
    } else {
        for (int i = 0; i < r->n_burst && st == OK; i++)
            st = engine_decode(r->s->engine, r->seqs, r->ids, r->n_sequences, r->logits, e);
    }
    for (int i = 0; i < r->n_sequences; i++) kv_sequence_truncate(r->seqs[i], r->work.context, cache);
    return st;
}

/* One repeat: seconds of a prefill, or of one decode step. The probes before it have filled the caches with their own: a small model runs
 * until that no longer matters. */
static status runner_run(runner *r, double *seconds, error *e) {
    double start = clock_seconds(), spent;
    status st;
    int n = 0;
    do {
        st = runner_once(r, e);
        n++;
        spent = clock_seconds() - start;
    } while (st == OK && spent < REPEAT_SECONDS);
    *seconds = spent / n / (r->work.prefill ? 1 : r->n_burst);
    return st;
}

/* What all chunks of a prefill counted, or the last decode step. */
static void add_counts(void *user, const step_report *report) {
    term_counts_add(user, &report->counted);
}

static status case_measure(bench_result *out, runner *r, bench_probe *p, double seconds, error *e) {
    double tokens[MOST_REPEATS], each[MOST_REPEATS], reads[MOST_REPEATS], peaks[MOST_REPEATS], end = clock_seconds() + seconds;
    int n = 0;
    while (n < MOST_REPEATS && (n < LEAST_REPEATS || clock_seconds() < end)) {
        reads[n] = bench_probe_read(p);
        peaks[n] = bench_probe_peak(p);
        status st = runner_run(r, &each[n], e);
        if (st != OK) return st;
        tokens[n] = r->work.n / each[n];
        n++;
    }
    out->n_repeats = n;
    out->tokens = spread_of(tokens, n);
    out->seconds = spread_of(each, n).median;
    out->read = spread_of(reads, n);
    out->peak = spread_of(peaks, n);
    return OK;
}

/* Runs until the number of workers is found, for at most so long. */
static status case_settle(bench_result *out, runner *r, double seconds, error *e) {
    engine *g = r->s->engine;
    int n_rows = r->work.n < engine_max_rows(g) ? r->work.n : engine_max_rows(g);
    double end = clock_seconds() + seconds, unused;
    status st = OK;
    while (st == OK && !engine_workers_settled(g, n_rows) && clock_seconds() < end) st = runner_run(r, &unused, e);
    out->n_threads = engine_workers_found(g, n_rows);
    return st;
}

/* The warm-up, whose counts are kept. */
static status case_count(bench_result *out, runner *r, error *e) {
    term_counts counts = {0};
    engine *g = r->s->engine;
    engine_observe(g, add_counts, &counts);
    status st = runner_once(r, e);
    engine_observe(g, NULL, NULL);
    if (st != OK) return st;
    double steps = r->work.prefill ? 1 : r->n_burst;
    out->flops = (double)(term_class_sum(&counts, CLASS_MATMUL) + term_class_sum(&counts, CLASS_ATTENTION)) / steps;
    out->bytes = (double)(term_class_sum(&counts, CLASS_WEIGHT_BYTES) + term_class_sum(&counts, CLASS_KV_BYTES) +
                          term_class_sum(&counts, CLASS_LOGIT_BYTES)) /
                 steps;
    out->storage = dtype_info(engine_storage(g)->layers[0][MATRIX_Q].type)->name;
    out->isa = engine_isa(g);
    return OK;
}

static bool case_fits(const session *s, const session_options *o, bench_work work, uint64_t max_cache, int *n_ctx) {
    static const size_t elem_bytes[] = {4, 2, 1};
    const model_config *c = &s->model->config;
    int want = work.prefill ? work.n : work.context + BURST;
    *n_ctx = want < c->n_ctx ? want : c->n_ctx;
    double token = 2.0 * c->n_layers * config_kv_dim(c) * (double)elem_bytes[o->kv_type];
    return (work.prefill ? work.n <= c->n_ctx : work.context < c->n_ctx) &&
           token * *n_ctx * (work.prefill ? 1 : work.n) <= (double)max_cache;
}

status bench_case_run(bench_result *out, bool *fits, session *s, const session_options *o, bench_work work, double seconds,
                      uint64_t max_cache, error *e) {
    *out = (bench_result){.work = work};
    session_options mine = *o;
    *fits = case_fits(s, o, work, max_cache, &mine.n_ctx);
    if (!*fits) return OK;
    mine.max_sequences = work.prefill ? 1 : work.n;
    mine.kv_mem = 0;
    mine.kv_pages = 0;
    status st = session_engine(s, &mine, e);
    if (st != OK) return st;
    runner r;
    bench_probe p = {0};
    st = runner_open(&r, s, work, e);
    if (st == OK) st = case_count(out, &r, e);
    if (st == OK) st = case_settle(out, &r, seconds < SETTLE_SECONDS ? SETTLE_SECONDS : seconds, e);
    bool int8 = st == OK && strcmp(out->storage, "q8_0") == 0 && o->activations == 0 && o->matmul == 0;
    if (st == OK) st = bench_probe_open(&p, out->n_threads, (size_t)out->bytes, out->isa, int8, e);
    if (st == OK) {
        out->peak_kind = p.peak.kind;
        out->peak_what = p.peak.what;
        st = case_measure(out, &r, &p, seconds, e);
    }
    bench_probe_close(&p);
    runner_close(&r);
    return st;
}
