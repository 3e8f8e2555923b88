/* audit_run - runs steps of a random model for an outside tool to watch: portable kernels, one thread.
 *
 *   audit_run trace CASE MAP      one step after a prompt, marked (marks.h); the arrays' addresses and what was counted go to MAP
 *   audit_run cache CASE STEPS    a prompt and STEPS steps of a model larger than the simulated cache; prints the bytes counted
 *
 * The linker hands calls of forward() and attention() to the functions here (Makefile): they set marks and go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine.h"
#include "tools/audit/marks.h"

void __real_forward(step *s, worker *w);
void __wrap_forward(step *s, worker *w);
void __real_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w);
void __wrap_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w);

static volatile char *marks; /* NULL: not tracing yet */

static void mark(audit_mark m) {
    if (marks != NULL) marks[64 * m] = 1;
}

void __wrap_forward(step *s, worker *w) {
    mark(MARK_BEGIN);
    __real_forward(s, w);
    mark(MARK_END);
}

/* One task at a time, so that each reading of the cache can be told from the next. */
void __wrap_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w) {
    for (int i = 0; i < n_tasks; i++) {
        mark(MARK_TASK);
        __real_attention(out, q, &tasks[i], 1, s, partials, w);
    }
}

static void fail(const char *what) {
    fprintf(stderr, "tally: audit: %s\n", what);
    exit(1);
}

typedef struct {
    const char *name;
    int weights;
    dtype kv;
    bool int8_activations, tied;
    int n_cached, n_new, n_seqs; /* n_seqs > 1: forks that share the cached tokens */
    int n_logit_rows;
    const char *isa;
} audit_case;

static const audit_case cases[] = {
    {"decode-f32", DTYPE_F32, DTYPE_F32, false, false, 32, 1, 1, 1, "portable"},
    {"decode-f16", DTYPE_F16, DTYPE_F16, false, false, 32, 1, 1, 1, "portable"},
    {"decode-int8", DTYPE_Q8_0, DTYPE_Q8_0, true, false, 32, 1, 1, 1, "portable"},
    {"decode-int8-f32", DTYPE_Q8_0, DTYPE_F16, false, false, 32, 1, 1, 1, "portable"},
    {"decode-shared", DTYPE_F16, DTYPE_F16, false, false, 32, 1, 3, 1, "portable"},
    {"decode-tied", DTYPE_F16, DTYPE_F16, false, true, 32, 1, 1, 1, "portable"},
    {"prefill-f32", DTYPE_F32, DTYPE_F32, false, false, 16, 40, 1, 1, "portable"},
    {"prefill-f16", DTYPE_F16, DTYPE_F16, false, false, 16, 40, 1, 1, "portable"},
    {"prefill-int8", DTYPE_Q8_0, DTYPE_Q8_0, true, false, 16, 40, 1, 1, "portable"},
    {"prefill-int8-f32", DTYPE_Q8_0, DTYPE_Q8_0, false, false, 16, 40, 1, 1, "portable"},
    {"prefill-no-logits", DTYPE_F16, DTYPE_F16, false, false, 16, 40, 1, 0, "portable"},
    {"decode-f16-avx2", DTYPE_F16, DTYPE_F16, false, false, 32, 1, 1, 1, "avx2"},
    {"decode-int8-avx2", DTYPE_Q8_0, DTYPE_Q8_0, true, false, 32, 1, 1, 1, "avx2"},
    {"prefill-f16-avx2", DTYPE_F16, DTYPE_F16, false, false, 16, 40, 1, 1, "avx2"},
    {"prefill-int8-avx2", DTYPE_Q8_0, DTYPE_Q8_0, true, false, 16, 40, 1, 1, "avx2"},
};

static const audit_case *case_find(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) == 0) return &cases[i];
    fail("no such case");
    return NULL;
}

/* Every dimension different; biases, LayerNorm, learned positions, an embedding table of its own, and a window in layer 1: every kind of
 * array that a step reads. */
static model_config small_config(const audit_case *k) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 44, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 12, c.d_ff = 90, c.n_vocab = 101,
    c.n_ctx = 80;
    c.norm = NORM_LAYER, c.norm_bias = true, c.norm_eps = 1e-5f, c.attn_scale = 0.3f;
    c.position = POSITION_LEARNED, c.rope_dim = 0;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.head_bias = true;
    c.window = 20, c.layer_windowed[1] = 1, c.tied = k->tied;
    return c;
}

/* Many times the simulated last-level cache. */
static model_config large_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 4, c.d_model = 256, c.n_heads = 8, c.n_kv_heads = 2, c.head_dim = 32, c.d_ff = 688, c.n_vocab = 1000,
    c.n_ctx = 600;
    c.rope_dim = 32, c.rope_base = 10000, c.attn_scale = 0.18f;
    return c;
}

typedef struct {
    model *m;
    engine *e;
    kv_sequence *seqs[4];
    float *logits;
    term_counts counted; /* of all steps */
} runner;

static void add_counts(void *user, const step_report *r) {
    term_counts_add(&((runner *)user)->counted, &r->counted);
}

static void runner_open(runner *r, const audit_case *k, const model_config *c, int chunk) {
    error e = {0};
    model_options mo;
    engine_options o;
    model_options_init(&mo);
    engine_options_init(&o);
    mo.weights = k->weights, mo.n_threads = 1;
    o.kv_type = k->kv, o.n_threads = 1, o.isa = k->isa, o.int8_activations = k->int8_activations;
    o.max_sequences = 4, o.prefill_chunk = chunk;
    *r = (runner){.m = NULL};
    if (model_random(&r->m, c, 1, &mo, &e) != OK || engine_create(&r->e, r->m, &o, &e) != OK) fail(e.message);
    for (int i = 0; i < 4; i++)
        if (kv_sequence_create(&r->seqs[i], engine_cache(r->e), engine_n_ctx(r->e), &e) != OK) fail(e.message);
    r->logits = malloc((size_t)4 * (size_t)c->n_vocab * sizeof *r->logits);
    if (r->logits == NULL) fail("no memory");
    engine_observe(r->e, add_counts, r);
}

static void runner_close(runner *r) {
    for (int i = 0; i < 4; i++) kv_sequence_free(r->seqs[i], engine_cache(r->e));
    free(r->logits);
    engine_free(r->e);
    model_free(r->m);
}

static void put(FILE *map, term t, const void *start, size_t bytes, const char *name, int layer) {
    if (start == NULL || bytes == 0) return;
    fprintf(map, "%s %llx %zu %s", term_table[t].key, (unsigned long long)(uintptr_t)start, bytes, name);
    fprintf(map, layer >= 0 ? ".%d\n" : "\n", layer);
}

static void put_matrix(FILE *map, const matrix *w, const char *name, int layer) {
    put(map, w->bytes_term, w->data, matrix_bytes(w), name, layer);
    char bias[32];
    snprintf(bias, sizeof bias, "%s_bias", name);
    put(map, TERM_BYTES_BIAS, w->bias, (size_t)w->n_rows * sizeof(float), bias, layer);
}

static void put_norm(FILE *map, const norm_weights *n, const char *name, int layer) {
    put(map, TERM_BYTES_NORM, n->gain, (size_t)n->n * sizeof(float), name, layer);
    char bias[32];
    snprintf(bias, sizeof bias, "%s_bias", name);
    put(map, TERM_BYTES_NORM, n->bias, (size_t)n->n * sizeof(float), bias, layer);
}

static void put_weights(FILE *map, const model *m) {
    if (!m->config.tied) put_matrix(map, &m->embedding, "embedding", -1);
    put_matrix(map, &m->positions, "positions", -1);
    put_matrix(map, &m->head, "head", -1);
    put_norm(map, &m->final_norm, "final_norm", -1);
    for (int il = 0; il < m->config.n_layers; il++) {
        const layer_weights *l = &m->layers[il];
        put_matrix(map, &l->wq, "wq", il), put_matrix(map, &l->wk, "wk", il), put_matrix(map, &l->wv, "wv", il);
        put_matrix(map, &l->wo, "wo", il), put_matrix(map, &l->w_gate, "w_gate", il), put_matrix(map, &l->w_up, "w_up", il);
        put_matrix(map, &l->w_down, "w_down", il);
        put_norm(map, &l->attn_pre, "attn_norm", il), put_norm(map, &l->ffn_pre, "ffn_norm", il);
    }
}

/* Each page of each layer, once where several sequences hold it. The prompt fills whole pages: those before it are the cached ones. */
static void put_pages(FILE *map, runner *r, int n_seqs, int n_cached) {
    kv_cache *c = engine_cache(r->e);
    for (int il = 0; il < c->n_layers; il++)
        for (int b = 0; b < n_seqs; b++) {
            const kv_sequence *s = r->seqs[b];
            int cached = n_cached / c->layout.page_size;
            for (int p = 0; p < s->n_pages; p++) {
                if (b > 0 && p < cached) continue;
                char name[64];
                snprintf(name, sizeof name, "layer%d/sequence%d/page%d", il, b, p);
                put(map, p < cached ? TERM_BYTES_KV_CACHED : TERM_BYTES_KV_OWN, kv_cache_page(c, il, s->pages[p]),
                    c->layout.page_bytes, name, -1);
            }
        }
}

static void write_map(const char *path, runner *r, const audit_case *k) {
    FILE *map = fopen(path, "w");
    if (map == NULL) fail("cannot write the map");
    put_weights(map, r->m);
    put_pages(map, r, k->n_seqs, k->n_cached);
    for (int b = 0; b < k->n_seqs; b++) /* a table's entries are counted at each layer: read from where the sequence has them */
        put(map, TERM_BYTES_PAGE_TABLE, r->seqs[b]->pages, (size_t)r->seqs[b]->n_pages * sizeof(int), "table", b);
    put(map, TERM_BYTES_LOGITS, r->logits, (size_t)k->n_seqs * (size_t)r->m->config.n_vocab * sizeof(float), "logits", -1);
    fclose(map);
    mark(MARK_MAP);
}

static void put_explained(FILE *map, term t, size_t bytes) {
    if (bytes > 0) fprintf(map, "explained %s %zu\n", term_table[t].key, bytes);
}

/* Products with int8 activations take whole blocks, padding and all (it is zeros); what turns weights into fp32 stops at the last column. */
static void put_padding(FILE *map, const matrix *w) {
    size_t pad = w->type == DTYPE_Q8_0 ? (size_t)(32 - w->n_cols % 32) % 32 : 0;
    put_explained(map, w->bytes_term, pad * (size_t)w->n_rows);
}

static void put_paddings(FILE *map, const model *m) {
    put_padding(map, &m->head);
    for (int il = 0; il < m->config.n_layers; il++) {
        const layer_weights *l = &m->layers[il];
        const matrix *all[] = {&l->wq, &l->wk, &l->wv, &l->wo, &l->w_gate, &l->w_up, &l->w_down};
        for (int i = 0; i < 7; i++) put_padding(map, all[i]);
    }
}

static void write_counts(const char *path, const runner *r, const audit_case *k) {
    FILE *map = fopen(path, "a");
    if (map == NULL) fail("cannot write the counts");
    if (!k->int8_activations) put_paddings(map, r->m);
    /* Forks stand at the same positions: their rows of the table are the same. */
    put_explained(map, TERM_BYTES_POSITION, (size_t)(k->n_seqs - 1) * (size_t)k->n_new * r->m->positions.row_bytes);
    /* A tied table is the head's panels: the row that is looked up lies in bytes that are the head's. */
    if (k->tied) put_explained(map, TERM_BYTES_EMBEDDING, (size_t)(k->n_seqs * k->n_new) * r->m->embedding.row_bytes);
    for (int i = 0; i < N_TERMS; i++) fprintf(map, "counted %s %llu\n", term_table[i].key, (unsigned long long)r->counted.n[i]);
    fclose(map);
}

static void fill_ids(int *ids, int n, int first, int n_vocab) {
    for (int i = 0; i < n; i++) ids[i] = (first + i * 7) % n_vocab; /* all different for n <= n_vocab */
}

/* The prompt, forks of it, room for the step; the map; then the step that is watched. */
static void run_trace(const audit_case *k, const char *path) {
    runner r;
    model_config c = small_config(k);
    int ids[64];
    error e = {0};
    runner_open(&r, k, &c, 64);
    fill_ids(ids, k->n_cached, 3, c.n_vocab);
    if (engine_prefill(r.e, r.seqs[0], ids, k->n_cached, 0, NULL, &e) != OK) fail(e.message);
    for (int b = 1; b < k->n_seqs; b++) kv_sequence_fork(r.seqs[b], r.seqs[0], engine_cache(r.e));
    for (int b = 0; b < k->n_seqs; b++) /* what the step would do first: so that the pages are known */
        if (kv_sequence_reserve(r.seqs[b], k->n_new, engine_cache(r.e), &e) != OK) fail(e.message);
    fill_ids(ids, k->n_new * k->n_seqs, 5, c.n_vocab);
    step_sequence q[4];
    for (int b = 0; b < k->n_seqs; b++)
        q[b] = (step_sequence){.kv = r.seqs[b], .ids = ids + b * k->n_new, .n_new = k->n_new, .n_logit_rows = k->n_logit_rows};
    void *page = mmap((void *)(uintptr_t)AUDIT_MARKS, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != (void *)(uintptr_t)AUDIT_MARKS) fail("the page for the marks is taken");
    marks = page;
    r.counted = (term_counts){{0}};
    write_map(path, &r, k);
    if (engine_step(r.e, q, k->n_seqs, r.logits, &e) != OK) fail(e.message);
    write_counts(path, &r, k);
    runner_close(&r);
}

/* Decode: a prompt, then n steps. Prefill: n prompts, one after another. Prints the bytes counted in them: read from weights, read from the
 * cache, written. */
static void run_cache(const audit_case *k, int n) {
    enum { CHUNK = 64, PROMPT = 3 * CHUNK };
    runner r;
    model_config c = large_config();
    int ids[PROMPT];
    error e = {0};
    bool decode = k->n_new == 1;
    runner_open(&r, k, &c, CHUNK);
    fill_ids(ids, PROMPT, 3, c.n_vocab);
    if (decode && engine_prefill(r.e, r.seqs[0], ids, PROMPT, 0, NULL, &e) != OK) fail(e.message);
    r.counted = (term_counts){{0}};
    for (int i = 0; i < n; i++) {
        if (!decode) kv_sequence_truncate(r.seqs[0], 0, engine_cache(r.e));
        status s = decode ? engine_decode(r.e, r.seqs, ids, 1, r.logits, &e)
                          : engine_prefill(r.e, r.seqs[0], ids, CHUNK, 1, r.logits, &e);
        if (s != OK) fail(e.message);
    }
    uint64_t *t = r.counted.n, written = t[TERM_BYTES_KV_WRITTEN] + t[TERM_BYTES_LOGITS];
    printf("%llu %llu %llu\n", (unsigned long long)term_class_sum(&r.counted, CLASS_WEIGHT_BYTES),
           (unsigned long long)(t[TERM_BYTES_KV_CACHED] + t[TERM_BYTES_KV_OWN] + t[TERM_BYTES_PAGE_TABLE]),
           (unsigned long long)written);
    runner_close(&r);
}

int main(int argc, char **argv) {
    if (argc != 4) fail("usage: audit_run trace CASE MAP | audit_run cache CASE STEPS");
    if (strcmp(argv[1], "trace") == 0)
        run_trace(case_find(argv[2]), argv[3]);
    else
        run_cache(case_find(argv[2]), atoi(argv[3]));
    return 0;
}
