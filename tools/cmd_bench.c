/* tally bench: speed, beside what the machine reads and computes in the same moment. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tools/bench_report.h"
#include "tools/commands.h"
#include "tools/plot.h"
#include "tools/show.h"

enum { MOST_ITEMS = 32, MOST_RESULTS = 4096 };

typedef struct {
    session_options session;
    const char *prefills, *batches, *contexts, *storages, *isas, *plot;
    double seconds;
    uint64_t max_cache;
    bool json, csv;
} bench_options;

typedef struct {
    bench_result results[MOST_RESULTS];
    size_t n;
    int n_skipped;
    json_t *rows;
} bench_log;

/* "1,16,128" to numbers; an empty text is an empty list. Returns -1 after saying what is wrong. */
static int numbers_parse(const char *name, const char *text, int least, int *out) {
    int n = 0;
    while (*text != '\0') {
        char *end;
        long v = strtol(text, &end, 10);
        if (end == text || (*end != ',' && *end != '\0') || v < least || v > 65536 || n == MOST_ITEMS) {
            tool_usage("--%s takes up to %d whole numbers from %d to 65536 with commas between, not '%s'", name, MOST_ITEMS,
                       least, text);
            return -1;
        }
        out[n++] = (int)v;
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* "f16,int8" to indices into choices "auto|f32|f16|int8". */
static int names_parse(const char *name, const char *text, const char *const *choices, int n_choices, int *out) {
    int n = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        int found = -1;
        for (int i = 0; i < n_choices; i++) {
            if (strlen(choices[i]) == length && strncmp(choices[i], text, length) == 0) found = i;
        }
        if (found < 0 || n == MOST_ITEMS) {
            tool_usage("--%s: '%.*s' is not known", name, (int)length, text);
            return -1;
        }
        out[n++] = found;
        text += length + (text[length] == ',');
    }
    return n;
}

typedef struct {
    int prefills[MOST_ITEMS], batches[MOST_ITEMS], contexts[MOST_ITEMS], storages[MOST_ITEMS], isas[MOST_ITEMS];
    int n_prefills, n_batches, n_contexts, n_storages, n_isas;
} bench_grid;

static const char *const isas[] = {"auto", "portable", "avx2", "avx512", "neon"};

static bool grid_parse(bench_grid *g, const bench_options *o) {
    static const char *const storages[] = {"auto", "f32", "f16", "int8"};
    g->n_prefills = numbers_parse("prefill", o->prefills, 1, g->prefills);
    g->n_batches = numbers_parse("batches", o->batches, 1, g->batches);
    g->n_contexts = numbers_parse("contexts", o->contexts, 0, g->contexts);
    g->n_storages = names_parse("storages", o->storages, storages, 4, g->storages);
    g->n_isas = names_parse("isas", o->isas, isas, 5, g->isas);
    if (g->n_storages == 0) g->storages[g->n_storages++] = o->session.weights;
    if (g->n_isas == 0) g->isas[g->n_isas++] = o->session.isa;
    return g->n_prefills >= 0 && g->n_batches >= 0 && g->n_contexts >= 0 && g->n_storages > 0 && g->n_isas > 0;
}

static status one_case(bench_log *log, session *s, const session_options *so, bench_work work, const bench_options *o,
                       error *e) {
    bench_result r;
    bool fits;
    status st = bench_case_run(&r, &fits, s, so, work, o->seconds, o->max_cache, e);
    if (st != OK) return st;
    if (!fits || log->n == MOST_RESULTS) {
        log->n_skipped++;
        return OK;
    }
    log->results[log->n++] = r;
    if (o->json) {
        json_array_append_new(log->rows, bench_json(&r));
    } else if (o->csv) {
        bench_csv(&r);
    } else {
        bench_print(&r);
    }
    return OK;
}

/* All cases of one storage and instruction set. */
static status cases_run(bench_log *log, session *s, const session_options *so, const bench_grid *g, const bench_options *o,
                        error *e) {
    status st = OK;
    for (int i = 0; i < g->n_prefills && st == OK; i++) {
        st = one_case(log, s, so, (bench_work){.prefill = true, .n = g->prefills[i]}, o, e);
    }
    for (int c = 0; c < g->n_contexts; c++) {
        for (int b = 0; b < g->n_batches && st == OK; b++) {
            st = one_case(log, s, so, (bench_work){.n = g->batches[b], .context = g->contexts[c]}, o, e);
        }
    }
    return st;
}

static status grid_run(bench_log *log, const bench_grid *g, const bench_options *o, error *e) {
    status st = OK;
    for (int w = 0; w < g->n_storages && st == OK; w++) {
        session s;
        session_options so = o->session;
        so.weights = g->storages[w];
        st = session_open_model(&s, &so, e);
        if (st != OK) return st;
        for (int i = 0; i < g->n_isas && st == OK; i++) {
            so.isa = g->isas[i];
            st = cases_run(log, &s, &so, g, o, e);
        }
        session_close(&s);
    }
    return st;
}

/* What would fail only when much has been measured. */
static status grid_check(const bench_grid *g, const bench_options *o, error *e) {
    for (int i = 0; i < g->n_isas; i++) {
        if (kernel_set_choose(isas[g->isas[i]]) == NULL)
            return error_set(e, ERR_UNSUPPORTED, "the instruction set %s is not to be had on this machine (--isa auto)",
                             isas[g->isas[i]]);
    }
    return o->plot != NULL ? plot_check(o->plot, e) : OK;
}

static int bench_main(const bench_options *o, const bench_grid *g) {
    error e = {0};
    bench_log *log = calloc(1, sizeof *log);
    if (log == NULL || (log->rows = json_array()) == NULL) {
        free(log);
        error_set(&e, ERR_MEMORY, "out of memory for the results");
        return tool_fail(&e);
    }
    status st = grid_check(g, o, &e);
    if (st == OK && !o->json) (o->csv ? bench_csv_head : bench_print_head)();
    if (st == OK) st = grid_run(log, g, o, &e);
    if (st == OK && o->plot != NULL) st = bench_plot(o->plot, log->results, log->n, &e);
    int rc = st == OK ? 0 : tool_fail(&e);
    if (st == OK && log->n_skipped > 0) {
        fprintf(stderr, "tally: %d cases were left out: longer than the model's context, or a cache above --max-cache\n",
                log->n_skipped);
    }
    if (st == OK && o->json) {
        json_t *report = json_pack("{s:O,s:i}", "rows", log->rows, "left_out", log->n_skipped);
        rc = show_json(report);
        json_decref(report);
    }
    json_decref(log->rows);
    free(log);
    return rc;
}

int cmd_bench(int argc, char **argv) {
    bench_options o = {.prefills = "1,16,128,512,2048",
                       .batches = "1,2,4,8,16,32,64",
                       .contexts = "0,512,4096",
                       .storages = "",
                       .isas = "",
                       .seconds = 1.0,
                       .max_cache = 4000000000u};
    session_options_init(&o.session);
    option rows[SESSION_ROWS + 16];
    size_t n = session_option_rows(&o.session, rows);
    const option mine[] = {
        {"prefill", 0, OPTION_TEXT, &o.prefills, "1,512", "prompt lengths (1,16,128,512,2048)", 0, 0},
        {"batches", 0, OPTION_TEXT, &o.batches, "1,8", "sequences decoded together (1,2,4,8,16,32,64)", 0, 0},
        {"contexts", 0, OPTION_TEXT, &o.contexts, "0,512", "tokens in each cache (0,512,4096)", 0, 0},
        {"storages", 0, OPTION_TEXT, &o.storages, "f16,int8", "each of these in place of --weights", 0, 0},
        {"isas", 0, OPTION_TEXT, &o.isas, "avx2,avx512", "each of these in place of --isa", 0, 0},
        {"seconds", 0, OPTION_NUMBER, &o.seconds, "S", "time for each case, at least 3 repeats (1)", 0, 3600},
        {"max-cache", 0, OPTION_SIZE, &o.max_cache, "SIZE", "cases with a larger KV cache are left out (4GB)", 0, 0},
        {"plot", 0, OPTION_TEXT, &o.plot, "FILE.svg", "decode speed over the batch (svg or png; needs gnuplot)", 0, 0},
        {"csv", 0, OPTION_FLAG, &o.csv, NULL, "comma-separated values", 0, 0},
        OPTION_JSON(&o.json),
    };
    memcpy(rows + n, mine, sizeof mine);
    const command help = {
        "bench",
        "-m MODEL [options]",
        "Measures prefill and decode: tokens a second, and the counted bytes and FLOPs a second beside what this machine read "
        "and "
        "computed in the same moments (a read probe over a working set of the same size and a peak probe run before every "
        "repeat).",
        "tally bench -m models/level21.pt\ntally bench --random --preset tinyllama-1.1b --storages f16,int8 --prefill 512 "
        "--contexts 0",
        rows,
        n + sizeof mine / sizeof *mine,
    };
    int rc = session_options_parse(&o.session, &help, argc, argv);
    if (rc >= 0) return rc;
    bench_grid g;
    return grid_parse(&g, &o) ? bench_main(&o, &g) : 2;
}
