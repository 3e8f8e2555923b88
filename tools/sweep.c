#include "tools/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"

/* X(name on the command line, field of question, its type, smallest and largest value) */
#define SWEEP_VARIABLES(X)                                                                                                     \
    X("batch", batch, uint64_t, 1, 1e6)                                                                                        \
    X("context", context, uint64_t, 0, 1e9)                                                                                    \
    X("params", params, uint64_t, 1, 1e14)                                                                                     \
    X("layers", n_layers, int, 1, 1e5)                                                                                         \
    X("heads", n_heads, int, 1, 1e5)                                                                                           \
    X("kv-heads", n_kv_heads, int, 1, 1e5)                                                                                     \
    X("head-dim", head_dim, int, 1, 1e5)                                                                                       \
    X("bytes", weight_bytes, double, 0.01, 16)                                                                                 \
    X("kv-bytes", kv_bytes, double, 0.01, 16)                                                                                  \
    X("bandwidth", bandwidth, double, 1, 1e18)                                                                                 \
    X("flops", flops, double, 1, 1e21)                                                                                         \
    X("devices", devices, int, 1, 1e6)

static status set_variable(question *q, const char *name, double x, error *e) {
#define SWEEP_SET(key, field, type, low, high)                                                                                 \
    if (strcmp(name, key) == 0) {                                                                                              \
        if (x < low || x > high) return error_set(e, ERR_ARGUMENT, "--sweep %s: %g is out of range", name, x);                 \
        q->field = (type)x;                                                                                                    \
        return OK;                                                                                                             \
    }
    SWEEP_VARIABLES(SWEEP_SET)
#undef SWEEP_SET
#define SWEEP_NAME(key, field, type, low, high) " " key
    return error_set(e, ERR_ARGUMENT, "--sweep %s: no such variable (there are:%s)", name, SWEEP_VARIABLES(SWEEP_NAME));
#undef SWEEP_NAME
}

static status add_value(sweep *s, double x, error *e) {
    if (s->n == SWEEP_MAX_POINTS) return error_set(e, ERR_LIMIT, "--sweep: more than %d values", SWEEP_MAX_POINTS);
    s->points[s->n++].value = x;
    return OK;
}

static status add_doubling(sweep *s, double from, double to, error *e) {
    status st = add_value(s, from, e);
    double x = from > 0 ? 2 * from : to / 256;
    for (; st == OK && x < to; x *= 2) {
        if (x >= 1 && x == floor(x)) st = add_value(s, x, e);
    }
    return st == OK && to > from ? add_value(s, to, e) : st;
}

/* "A:B" or "A:B:STEP". */
static status add_range(sweep *s, char *text, error *e) {
    char *second = strchr(text, ':'), *third = strchr(second + 1, ':');
    double from, to, step = 0;
    *second++ = '\0';
    if (third != NULL) *third++ = '\0';
    if (!parse_number(text, &from) || !parse_number(second, &to) || (third != NULL && !parse_number(third, &step)) ||
        to < from || from < 0 || (third != NULL && !(step > 0))) {
        return error_set(e, ERR_ARGUMENT, "--sweep: a range is FROM:TO or FROM:TO:STEP, upwards");
    }
    if (third == NULL) return add_doubling(s, from, to, e);
    status st = OK;
    for (double i = 0; st == OK && from + i * step <= to; i++) st = add_value(s, from + i * step, e);
    return st;
}

static status add_list(sweep *s, char *text, error *e) {
    status st = OK;
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); st == OK && item != NULL; item = strtok_r(NULL, ",", &rest)) {
        double x;
        if (!parse_number(item, &x)) return error_set(e, ERR_ARGUMENT, "--sweep: %s is not a number", item);
        st = add_value(s, x, e);
    }
    return st;
}

status sweep_values(sweep *s, const char *text, error *e) {
    const char *equals = strchr(text, '=');
    char values[4096];
    if (equals == NULL || (size_t)(equals - text) >= sizeof s->variable || strlen(equals + 1) >= sizeof values) {
        return error_set(e, ERR_ARGUMENT, "--sweep %s: NAME=FROM:TO or NAME=A,B,C is needed", text);
    }
    memset(s, 0, sizeof *s);
    memcpy(s->variable, text, (size_t)(equals - text));
    memcpy(values, equals + 1, strlen(equals + 1) + 1);
    status st = strchr(values, ':') != NULL ? add_range(s, values, e) : add_list(s, values, e);
    if (st == OK && s->n == 0) st = error_set(e, ERR_ARGUMENT, "--sweep %s: no values", text);
    return st;
}

static status fill_point(sweep_point *p, const question *q, error *e) {
    work w;
    status s = estimate_decode(&w, q, q->batch, e);
    if (s != OK) return s;
    double batch = (double)q->batch;
    p->kv_bytes_per_token = question_kv_bytes(q);
    p->weight_bytes = estimate_resident(q);
    p->cache_bytes = q->batch * estimate_cache(q, q->context);
    p->step_flops = w.matmul + w.attention;
    p->step_bytes = w.weights + w.rest;
    p->seconds = estimate_seconds(q, &w);
    p->user_rate = p->seconds > 0 ? 1 / p->seconds : 0;
    p->rate = p->seconds > 0 ? batch / p->seconds : 0;
    p->read_rate = q->bandwidth > 0 ? batch * q->bandwidth / (double)p->step_bytes : INFINITY;
    p->compute_rate = q->flops > 0 ? batch * q->flops / (double)p->step_flops : INFINITY;
    return OK;
}

static status fill_crossover(sweep *s, const question *as_given, error *e) {
    question q = *as_given;
    work one;
    status st = question_resolve(&q, e);
    if (st != OK) return st;
    if (q.params == 0) return error_set(e, ERR_ARGUMENT, "a sweep needs a shape or --params");
    if (q.flops <= 0 || q.bandwidth <= 0) return OK;
    st = estimate_decode(&one, &q, 1, e);
    if (st == OK) s->crossover = estimate_crossover_with_caches(&q, &one);
    return st;
}

status sweep_run(sweep *s, const question *q, const char *text, error *e) {
    status st = sweep_values(s, text, e);
    if (st == OK) st = fill_crossover(s, q, e);
    for (size_t i = 0; st == OK && i < s->n; i++) {
        question point = *q;
        st = set_variable(&point, s->variable, s->points[i].value, e);
        if (st == OK) st = question_resolve(&point, e);
        if (st == OK) st = fill_point(&s->points[i], &point, e);
    }
    return st;
}
