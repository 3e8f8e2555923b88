/* A sweep as a table, CSV, JSON, a plot. */
#include "tools/sweep.h"

#include <math.h>
#include <stdlib.h>

#include "tools/plot.h"

void sweep_print(const sweep *s, byte_units units, FILE *out) {
    bool timed = s->points[0].seconds > 0;
    fprintf(out, "%14s %18s %14s %14s %14s", s->variable, "KV bytes/token", "weights", "caches", "FLOPs/step");
    if (timed) fprintf(out, " %12s %18s %18s  %s", "step", "each user", "all users", "decided by");
    fputc('\n', out);
    for (size_t i = 0; i < s->n; i++) {
        const sweep_point *p = &s->points[i];
        fprintf(out, "%14s %18s %14s %14s %14s", format_input(p->value).text, format_exact(p->kv_bytes_per_token).text,
                format_rounded((double)p->weight_bytes, UNIT_BYTES, units).text,
                format_rounded((double)p->cache_bytes, UNIT_BYTES, units).text,
                format_rounded((double)p->step_flops, UNIT_FLOPS, units).text);
        if (timed) {
            fprintf(out, " %12s %18s %18s  %s", format_rounded(p->seconds, UNIT_SECONDS, units).text,
                    format_rounded(p->user_rate, UNIT_TOKENS_PER_SECOND, units).text,
                    format_rounded(p->rate, UNIT_TOKENS_PER_SECOND, units).text,
                    p->read_rate <= p->compute_rate ? "reading" : "arithmetic");
        }
        fputc('\n', out);
    }
    if (isinf(s->crossover)) fprintf(out, "crossover with caches: never\n");
    if (s->crossover > 0 && isfinite(s->crossover)) {
        fprintf(out, "crossover with caches: %s users\n", format_rounded(s->crossover, UNIT_COUNT, units).text);
    }
}

/* X(key, printf conversion, field): the columns of --csv and --json. */
#define SWEEP_COLUMNS(EXACT, REAL)                                                                                             \
    EXACT(kv_bytes_per_token)                                                                                                  \
    EXACT(weight_bytes)                                                                                                        \
    EXACT(cache_bytes)                                                                                                         \
    EXACT(step_flops)                                                                                                          \
    EXACT(step_bytes)                                                                                                          \
    REAL(step_seconds, seconds)                                                                                                \
    REAL(tokens_per_second_user, user_rate)                                                                                    \
    REAL(tokens_per_second, rate)                                                                                              \
    REAL(roof_reading, read_rate)                                                                                              \
    REAL(roof_arithmetic, compute_rate)

void sweep_csv(const sweep *s, FILE *out) {
    fprintf(out, "%s", s->variable);
#define HEAD_EXACT(field)     fprintf(out, ",%s", #field);
#define HEAD_REAL(key, field) fprintf(out, ",%s", #key);
    SWEEP_COLUMNS(HEAD_EXACT, HEAD_REAL)
    fputc('\n', out);
    for (size_t i = 0; i < s->n; i++) {
        const sweep_point *p = &s->points[i];
        fprintf(out, "%.17g", p->value);
#define CELL_EXACT(field) fprintf(out, ",%llu", (unsigned long long)p->field);
#define CELL_REAL(key, field)                                                                                                  \
    if (isfinite(p->field) && p->field > 0) {                                                                                  \
        fprintf(out, ",%.10g", p->field);                                                                                      \
    } else {                                                                                                                   \
        fputc(',', out);                                                                                                       \
    }
        SWEEP_COLUMNS(CELL_EXACT, CELL_REAL)
        fputc('\n', out);
    }
}

/* A number, or null where it is not known or never. */
static json_t *known(double x) {
    return isfinite(x) && x > 0 ? json_real(x) : json_null();
}

json_t *sweep_json(const sweep *s) {
    json_t *points = json_array();
    for (size_t i = 0; i < s->n; i++) {
        const sweep_point *p = &s->points[i];
        json_t *o = json_object();
        json_object_set_new(o, s->variable, json_real(p->value));
#define JSON_EXACT(field)     json_object_set_new(o, #field, json_integer((json_int_t)p->field));
#define JSON_REAL(key, field) json_object_set_new(o, #key, known(p->field));
        SWEEP_COLUMNS(JSON_EXACT, JSON_REAL)
        json_array_append_new(points, o);
    }
    return json_pack("{s:s, s:o, s:o}", "sweep", s->variable, "crossover", known(s->crossover), "points", points);
}

status sweep_plot(const sweep *s, const char *name, const char *path, error *e) {
    enum { READING, ARITHMETIC, TOTAL, N_CURVES }; /* drawn in this order */
    static const char *const names[] = {"roof of reading", "roof of arithmetic", "predicted"};
    double *numbers = malloc((N_CURVES + 1) * s->n * sizeof *numbers);
    if (numbers == NULL) return error_set(e, ERR_MEMORY, "no memory for a plot of %zu points", s->n);
    double *x = numbers + N_CURVES * s->n;
    for (size_t i = 0; i < s->n; i++) {
        x[i] = s->points[i].value;
        numbers[TOTAL * s->n + i] = s->points[i].rate > 0 ? s->points[i].rate : INFINITY;
        numbers[READING * s->n + i] = s->points[i].read_rate;
        numbers[ARITHMETIC * s->n + i] = s->points[i].compute_rate;
    }
    plot_series series[N_CURVES];
    for (int k = 0; k < N_CURVES; k++)
        series[k] = (plot_series){names[k], x, numbers + (size_t)k * s->n, s->n, k == TOTAL ? PLOT_LINE : PLOT_DASHED};
    bool batch = s->variable[0] == 'b' && s->variable[1] == 'a' && s->variable[2] == 't';
    bool wide = s->points[0].value > 0 && s->points[s->n - 1].value >= 16 * s->points[0].value;
    plot_axes axes = {.title = name, .x_label = s->variable, .y_label = "tokens/s, all users", .log_x = wide, .log_y = wide};
    if (batch) axes.mark_x = s->crossover, axes.mark_name = "crossover";
    status st = s->points[0].seconds > 0 ? plot_write(path, &axes, series, N_CURVES, e)
                                         : error_set(e, ERR_ARGUMENT, "--plot needs --bandwidth and --flops");
    free(numbers);
    return st;
}
