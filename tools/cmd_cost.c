/* tally cost: what a model will cost, before it runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/commands.h"
#include "tools/cost_report.h"
#include "tools/explain.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/presets.h"
#include "tools/sweep.h"

typedef struct {
    const char *preset, *shape, *sweep, *plot, *product;
    bool presets, json, csv, explain, machine;
    int head;
} cost_options;

static void print_presets(void) {
    for (const embedded_file *f = preset_files; f->name != NULL; f++) {
        model_config c;
        error e;
        if (preset_load(&c, f->name, &e) != OK) continue;
        printf("%-18s %18s parameters\n", f->name, format_exact(config_params(&c).total).text);
    }
}

/* A shape from where the options say; bare numbers where they name none. */
static status load_shape(question *q, const cost_options *o, error *e) {
    const char *from = o->preset != NULL ? o->preset : o->shape;
    if (from == NULL) return OK;
    status s;
    if (o->preset != NULL) {
        s = preset_load(&q->config, o->preset, e);
    } else if (o->shape[0] == '{') {
        s = config_from_json(&q->config, o->shape, e);
        if (s != OK) error_prefix(e, "--shape");
        from = "shape";
    } else {
        s = shape_load(&q->config, o->shape, e);
    }
    q->has_config = s == OK;
    snprintf(q->name, sizeof q->name, "%s", from);
    return s;
}

/* More digits than these no measurement has. */
static double three_digits(double x) {
    double power = pow(10, floor(log10(x)) - 2);
    return round(x / power) * power;
}

/* Bandwidth of the level that weights and caches fit in, and the peak of the arithmetic that the storage calls for. */
static status use_machine(question *q, error *e) {
    question whole = *q;
    machine m;
    status s = question_resolve(&whole, e);
    if (s == OK) s = machine_load(&m, e);
    if (s != OK) return s;
    double bytes = (double)estimate_resident(&whole) + (double)(whole.batch * estimate_cache(&whole, whole.context));
    bool int8 = whole.weights == STORAGE_INT8 && whole.weight_bytes == 0;
    const machine_probe *read = machine_read_of(&m, bytes, m.n_threads);
    const machine_probe *compute = machine_find(&m, int8 ? "int8" : "fma", NULL, m.n_threads);
    if (read == NULL || compute == NULL)
        return error_set(e, ERR_FORMAT, "the measurement is not whole (tally machine --refresh)");
    if (q->bandwidth == 0) q->bandwidth = three_digits(read->median);
    if (q->flops == 0) q->flops = three_digits(compute->median);
    snprintf(q->measured, sizeof q->measured, "measured %s: reading %s, spread %.0f%%; %s %s, spread %.0f%%%s", m.date,
             read->what, 100 * machine_spread(read), compute->kind, compute->what, 100 * machine_spread(compute),
             machine_calibrated(read) && machine_calibrated(compute) ? "" : ": uncalibrated");
    return OK;
}

static status print_json(json_t *o, error *e) {
    status s = OK;
    if (o == NULL || json_dumpf(o, stdout, JSON_INDENT(2)) != 0) s = error_set(e, ERR_IO, "the report cannot be written");
    if (s == OK) puts("");
    json_decref(o);
    return s;
}

/* --product m,k,n: one matrix product; --head h: the K/V head that a query head reads. */
static status report_small(report *r, const question *q, const cost_options *o, error *e) {
    if (o->product != NULL) {
        int m, k, n, end = 0;
        if (sscanf(o->product, "%d,%d,%d%n", &m, &k, &n, &end) != 3 || o->product[end] != '\0' || m < 1 || k < 1 || n < 1 ||
            m > 1e6 || k > 1e6 || n > 1e6) {
            return error_set(e, ERR_ARGUMENT, "--product %s: m,k,n is needed, each from 1 to 1000000", o->product);
        }
        result *a = report_exact(r, "product_flops", "matrix product (m,k) @ (k,n)",
                                 2 * (uint64_t)m * (uint64_t)k * (uint64_t)n, UNIT_FLOPS);
        result_formula(a, "2 × m × k × n", "2 × %d × %d × %d", m, k, n);
    }
    if (o->head >= 0) {
        if (q->n_heads == 0 || o->head >= q->n_heads) {
            return error_set(e, ERR_ARGUMENT, "--head %d: there are %d heads (--heads, or a shape)", o->head, q->n_heads);
        }
        result *a = report_exact(r, "kv_head", "K/V head of that query head",
                                 (uint64_t)(o->head / (q->n_heads / q->n_kv_heads)), UNIT_COUNT);
        result_formula(a, "floor(head / (n_heads / n_kv_heads))", "floor(%d / (%d / %d))", o->head, q->n_heads, q->n_kv_heads);
    }
    return OK;
}

static int print_answers(question *q, const cost_options *o) {
    report r;
    error e;
    report_init(&r, q->units);
    status s = question_resolve(q, &e);
    if (s == OK) s = report_small(&r, q, o, &e);
    if (s == OK) s = cost_report(&r, q, &e);
    if (s == OK && o->explain)
        s = q->has_config ? explain_report(&r, q, &e) : error_set(&e, ERR_ARGUMENT, "--explain needs a shape");
    if (s == OK && r.failed) s = error_set(&e, ERR_MEMORY, "no memory for the report");
    if (s == OK && r.n == 0)
        s = error_set(&e, ERR_ARGUMENT, "nothing to answer (give --preset, --shape or --params; tally cost --help)");
    if (s == OK && o->json) {
        s = print_json(report_json(&r), &e);
    } else if (s == OK) {
        report_print(&r, stdout);
    }
    report_free(&r);
    return s == OK ? 0 : tool_fail(&e);
}

static int print_sweep(const question *q, const cost_options *o) {
    error e;
    sweep *s = malloc(sizeof *s);
    if (s == NULL) return tool_fail(&(error){ERR_MEMORY, "no memory for a sweep"});
    status st = sweep_run(s, q, o->sweep, &e);
    if (st == OK && o->json) {
        st = print_json(sweep_json(s), &e);
    } else if (st == OK && o->csv) {
        sweep_csv(s, stdout);
    } else if (st == OK) {
        sweep_print(s, q->units, stdout);
    }
    if (st == OK && o->plot != NULL) st = sweep_plot(s, q->name, o->plot, &e);
    free(s);
    return st == OK ? 0 : tool_fail(&e);
}

int cmd_cost(int argc, char **argv) {
    cost_options o = {.head = -1};
    question q;
    question_init(&q);
    int units = UNITS_BINARY;
    const option options[] = {
        {"preset", 0, OPTION_TEXT, &o.preset, "NAME", "a well-known shape", 0, 0},
        {"presets", 0, OPTION_FLAG, &o.presets, NULL, "list the presets", 0, 0},
        {"shape", 0, OPTION_TEXT, &o.shape, "FILE.json", "a shape of your own; also the JSON text itself", 0, 0},
        {"params", 0, OPTION_COUNT, &q.params, "N", "bare numbers: weights", 1, 1e14},
        {"layers", 0, OPTION_INT, &q.n_layers, "N", "layers (over a shape: instead of its own)", 1, 1e5},
        {"heads", 0, OPTION_INT, &q.n_heads, "N", "query heads", 1, 1e5},
        {"kv-heads", 0, OPTION_INT, &q.n_kv_heads, "N", "K/V heads", 1, 1e5},
        {"head-dim", 0, OPTION_INT, &q.head_dim, "N", "elements of a head", 1, 1e5},
        {"context", 'c', OPTION_COUNT, &q.context, "N", "tokens in each user's cache", 0, 1e9},
        {"batch", 'B', OPTION_COUNT, &q.batch, "N", "users at once (default 1)", 1, 1e6},
        {"prompt", 0, OPTION_COUNT, &q.prompt, "N", "tokens of a prefill", 1, 1e8},
        {"train-tokens", 0, OPTION_COUNT, &q.train_tokens, "N", "tokens of a training run", 1, 1e16},
        {"weights", 0, OPTION_CHOICE, &q.weights, STORAGE_CHOICES, "storage of weights (default f16)", 0, 0},
        {"kv-type", 0, OPTION_CHOICE, &q.kv_type, STORAGE_CHOICES, "storage of the cache (default f16)", 0, 0},
        {"bytes", 0, OPTION_NUMBER, &q.weight_bytes, "X", "bytes of a weight and of a cached number, no scales", 0.01, 16},
        {"kv-bytes", 0, OPTION_NUMBER, &q.kv_bytes, "X", "bytes of a cached number, no scales", 0.01, 16},
        {"weight-bytes", 0, OPTION_SIZE, &q.resident, "SIZE", "bytes of all weights", 1, 1e17},
        {"bandwidth", 0, OPTION_NUMBER, &q.bandwidth, "X", "bytes/s that the machine reads", 1, 1e18},
        {"flops", 0, OPTION_NUMBER, &q.flops, "X", "FLOP/s that it does", 1, 1e21},
        {"machine", 0, OPTION_FLAG, &o.machine, NULL, "both as measured here (tally machine)", 0, 0},
        {"devices", 0, OPTION_INT, &q.devices, "N", "so many of these machines", 1, 1e6},
        {"efficiency", 0, OPTION_NUMBER, &q.efficiency, "X", "share of the FLOP/s that is reached", 0.001, 1},
        {"memory", 0, OPTION_SIZE, &q.memory, "SIZE", "memory of the machine", 1, 1e17},
        {"kv-mem", 0, OPTION_SIZE, &q.kv_memory, "SIZE", "memory of the cache alone", 1, 1e17},
        {"page-size", 0, OPTION_INT, &q.page_size, "N", "tokens a page of the cache; shows what pages cost", 1, 1 << 20},
        {"prefill-chunk", 0, OPTION_INT, &q.chunk, "N", "rows a pass of the prefill (default 512)", 1, 1 << 24},
        {"attention", 0, OPTION_CHOICE, &q.attention, ATTENTION_CHOICES, "which keys count as work", 0, 0},
        {"logit-rows", 0, OPTION_CHOICE, &q.logits, LOGITS_CHOICES, "rows that the head sees", 0, 0},
        {"embedding", 0, OPTION_CHOICE, &q.embedding, EMBEDDING_CHOICES, "what the embedding counts as", 0, 0},
        {"other", 0, OPTION_CHOICE, &q.other, OTHER_CHOICES, "FLOPs outside products and attention", 0, 0},
        {"vectors", 0, OPTION_CHOICE, &q.vectors, VECTORS_CHOICES, "biases and norm gains", 0, 0},
        {"units", 0, OPTION_CHOICE, &units, "binary|decimal", "KiB, MiB, GiB or kB, MB, GB", 0, 0},
        {"explain", 0, OPTION_FLAG, &o.explain, NULL, "what the other conventions would say", 0, 0},
        {"sweep", 0, OPTION_TEXT, &o.sweep, "NAME=A:B", "what if: batch=1:256, kv-heads=1,2,4, context=0:4000:500", 0, 0},
        {"csv", 0, OPTION_FLAG, &o.csv, NULL, "a sweep as comma-separated values", 0, 0},
        {"plot", 0, OPTION_TEXT, &o.plot, "FILE.svg", "a sweep as a chart, .svg or .png (needs gnuplot)", 0, 0},
        {"head", 0, OPTION_INT, &o.head, "H", "which K/V head does query head H read?", 0, 1e5},
        {"product", 0, OPTION_TEXT, &o.product, "M,K,N", "FLOPs of one matrix product", 0, 0},
        OPTION_JSON(&o.json),
    };
    const command help = {
        "cost",
        "[--preset NAME | --shape FILE.json | --params N ...] [options]",
        "Predicts what a model will cost: memory, FLOPs, time, users. Each result with its formula and the numbers put in.",
        "tally cost --preset llama-3-8b --context 4000 --batch 8 --bandwidth 1e12 --flops 1e14",
        options,
        sizeof options / sizeof *options};
    int rc = options_parse(&help, argc, argv, NULL);
    if (rc >= 0) return rc;
    if (o.presets) {
        print_presets();
        return 0;
    }
    q.units = (byte_units)units;
    error e;
    if (load_shape(&q, &o, &e) != OK) return tool_fail(&e);
    if (o.machine && use_machine(&q, &e) != OK) return tool_fail(&e);
    return o.sweep != NULL ? print_sweep(&q, &o) : print_answers(&q, &o);
}
