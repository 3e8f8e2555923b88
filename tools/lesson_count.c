/* The lesson's numbers by running: a model of random weights, tokens one at a time, and what the kernels posted. */
#include <string.h>

#include "engine/engine.h"
#include "tools/lesson.h"
#include "tools/presets.h"

enum { MAX_VOCAB = 16 }; /* of the models that are run: their logits lie on the stack */

typedef struct {
    model *model;
    engine *engine;
    kv_sequence *seq;
    float logits[MAX_VOCAB];
    int ids[128];
} bench;

static dtype type_of(const char *weights) {
    return strcmp(weights, "f32") == 0 ? DTYPE_F32 : strcmp(weights, "f16") == 0 ? DTYPE_F16 : DTYPE_Q8_0;
}

static status bench_open(bench *b, const lesson_row *row, error *e) {
    model_config c;
    model_options mo;
    engine_options eo;
    status s = row->run_shape[0] == '{' ? shape_load(&c, row->run_shape, e) : preset_load(&c, row->run_shape, e);
    if (s != OK) return s;
    if (c.n_vocab > MAX_VOCAB || row->run_tokens > (int)(sizeof b->ids / sizeof *b->ids)) {
        return error_set(e, ERR_LIMIT, "%s: too large to be run in the lesson", row->words);
    }
    model_options_init(&mo);
    engine_options_init(&eo);
    mo.weights = (int)type_of(row->run_weights);
    eo.n_threads = 1;
    eo.int8_activations = false;
    for (int i = 0; i < row->run_tokens; i++) b->ids[i] = (3 * i + 1) % c.n_vocab;
    s = model_random(&b->model, &c, 21, &mo, e);
    if (s == OK) s = engine_create(&b->engine, b->model, &eo, e);
    if (s == OK) s = kv_sequence_create(&b->seq, engine_cache(b->engine), engine_n_ctx(b->engine), e);
    return s;
}

static void bench_close(bench *b) {
    if (b->seq != NULL) kv_sequence_free(b->seq, engine_cache(b->engine));
    engine_free(b->engine);
    model_free(b->model);
}

/* n tokens at once; what was counted is added to sum. */
static status prefill(bench *b, int n, term_counts *sum, error *e) {
    status s = engine_prefill(b->engine, b->seq, b->ids, n, 1, b->logits, e);
    if (s == OK) term_counts_add(sum, &engine_last_report(b->engine)->counted);
    return s;
}

static status decode(bench *b, int i, term_counts *sum, error *e) {
    status s = engine_decode(b->engine, &b->seq, &b->ids[i], 1, b->logits, e);
    if (s == OK) term_counts_add(sum, &engine_last_report(b->engine)->counted);
    return s;
}

/* Each token on its own: with the cache one row, without it all rows so far from an empty one. */
static status one_at_a_time(bench *b, int n, bool cached, term_counts *sum, error *e) {
    status s = OK;
    for (int i = 0; s == OK && i < n; i++) {
        if (!cached) kv_sequence_truncate(b->seq, 0, engine_cache(b->engine));
        s = cached && i > 0 ? decode(b, i, sum, e) : prefill(b, i + 1, sum, e);
    }
    return s;
}

/* The last of n tokens alone, after a prefill of the others. */
static status last_token(bench *b, int n, term_counts *sum, error *e) {
    term_counts before = {{0}};
    status s = prefill(b, n - 1, &before, e);
    return s == OK ? decode(b, n - 1, sum, e) : s;
}

static uint64_t pick(const term_counts *t, const lesson_row *row, const model_config *c) {
    uint64_t nl = (uint64_t)c->n_layers;
    switch (row->run) {
    case RUN_KV_PER_TOKEN:
        return t->n[TERM_BYTES_KV_WRITTEN];
    case RUN_KEYS_WITH:
    case RUN_KEYS_WITHOUT:
        return t->n[TERM_KEYS_COMPUTED] / nl;
    case RUN_KEYS_ATTENDED:
        return t->n[TERM_KEYS_ATTENDED] / nl;
    case RUN_MATMUL:
    case RUN_PREFILL_MATMUL:
        return term_class_sum(t, CLASS_MATMUL);
    case RUN_ATTENTION:
    case RUN_PREFILL_ATTENTION:
        return term_class_sum(t, CLASS_ATTENTION);
    case RUN_OTHER:
    case RUN_PREFILL_OTHER:
        return term_class_sum(t, CLASS_OTHER);
    case RUN_WEIGHT_BYTES:
        return term_class_sum(t, CLASS_WEIGHT_BYTES);
    case RUN_NONE:
        break;
    }
    return 0;
}

status lesson_count(uint64_t *out, const lesson_row *row, error *e) {
    bench b = {0};
    term_counts sum = {{0}};
    status s = bench_open(&b, row, e);
    if (s == OK) {
        switch (row->run) {
        case RUN_KEYS_WITH:
        case RUN_KEYS_ATTENDED:
        case RUN_KEYS_WITHOUT:
            s = one_at_a_time(&b, row->run_tokens, row->run != RUN_KEYS_WITHOUT, &sum, e);
            break;
        case RUN_PREFILL_MATMUL:
        case RUN_PREFILL_ATTENTION:
        case RUN_PREFILL_OTHER:
            s = prefill(&b, row->run_tokens, &sum, e);
            break;
        default:
            s = last_token(&b, row->run_tokens, &sum, e);
        }
    }
    if (s == OK) *out = pick(&sum, row, &b.model->config);
    bench_close(&b);
    return s;
}
