#include "tools/check_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample.h"
#include "kernels/clock.h"
#include "tools/plot.h"
#include "tools/quantity.h"
#include "tools/roofs.h"
#include "tools/sweep.h"

typedef struct {
    int batch, context;
    double predicted, measured, low, high; /* seconds a step; predicted 0: the machine is not known */
    uint64_t flops, bytes;                 /* of the middle step */
    int n_workers;                         /* of its steps: as given, or as found before they were timed */
} point;

/* B sequences with C tokens each, so that every decode step starts from there. */
static status fill_caches(session *s, kv_sequence **seqs, int B, int C, float *logits, error *e) {
    int V = s->model->config.n_vocab, *ids = malloc((size_t)C * sizeof *ids);
    status st = ids == NULL ? error_set(e, ERR_MEMORY, "out of memory for a prompt of %d tokens", C) : OK;
    for (int b = 0; b < B && st == OK; b++) {
        for (int i = 0; i < C; i++) ids[i] = (int)((unsigned)(b * 7919 + i * 104729 + 1) % (unsigned)V);
        st = kv_sequence_create(&seqs[b], engine_cache(s->engine), engine_n_ctx(s->engine), e);
        if (st == OK) st = engine_prefill(s->engine, seqs[b], ids, C, 0, logits, e);
    }
    free(ids);
    return st;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Decodes, again and again from the same place, until the number of workers is found: some seconds at most. */
static status workers_settle(session *s, kv_sequence **seqs, const int *ids, int B, float *logits, error *e) {
    double end = clock_seconds() + 2;
    status st = OK;
    while (st == OK && !engine_workers_settled(s->engine, B) && clock_seconds() < end) {
        st = engine_decode(s->engine, seqs, ids, B, logits, e);
        for (int b = 0; b < B; b++) kv_sequence_truncate(seqs[b], seqs[b]->n_tokens - 1, engine_cache(s->engine));
    }
    return st;
}

/* Decode steps from the filled caches; the first two only warm up. */
static status time_steps(session *s, kv_sequence **seqs, int B, int n_steps, float *logits, ledger *l, error *e) {
    int *ids = calloc((size_t)B, sizeof *ids);
    status st = ids == NULL ? error_set(e, ERR_MEMORY, "out of memory for %d sequences", B) : OK;
    if (st == OK) st = workers_settle(s, seqs, ids, B, logits, e);
    for (int i = 0; i < n_steps + 2 && st == OK; i++) {
        if (i == 2) engine_observe(s->engine, ledger_observe, l);
        for (int b = 0; b < B; b++) ids[b] = (i * 31 + b) % s->model->config.n_vocab;
        st = engine_decode(s->engine, seqs, ids, B, logits, e);
    }
    free(ids);
    return st;
}

static status point_summarise(point *p, const ledger *l, const machine *m, const roof_setting *on, error *e) {
    double *t = malloc(l->n * sizeof *t);
    if (t == NULL || l->n == 0) {
        free(t);
        return error_set(e, ERR_MEMORY, "out of memory for the times");
    }
    for (size_t i = 0; i < l->n; i++) t[i] = l->entries[i].seconds;
    qsort(t, l->n, sizeof *t, by_value);
    p->measured = t[l->n / 2], p->low = t[0], p->high = t[l->n - 1];
    free(t);
    const ledger_entry *middle = &l->entries[l->n / 2];
    roofs r;
    if (m != NULL && roofs_compute(&r, middle, m, on)) p->predicted = r.overlapped;
    p->flops = term_flops_sum(&middle->counted);
    p->bytes = term_bytes_sum(&middle->counted);
    return OK;
}

static status point_run(point *p, session *s, session_options so, int n_steps, const machine *m, bool *agrees, error *e) {
    int C = p->context < 1 ? 1 : p->context, B = p->batch;
    so.max_sequences = B;
    so.profile = false;
    so.n_ctx = C + n_steps + 2;
    if (so.n_ctx > s->model->config.n_ctx) {
        return error_set(e, ERR_LIMIT,
                         "%s: context %d and %d steps are more than the model's %d positions (lower --sweep or --steps)",
                         s->name, C, n_steps + 2, s->model->config.n_ctx);
    }
    status st = session_engine(s, &so, e);
    if (st != OK) return st;
    ledger l;
    ledger_init(&l, &s->model->config);
    l.phase = PHASE_DECODE;
    kv_sequence **seqs = calloc((size_t)B, sizeof *seqs);
    float *logits = malloc((size_t)B * (size_t)s->model->config.n_vocab * sizeof *logits);
    if (seqs == NULL || logits == NULL) st = error_set(e, ERR_MEMORY, "out of memory for %d sequences", B);
    if (st == OK) st = fill_caches(s, seqs, B, C, logits, e);
    if (st == OK) st = time_steps(s, seqs, B, n_steps, logits, &l, e);
    p->n_workers = engine_workers_found(s->engine, B);
    roof_setting on = roof_setting_of(s, &so, p->n_workers);
    if (st == OK) st = point_summarise(p, &l, m, &on, e);
    if (st == OK && !ledger_agrees(&l)) *agrees = false;
    for (int b = 0; seqs != NULL && b < B; b++) kv_sequence_free(seqs[b], engine_cache(s->engine));
    free(seqs);
    free(logits);
    ledger_free(&l);
    return st;
}

/* Where the line of waiting for weights (the time of a step of one) meets the line of arithmetic (the slope between the two largest batches). */
static double measured_crossover(const point *p, size_t n) {
    if (n < 3 || p[n - 1].batch <= p[n - 2].batch) return 0;
    double slope = (p[n - 1].measured - p[n - 2].measured) / (p[n - 1].batch - p[n - 2].batch);
    return slope > 0 ? p[0].measured / slope : INFINITY;
}

/* B* = (W/beta) / (FLOPs of a user / pi - cache bytes of a user / beta): from two predicted steps, whose difference is what one user adds. */
static double predicted_crossover(const point *p, size_t n, const machine *m, const roof_setting *on) {
    const machine_probe *peak = m == NULL ? NULL : roof_product_peak(m, on);
    const machine_probe *read = m == NULL ? NULL : machine_read_of(m, (double)p[0].bytes, on->n_threads);
    if (n < 2 || peak == NULL || read == NULL || p[1].batch == p[0].batch) return 0;
    double users = p[1].batch - p[0].batch, flops = (double)(p[1].flops - p[0].flops) / users,
           bytes = (double)(p[1].bytes - p[0].bytes) / users;
    double weights = (double)p[0].bytes - bytes * p[0].batch, gain = flops / peak->median - bytes / read->median;
    return gain > 0 ? weights / read->median / gain : INFINITY;
}

static void print_crossover(const char *words, double b) {
    if (b == 0) return;
    if (isinf(b)) {
        printf("%s: never\n", words);
    } else {
        printf("%s: B = %.1f\n", words, b);
    }
}

static void points_print(const point *p, size_t n) {
    printf("%6s %8s %8s %14s %14s %20s %14s %14s %14s\n", "batch", "context", "threads", "predicted", "measured", "low .. high",
           "tokens/s", "FLOPs", "bytes");
    for (size_t i = 0; i < n; i++) {
        printf("%6d %8d %8d %14s", p[i].batch, p[i].context, p[i].n_workers,
               p[i].predicted > 0 ? format_rounded(p[i].predicted, UNIT_SECONDS, UNITS_DECIMAL).text : "-");
        printf(" %14s", format_rounded(p[i].measured, UNIT_SECONDS, UNITS_DECIMAL).text);
        printf(" %9s", format_rounded(p[i].low, UNIT_SECONDS, UNITS_DECIMAL).text);
        printf(" %10s", format_rounded(p[i].high, UNIT_SECONDS, UNITS_DECIMAL).text);
        printf(" %14.1f %14s", p[i].batch / p[i].measured, format_exact(p[i].flops).text);
        printf(" %14s\n", format_exact(p[i].bytes).text);
    }
}

static void points_csv(const point *p, size_t n) {
    puts("batch,context,predicted_seconds,measured_seconds,low_seconds,high_seconds,tokens_per_second,flops,bytes,threads");
    for (size_t i = 0; i < n; i++) {
        printf("%d,%d,%.9g,%.9g,%.9g,%.9g,%.9g,%llu,%llu,%d\n", p[i].batch, p[i].context, p[i].predicted, p[i].measured,
               p[i].low, p[i].high, p[i].batch / p[i].measured, (unsigned long long)p[i].flops, (unsigned long long)p[i].bytes,
               p[i].n_workers);
    }
}

static void points_json(const point *p, size_t n, const char *name, double predicted, double measured) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:i}", "batch", p[i].batch,
                                              "context", p[i].context, "predicted_seconds", p[i].predicted, "measured_seconds",
                                              p[i].measured, "low_seconds", p[i].low, "high_seconds", p[i].high,
                                              "tokens_per_second", p[i].batch / p[i].measured, "flops", (json_int_t)p[i].flops,
                                              "bytes", (json_int_t)p[i].bytes, "threads", p[i].n_workers));
    }
    json_t *o = json_pack("{s:s, s:o}", "model", name, "points", list);
    if (predicted > 0 && !isinf(predicted)) json_object_set_new(o, "predicted_crossover", json_real(predicted));
    if (measured > 0 && !isinf(measured)) json_object_set_new(o, "measured_crossover", json_real(measured));
    json_dumpf(o, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(o);
}

/* tokens/s against the variable: measured points over the predicted line. */
static status points_plot(const point *p, size_t n, const char *path, const char *name, bool over_batch, double crossover,
                          error *e) {
    double *x = malloc(3 * n * sizeof *x);
    if (x == NULL) return error_set(e, ERR_MEMORY, "out of memory for the plot");
    double *predicted = x + n, *measured = x + 2 * n;
    for (size_t i = 0; i < n; i++) {
        x[i] = over_batch ? p[i].batch : p[i].context;
        predicted[i] = p[i].predicted > 0 ? p[i].batch / p[i].predicted : NAN;
        measured[i] = p[i].batch / p[i].measured;
    }
    const plot_series series[] = {{"predicted by the roofs", x, predicted, n, PLOT_LINE},
                                  {"measured", x, measured, n, PLOT_POINTS}};
    plot_axes axes = {.title = name,
                      .x_label = over_batch ? "batch B" : "context",
                      .y_label = "tokens/s",
                      .log_x = over_batch,
                      .log_y = over_batch,
                      .mark_x = over_batch && !isinf(crossover) && crossover <= x[n - 1] ? crossover : 0,
                      .mark_name = "predicted crossover"};
    status st = plot_write(path, &axes, series, 2, e);
    free(x);
    return st;
}

static status sweep_points(point *p, const sweep *v, const check_sweep *c, error *e) {
    bool batch = strcmp(v->variable, "batch") == 0;
    if (!batch && strcmp(v->variable, "context") != 0) {
        return error_set(e, ERR_ARGUMENT, "--sweep %s: check measures batch or context (tally cost sweeps the rest)",
                         v->variable);
    }
    for (size_t i = 0; i < v->n; i++) {
        double x = v->points[i].value;
        if (x != floor(x) || x < (batch ? 1 : 0) || x > 65536)
            return error_set(e, ERR_ARGUMENT, "--sweep: %g is out of range", x);
        p[i] = (point){.batch = batch ? (int)x : c->batch, .context = batch ? c->context : (int)x};
    }
    return OK;
}

status check_sweep_run(session *s, const session_options *so, const check_sweep *c, const machine *m, bool *agrees, error *e) {
    sweep *v = calloc(1, sizeof *v);
    point *p = calloc(SWEEP_MAX_POINTS, sizeof *p);
    *agrees = true;
    status st = v == NULL || p == NULL ? error_set(e, ERR_MEMORY, "out of memory for the sweep") : sweep_values(v, c->text, e);
    if (st == OK) st = sweep_points(p, v, c, e);
    for (size_t i = 0; st == OK && i < v->n; i++) st = point_run(&p[i], s, *so, c->n_steps, m, agrees, e);
    if (st == OK) {
        bool over_batch = strcmp(v->variable, "batch") == 0;
        roof_setting on = roof_setting_of(s, so, p[v->n - 1].n_workers);
        double predicted = over_batch ? predicted_crossover(p, v->n, m, &on) : 0,
               measured = over_batch ? measured_crossover(p, v->n) : 0;
        if (c->json) {
            points_json(p, v->n, s->name, predicted, measured);
        } else if (c->csv) {
            points_csv(p, v->n);
        } else {
            points_print(p, v->n);
            print_crossover("predicted crossover", predicted);
            print_crossover("measured crossover", measured);
        }
        if (c->plot != NULL) st = points_plot(p, v->n, c->plot, s->name, over_batch, predicted, e);
    }
    free(v);
    free(p);
    return st;
}
