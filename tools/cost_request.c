#include "tools/cost_request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cost_report.h"
#include "tools/explain.h"
#include "tools/machine.h"
#include "tools/presets.h"
#include "weights/model.h"

int cost_request_parse(cost_request *r, int argc, char **argv) {
    *r = (cost_request){.head = -1, .weights = -1, .units = UNITS_BINARY};
    question *q = &r->question;
    question_init(q);
    const option options[] = {
        {"model", 'm', OPTION_TEXT, &r->model, "MODEL", "a checkpoint file or folder", 0, 0},
        {"preset", 0, OPTION_TEXT, &r->preset, "NAME", "a well-known shape", 0, 0},
        {"presets", 0, OPTION_FLAG, &r->presets, NULL, "list the presets", 0, 0},
        {"shape", 0, OPTION_TEXT, &r->shape, "FILE.json", "a shape of your own; also the JSON text itself", 0, 0},
        {"params", 0, OPTION_COUNT, &q->params, "N", "bare numbers: weights", 1, 1e14},
        {"layers", 0, OPTION_INT, &q->n_layers, "N", "layers (over a shape: instead of its own)", 1, 1e5},
        {"heads", 0, OPTION_INT, &q->n_heads, "N", "query heads", 1, 1e5},
        {"kv-heads", 0, OPTION_INT, &q->n_kv_heads, "N", "K/V heads", 1, 1e5},
        {"head-dim", 0, OPTION_INT, &q->head_dim, "N", "elements of a head", 1, 1e5},
        {"context", 'c', OPTION_COUNT, &q->context, "N", "tokens in each user's cache", 0, 1e9},
        {"batch", 'B', OPTION_COUNT, &q->batch, "N", "users at once (default 1)", 1, 1e6},
        {"prompt", 0, OPTION_COUNT, &q->prompt, "N", "tokens of a prefill", 1, 1e8},
        {"train-tokens", 0, OPTION_COUNT, &q->train_tokens, "N", "tokens of a training run", 1, 1e16},
        {"weights", 0, OPTION_CHOICE, &r->weights, STORAGE_CHOICES,
         "storage of weights (default: as the file has it, else f16)", 0, 0},
        {"kv-type", 0, OPTION_CHOICE, &q->kv_type, STORAGE_CHOICES, "storage of the cache (default f16)", 0, 0},
        {"bytes", 0, OPTION_NUMBER, &q->weight_bytes, "X", "bytes of a weight and of a cached number, no scales", 0.01, 16},
        {"kv-bytes", 0, OPTION_NUMBER, &q->kv_bytes, "X", "bytes of a cached number, no scales", 0.01, 16},
        {"weight-bytes", 0, OPTION_SIZE, &q->resident, "SIZE", "bytes of all weights", 1, 1e17},
        {"bandwidth", 0, OPTION_NUMBER, &q->bandwidth, "X", "bytes/s that the machine reads", 1, 1e18},
        {"flops", 0, OPTION_NUMBER, &q->flops, "X", "FLOP/s that it does", 1, 1e21},
        {"machine", 0, OPTION_FLAG, &r->machine, NULL, "both as measured here (tally machine)", 0, 0},
        {"devices", 0, OPTION_INT, &q->devices, "N", "so many of these machines", 1, 1e6},
        {"efficiency", 0, OPTION_NUMBER, &q->efficiency, "X", "share of the FLOP/s that is reached", 0.001, 1},
        {"memory", 0, OPTION_SIZE, &q->memory, "SIZE", "memory of the machine", 1, 1e17},
        {"kv-mem", 0, OPTION_SIZE, &q->kv_memory, "SIZE", "memory of the cache alone", 1, 1e17},
        {"page-size", 0, OPTION_INT, &q->page_size, "N", "tokens a page of the cache; shows what pages cost", 1, 1 << 20},
        {"prefill-chunk", 0, OPTION_INT, &q->chunk, "N", "rows a pass of the prefill (default 512)", 1, 1 << 24},
        {"attention", 0, OPTION_CHOICE, &q->attention, ATTENTION_CHOICES, "which keys count as work", 0, 0},
        {"logit-rows", 0, OPTION_CHOICE, &q->logits, LOGITS_CHOICES, "rows that the head sees", 0, 0},
        {"embedding", 0, OPTION_CHOICE, &q->embedding, EMBEDDING_CHOICES, "what the embedding counts as", 0, 0},
        {"other", 0, OPTION_CHOICE, &q->other, OTHER_CHOICES, "FLOPs outside products and attention", 0, 0},
        {"vectors", 0, OPTION_CHOICE, &q->vectors, VECTORS_CHOICES, "biases and norm gains", 0, 0},
        {"units", 0, OPTION_CHOICE, &r->units, "binary|decimal", "KiB, MiB, GiB or kB, MB, GB", 0, 0},
        {"explain", 0, OPTION_FLAG, &r->explain, NULL, "what the other conventions would say", 0, 0},
        {"sweep", 0, OPTION_TEXT, &r->sweep, "NAME=A:B", "what if: batch=1:256, kv-heads=1,2,4, context=0:4000:500", 0, 0},
        {"csv", 0, OPTION_FLAG, &r->csv, NULL, "a sweep as comma-separated values", 0, 0},
        {"plot", 0, OPTION_TEXT, &r->plot, "FILE.svg", "a sweep as a chart, .svg or .png (needs gnuplot)", 0, 0},
        {"head", 0, OPTION_INT, &r->head, "H", "which K/V head does query head H read?", 0, 1e5},
        {"product", 0, OPTION_TEXT, &r->product, "M,K,N", "FLOPs of one matrix product", 0, 0},
        OPTION_JSON(&r->json),
    };
    const command help = {
        "cost",
        "[MODEL | --preset NAME | --shape FILE.json | --params N ...] [options]",
        "Predicts what a model will cost: memory, FLOPs, time, users. Each result with its formula and the numbers put in.",
        "tally cost --preset llama-3-8b --context 4000 --batch 8 --bandwidth 1e12 --flops 1e14",
        options,
        sizeof options / sizeof *options};
    int rc = options_parse(&help, argc, argv, &r->args);
    if (rc >= 0) return rc;
    if (r->args.n > 1) return tool_usage("%s is one argument too many (tally cost --help)", r->args.items[1]);
    if (r->args.n == 1) r->model = r->args.items[0];
    if ((r->model != NULL) + (r->preset != NULL) + (r->shape != NULL) > 1) {
        return tool_usage("one of MODEL, --preset and --shape is enough");
    }
    q->units = (byte_units)r->units;
    return -1;
}

/* As a file has them: what is neither fp32 nor int8 is read as fp16. */
static int storage_of(dtype type) {
    if (type == DTYPE_F32 || type == DTYPE_F64) return STORAGE_F32;
    return type == DTYPE_Q8_0 || type == DTYPE_I8G ? STORAGE_INT8 : STORAGE_F16;
}

static status load_model(cost_request *r, error *e) {
    model_options o;
    dtype type;
    model_options_init(&o);
    o.n_heads = r->question.n_heads; /* needed where the file does not say */
    status s = model_config_load(&r->question.config, &type, r->model, &o, e);
    if (s == OK && r->weights < 0) r->weights = storage_of(type);
    return s;
}

/* A shape from where the options say; bare numbers where they name none. */
static status load_shape(cost_request *r, error *e) {
    question *q = &r->question;
    const char *from = r->model != NULL ? r->model : r->preset != NULL ? r->preset : r->shape;
    status s = OK;
    if (from == NULL) return OK;
    if (r->model != NULL) {
        s = load_model(r, e);
    } else if (r->preset != NULL) {
        s = preset_load(&q->config, r->preset, e);
    } else {
        s = shape_load(&q->config, r->shape, e);
        if (r->shape[0] == '{') from = "shape";
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

status cost_request_load(cost_request *r, error *e) {
    status s = load_shape(r, e);
    if (r->weights >= 0) r->question.weights = r->weights;
    if (s == OK && r->machine) s = use_machine(&r->question, e);
    return s;
}

/* --product m,k,n: one matrix product; --head h: the K/V head that a query head reads. */
static status report_small(report *r, const cost_request *o, error *e) {
    const question *q = &o->question;
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

status cost_request_answer(report *out, cost_request *r, error *e) {
    question *q = &r->question;
    status s = question_resolve(q, e);
    if (s == OK) s = report_small(out, r, e);
    if (s == OK) s = cost_report(out, q, e);
    if (s == OK && r->explain)
        s = q->has_config ? explain_report(out, q, e) : error_set(e, ERR_ARGUMENT, "--explain needs a shape");
    if (s == OK && out->failed) s = error_set(e, ERR_MEMORY, "no memory for the report");
    if (s == OK && out->n == 0) {
        s = error_set(e, ERR_ARGUMENT, "nothing to answer (give MODEL, --preset, --shape or --params; tally cost --help)");
    }
    return s;
}
