#include "tools/bench_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plot.h"

static void work_text(char out[32], const bench_work *w) {
    if (w->prefill) {
        snprintf(out, 32, "prefill %d", w->n);
    } else {
        snprintf(out, 32, "decode %d @ %d", w->n, w->context);
    }
}
static double share(double rate, double limit) {
    return limit > 0 ? rate / limit : 0;
}

void bench_print_head(void) {
    puts("work               storage  isa      thr     tokens/s   spread    ms/step    GB/s  of read  GFLOP/s  of peak");
}

void bench_print(const bench_result *r) {
    char work[32];
    work_text(work, &r->work);
    double bytes = r->bytes / r->seconds, flops = r->flops / r->seconds;
    printf("%-18s %-8s %-8s %3d %12.1f   %4.0f%%  %9.3f %7.1f   %4.0f%%  %8.1f   %4.0f%%\n", work, r->storage, r->isa,
           r->n_threads, r->tokens.median, 100 * (r->tokens.high - r->tokens.low) / r->tokens.median, r->seconds * 1e3,
           bytes * 1e-9, 100 * share(bytes, r->read.median), flops * 1e-9, 100 * share(flops, r->peak.median));
    fflush(stdout);
}

void bench_csv_head(void) {
    puts("work,n,context,storage,isa,threads,repeats,tokens_per_second,low,high,seconds,bytes,flops,read_probe,peak_kind,peak_"
         "isa,"
         "peak_probe");
}

void bench_csv(const bench_result *r) {
    printf("%s,%d,%d,%s,%s,%d,%d,%.6g,%.6g,%.6g,%.6g,%.17g,%.17g,%.6g,%s,%s,%.6g\n", r->work.prefill ? "prefill" : "decode",
           r->work.n, r->work.context, r->storage, r->isa, r->n_threads, r->n_repeats, r->tokens.median, r->tokens.low,
           r->tokens.high, r->seconds, r->bytes, r->flops, r->read.median, r->peak_kind, r->peak_what, r->peak.median);
    fflush(stdout);
}

static json_t *spread_json(const bench_spread *s) {
    return json_pack("{s:f,s:f,s:f}", "median", s->median, "low", s->low, "high", s->high);
}

json_t *bench_json(const bench_result *r) {
    double bytes = r->bytes / r->seconds, flops = r->flops / r->seconds;
    return json_pack("{s:s,s:i,s:i,s:s,s:s,s:i,s:i,s:o,s:f,s:f,s:f,s:f,s:f,s:o,s:s,s:s,s:o,s:f,s:f}", "work",
                     r->work.prefill ? "prefill" : "decode", "n", r->work.n, "context", r->work.context, "storage", r->storage,
                     "isa", r->isa, "threads", r->n_threads, "repeats", r->n_repeats, "tokens_per_second",
                     spread_json(&r->tokens), "seconds", r->seconds, "bytes", r->bytes, "flops", r->flops, "bytes_per_second",
                     bytes, "flops_per_second", flops, "read_probe", spread_json(&r->read), "peak_kind", r->peak_kind,
                     "peak_isa", r->peak_what, "peak_probe", spread_json(&r->peak), "share_of_read",
                     share(bytes, r->read.median), "share_of_peak", share(flops, r->peak.median));
}

static bool same_line(const bench_result *a, const bench_result *b) {
    return !a->work.prefill && !b->work.prefill && a->work.context == b->work.context && strcmp(a->storage, b->storage) == 0 &&
           strcmp(a->isa, b->isa) == 0;
}

status bench_plot(const char *path, const bench_result *results, size_t n, error *e) {
    double *x = calloc(2 * n + 1, sizeof *x), *y = x + n;
    plot_series *series = calloc(n + 1, sizeof *series);
    char(*names)[64] = calloc(n + 1, sizeof *names);
    status st = x == NULL || series == NULL || names == NULL ? error_set(e, ERR_MEMORY, "out of memory for the plot") : OK;
    size_t n_series = 0, at = 0;
    for (size_t i = 0; i < n && st == OK; i++) {
        bool seen = results[i].work.prefill;
        for (size_t k = 0; k < i; k++) seen = seen || same_line(&results[k], &results[i]);
        if (seen) continue;
        plot_series *s = &series[n_series];
        snprintf(names[n_series], sizeof *names, "%s %s, context %d", results[i].storage, results[i].isa,
                 results[i].work.context);
        *s = (plot_series){.name = names[n_series], .x = x + at, .y = y + at, .style = PLOT_LINE};
        for (size_t k = i; k < n; k++) {
            if (!same_line(&results[i], &results[k])) continue;
            x[at] = results[k].work.n;
            y[at++] = results[k].tokens.median;
            s->n++;
        }
        n_series++;
    }
    plot_axes axes = {
        .title = "decode", .x_label = "sequences", .y_label = "tokens/s, all together", .log_x = true, .log_y = true};
    if (st == OK && n_series == 0) st = error_set(e, ERR_ARGUMENT, "nothing to plot (give --batches)");
    if (st == OK) st = plot_write(path, &axes, series, n_series, e);
    free(x);
    free(series);
    free(names);
    return st;
}
