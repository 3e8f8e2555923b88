/* engine.c - running steps. What a step computes is in forward.c; how an engine comes to be, in create.c and arena.c. */
#include "engine/engine_private.h"

#include <string.h>

#include "kernels/clock.h"

/* What can be wrong with one sequence's part; *rows: of the step, so far. */
static status part_check(const engine *e, const step_sequence *q, long long *rows, error *err) {
    const engine_options *o = &e->options;
    *rows += q->n_new;
    if (q->n_new < 1 || *rows > o->prefill_chunk) {
        return error_set(err, ERR_ARGUMENT, "a step of %lld rows (each sequence at least 1, together at most %d)", *rows,
                         o->prefill_chunk);
    }
    if (q->n_new > o->n_ctx - q->kv->n_tokens) {
        return error_set(err, ERR_LIMIT, "%d tokens do not fit the context of %d (%s)", q->kv->n_tokens + q->n_new, o->n_ctx,
                         engine_context_advice(e));
    }
    for (int t = 0; t < q->n_new; t++) {
        if (q->ids[t] < 0 || q->ids[t] >= e->model->config.n_vocab) {
            return error_set(err, ERR_ARGUMENT, "token id %d is not in the vocabulary (0 to %d)", q->ids[t],
                             e->model->config.n_vocab - 1);
        }
    }
    return OK;
}

/* What can be wrong with a step but for the pages. */
static status step_check(engine *e, const step_sequence *seqs, int n_seqs, const float *logits, error *err) {
    long long rows = 0;
    e->n_steps++;
    if (n_seqs < 1 || n_seqs > e->options.max_sequences) {
        return error_set(err, ERR_ARGUMENT, "a step of %d sequences (1 to %d)", n_seqs, e->options.max_sequences);
    }
    for (int i = 0; i < n_seqs; i++) {
        status st = part_check(e, &seqs[i], &rows, err);
        if (st != OK) return st;
        if (seqs[i].kv->last_step == e->n_steps) return error_set(err, ERR_ARGUMENT, "a sequence stands twice in one step");
        seqs[i].kv->last_step = e->n_steps;
        if (logits == NULL && seqs[i].n_logit_rows > 0)
            return error_set(err, ERR_ARGUMENT, "logits are asked for, and there is no room for them");
    }
    return OK;
}

static void worker_forward(void *user, int id, int n) {
    engine *e = user;
    worker *w = &e->workers[id];
    w->n_workers = n;
    forward(&e->step, w);
}

/* OpenBLAS does not promise the same bits for other shares of a product, so that its steps are not tried. */
static bool engine_is_tried(const engine *e, int n_rows) {
    return e->finds_team_size && !(e->blas != NULL && n_rows >= BLAS_ROWS);
}

/* Runs the step on as many workers as it is worth, and adds up what they counted. */
static void step_run(engine *e) {
    int n = engine_workers_worth(e, e->step.n_rows);
    if (engine_is_tried(e, e->step.n_rows)) n = team_size_next(&e->team_size, e->step.n_rows, n);
    atomic_store(&e->team.n_arrived, 0);
    for (int i = 0; i < n; i++) e->workers[i].meter = (meter){0};
    crew_run(e->crew, n, worker_forward, e);
    e->report.counted = (term_counts){0};
    for (int i = 0; i < n; i++) term_counts_add(&e->report.counted, &e->workers[i].meter.counts);
    e->report.n_workers = n;
}

/* Pages for all, or for none: what was taken is given back when the pool has too few for one of them. (A last page that was copied stays a copy:
 * the same tokens.) */
static status pages_reserve(engine *e, step_sequence *seqs, int n_seqs, error *err) {
    for (int i = 0; i < n_seqs; i++) {
        status st = kv_sequence_reserve(seqs[i].kv, seqs[i].n_new, e->cache, err);
        if (st == OK) continue;
        while (--i >= 0) kv_sequence_truncate(seqs[i].kv, seqs[i].kv->n_tokens, e->cache);
        return st;
    }
    return OK;
}

status engine_step(engine *e, step_sequence *seqs, int n_seqs, float *logits, error *err) {
    step *s = &e->step;
    double start = clock_seconds();
    status st = step_check(e, seqs, n_seqs, logits, err);
    if (st == OK) st = pages_reserve(e, seqs, n_seqs, err);
    if (st != OK) return st;

    step_prepare(s, seqs, n_seqs);
    s->logits = logits;
    s->plan.blas = e->blas != NULL && s->n_rows >= BLAS_ROWS;
    s->mode.blas = s->plan.blas ? e->blas : NULL;
    memset(s->op_seconds, 0, sizeof s->op_seconds);
    step_run(e);

    step_judge(s);
    for (int i = 0; i < n_seqs; i++) kv_sequence_commit(seqs[i].kv, seqs[i].n_new, e->cache);
    memcpy(e->report.op_seconds, s->op_seconds, sizeof s->op_seconds);
    e->report.seconds = clock_seconds() - start;
    if (engine_is_tried(e, s->n_rows))
        team_size_record(&e->team_size, s->n_rows, engine_workers_worth(e, s->n_rows), e->report.seconds);
    if (e->observer != NULL) e->observer(e->observer_user, &e->report);
    return OK;
}

void engine_observe(engine *e, step_observer observer, void *user) {
    e->observer = observer;
    e->observer_user = user;
}

kv_cache *engine_cache(engine *e) {
    return e->cache;
}
const model *engine_model(const engine *e) {
    return e->model;
}
const step_report *engine_last_report(const engine *e) {
    return &e->report;
}
int engine_n_ctx(const engine *e) {
    return e->options.n_ctx;
}
const char *engine_context_advice(const engine *e) {
    return e->options.n_ctx < e->model->config.n_ctx ? "shorten the prompt, or raise --ctx-size"
                                                     : "shorten the prompt: the model has no more positions";
}
int engine_n_threads(const engine *e) {
    return e->options.n_threads;
}
int engine_workers_found(const engine *e, int n_rows) {
    int n = engine_workers_worth(e, n_rows);
    return engine_is_tried(e, n_rows) ? team_size_best(&e->team_size, n_rows, n) : n;
}
bool engine_workers_settled(const engine *e, int n_rows) {
    return !engine_is_tried(e, n_rows) || team_size_settled(&e->team_size, n_rows, engine_workers_worth(e, n_rows));
}
int engine_max_sequences(const engine *e) {
    return e->options.max_sequences;
}
int engine_max_rows(const engine *e) {
    return e->options.prefill_chunk;
}
const char *engine_isa(const engine *e) {
    return e->kernels->name;
}
const weight_storage *engine_storage(const engine *e) {
    return &e->storage;
}

engine_memory engine_memory_use(const engine *e) {
    return (engine_memory){.pool = e->cache->pool_bytes,
                           .tables = engine_table_bytes(e->cache->n_pages),
                           .activations = e->arena_bytes,
                           .scratch = e->scratch_bytes};
}
