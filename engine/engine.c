/* engine.c - setting up and running steps. What a step computes is in forward.c. */
#include "engine/engine.h"
#include "engine/engine_private.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/blas.h"
#include "kernels/memory.h"
#include "kernels/sizes.h"

/* Keys are taken in ranges of this many: long enough that merging costs nothing, short enough that a few ranges keep a few cores busy. */
enum { KEY_SPLIT = 256 };
/* Query rows (tokens x query heads of a group) that share one reading of K and V: their scores over a range stay in L2. */
enum { TILE_QUERIES = 128, TILE_TOKENS = 32 };
/* A worker is worth waking for about this many multiply-adds: some tens of microseconds. */
enum { WORK_PER_WORKER = 2 * 1000 * 1000 };

struct engine {
    const model *model;
    engine_options options;
    const kernel_set *kernels;
    blas *blas;
    kv_cache *cache;
    weight_storage storage;
    step step;
    step_report report;
    team team;
    worker *workers;      /* [n_threads] */
    double multiply_adds; /* of the matrices, for one row */
    void *arena;
    size_t arena_bytes;
    void *scratch;
    size_t scratch_bytes;
    step_sequence *decode_seqs; /* [max_sequences], for engine_decode */
    step_observer observer;
    void *observer_user;
};

void engine_options_init(engine_options *o) {
    *o = (engine_options){.max_sequences = 1,
                          .prefill_chunk = 512,
                          .page_size = 16,
                          .kv_type = DTYPE_F16,
                          .int8_activations = true,
                          .isa = "auto",
                          .work_per_worker = WORK_PER_WORKER};
}

/* Carves an arena: first asked for sizes (base NULL), then for places. */
typedef struct {
    unsigned char *base;
    size_t used;
    bool overflow;
} carver;

static void *carve(carver *c, size_t n, size_t elem) {
    size_t bytes = 0, at = c->used;
    if (!size_mul(n, elem, &bytes) || bytes > SIZE_MAX - 64 || !size_add(c->used, round_up(bytes, 64), &c->used))
        c->overflow = true;
    return c->base == NULL ? NULL : c->base + at;
}

/* How many workers so many rows are worth. */
static int workers_worth(const engine *e, double n_rows) {
    double n = 1 + e->multiply_adds * n_rows / e->options.work_per_worker;
    return n < e->options.n_threads ? (int)n : e->options.n_threads;
}

/* A small model never has work for many: threads that would only wait are not started. */
static void threads_settle(engine *e) {
    engine_options *o = &e->options;
    if (o->n_threads <= 0) o->n_threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (o->n_threads < 1) o->n_threads = 1;
    double longest = (double)o->n_ctx * o->max_sequences;
    o->n_threads = workers_worth(e, longest < o->prefill_chunk ? longest : o->prefill_chunk);
}

/* Every array of a step. The same function measures the arena and lays it out. */
static void arena_lay(engine *e, carver *c) {
    const model_config *m = &e->model->config;
    const engine_options *o = &e->options;
    step *s = &e->step;
    size_t rows = (size_t)o->prefill_chunk, seqs = (size_t)o->max_sequences, d = (size_t)m->d_model;
    size_t q_dim = (size_t)config_q_dim(m), kv_dim = (size_t)config_kv_dim(m);
    size_t pages = ceil_div((size_t)o->n_ctx, (size_t)o->page_size) * seqs;
    size_t widest = d > q_dim ? d : q_dim;
    if (widest < (size_t)m->d_ff) widest = (size_t)m->d_ff;

    e->storage.layers = carve(c, (size_t)m->n_layers, sizeof *e->storage.layers);
    e->workers = carve(c, (size_t)o->n_threads, sizeof *e->workers);
    e->decode_seqs = carve(c, seqs, sizeof *e->decode_seqs);
    s->plan_seqs = carve(c, seqs, sizeof *s->plan_seqs);
    s->ids = carve(c, rows, sizeof *s->ids);
    s->pos = carve(c, rows, sizeof *s->pos);
    s->row_seq = carve(c, rows, sizeof *s->row_seq);
    s->logit_rows = carve(c, rows, sizeof *s->logit_rows);
    s->views = carve(c, seqs, sizeof *s->views);
    s->page_pointers = carve(c, pages, sizeof *s->page_pointers);
    s->first_page_pointer = carve(c, seqs, sizeof *s->first_page_pointer);
    s->tasks.tasks = carve(c, rows, sizeof *s->tasks.tasks);
    s->windowed_tasks.tasks = carve(c, rows, sizeof *s->windowed_tasks.tasks);
    s->x = carve(c, rows * d, sizeof(float));
    s->n = carve(c, rows * d, sizeof(float));
    s->n_ffn = m->parallel_residual ? carve(c, rows * d, sizeof(float)) : NULL;
    s->q = carve(c, rows * q_dim, sizeof(float));
    s->o = carve(c, rows * q_dim, sizeof(float));
    s->k = carve(c, rows * kv_dim, sizeof(float));
    s->v = carve(c, rows * kv_dim, sizeof(float));
    s->h = carve(c, rows * (size_t)m->d_ff, sizeof(float));
    s->branch = m->attn_post_norm || m->ffn_post_norm ? carve(c, rows * d, sizeof(float)) : NULL;
    s->cos_sin = e->model->rope_freq != NULL ? carve(c, rows * (size_t)m->rope_dim, sizeof(float)) : NULL;
    s->cos_sin_local = e->model->rope_local_freq != NULL ? carve(c, rows * (size_t)m->rope_dim, sizeof(float)) : NULL;
    s->partials = carve(c, attention_partials_bytes(&s->attention, o->n_threads, o->n_ctx), 1);
    float *slopes = carve(c, m->position == POSITION_ALIBI ? (size_t)m->n_heads : 0, sizeof(float));
    s->attention.alibi_slopes = m->position == POSITION_ALIBI ? slopes : NULL;
    if (o->int8_activations) {
        size_t blocks = rows * ceil_div(widest, 32);
        s->mode.quantised.q = carve(c, blocks * 32, 1);
        s->mode.quantised.scale = carve(c, blocks, sizeof(float));
        s->mode.quantised.sum = carve(c, blocks, sizeof(int32_t));
    }
}

static void storage_set(matrix_storage *s, const matrix *m) {
    s->type = m->type;
    s->group = m->group;
}

/* What the plan says of the weights: the type of every matrix. */
static void storage_prepare(engine *e) {
    const model *m = e->model;
    storage_set(&e->storage.embedding, &m->embedding);
    storage_set(&e->storage.positions, &m->positions);
    storage_set(&e->storage.head, &m->head);
    for (int il = 0; il < m->config.n_layers; il++) {
        const layer_weights *l = &m->layers[il];
        const matrix *all[N_LAYER_MATRICES] = {&l->wq, &l->wk, &l->wv, &l->wo, &l->w_gate, &l->w_up, &l->w_down};
        for (int i = 0; i < N_LAYER_MATRICES; i++) {
            storage_set(&e->storage.layers[il][i], all[i]);
        }
    }
}

/* Press et al. 2022: slopes 2^(-8/n), 2^(-16/n), ... for n heads, n a power of two; else those of the next lower power, and then every other
 * one of the next higher. */
static void alibi_slopes(float *out, int n_heads) {
    int n = 1;
    while (n * 2 <= n_heads) n *= 2;
    for (int h = 0; h < n_heads; h++) {
        out[h] = (float)(h < n ? exp2(-8.0 * (h + 1) / n) : exp2(-4.0 * (2 * (h - n) + 1) / n));
    }
}

static status options_settle(engine *e, error *err) {
    const model_config *c = &e->model->config;
    engine_options *o = &e->options;
    if (o->n_threads > 256) return error_set(err, ERR_ARGUMENT, "%d threads are too many (at most 256)", o->n_threads);
    if (o->n_ctx <= 0) o->n_ctx = c->n_ctx < DEFAULT_CTX ? c->n_ctx : DEFAULT_CTX;
    if (o->n_ctx > c->n_ctx) {
        return error_set(err, ERR_LIMIT, "a context of %d is longer than the model's %d positions (lower --ctx-size)", o->n_ctx,
                         c->n_ctx);
    }
    if (o->max_sequences < 1 || o->max_sequences > 65536)
        return error_set(err, ERR_ARGUMENT, "%d sequences at once (1 to 65536)", o->max_sequences);
    if (o->prefill_chunk < 1 || o->prefill_chunk > 65536)
        return error_set(err, ERR_ARGUMENT, "a prefill chunk of %d rows (1 to 65536)", o->prefill_chunk);
    if (o->prefill_chunk < o->max_sequences) o->prefill_chunk = o->max_sequences;
    if (o->page_size < 1 || o->page_size > 65536)
        return error_set(err, ERR_ARGUMENT, "pages of %d tokens (1 to 65536)", o->page_size);
    if (o->kv_type != DTYPE_F32 && o->kv_type != DTYPE_F16 && o->kv_type != DTYPE_Q8_0) {
        return error_set(err, ERR_ARGUMENT, "the KV cache cannot be %s (f32, f16 or int8)", dtype_info(o->kv_type)->name);
    }
    return OK;
}

/* How many pages the pool has: as asked, or what all sequences at their longest would take. */
static status pages_settle(engine *e, const kv_layout *l, int *n_pages, error *err) {
    const engine_options *o = &e->options;
    size_t page, pages = (size_t)o->n_pages;
    if (!size_mul(l->page_bytes, (size_t)e->model->config.n_layers, &page))
        return error_set(err, ERR_LIMIT, "a page of %d tokens is too large", o->page_size);
    if (pages == 0 && o->kv_bytes > 0) {
        pages = o->kv_bytes / page;
        if (pages == 0) {
            return error_set(err, ERR_ARGUMENT,
                             "--kv-mem %zu is less than one page of %zu bytes (raise it, or lower --page-size)", o->kv_bytes,
                             page);
        }
    }
    if (pages == 0) pages = ceil_div((size_t)o->n_ctx, (size_t)o->page_size) * (size_t)o->max_sequences;
    if (pages > 1u << 30) return error_set(err, ERR_LIMIT, "%zu pages are too many (at most 2^30)", pages);
    *n_pages = (int)pages;
    return OK;
}

static status cache_prepare(engine *e, error *err) {
    const model_config *c = &e->model->config;
    kv_layout l;
    int n_pages = 0;
    if (!kv_layout_init(&l, e->options.kv_type, e->options.page_size, c->n_kv_heads, c->head_dim)) {
        return error_set(err, ERR_LIMIT, "a page of %d tokens is too large", e->options.page_size);
    }
    status st = pages_settle(e, &l, &n_pages, err);
    return st != OK ? st : kv_cache_create(&e->cache, &l, c->n_layers, n_pages, err);
}

static status memory_prepare(engine *e, error *err) {
    step *s = &e->step;
    const engine_options *o = &e->options;
    carver measure = {0};
    arena_lay(e, &measure);
    size_t linear_bytes = linear_scratch_bytes(o->prefill_chunk),
           attention_bytes = attention_scratch_bytes(&s->attention, s->plan.query_tile);
    size_t each = round_up(linear_bytes > attention_bytes ? linear_bytes : attention_bytes, 4096);
    size_t row = ((size_t)e->model->config.d_model + 64) * sizeof(float); /* rows_embed's position row */
    if (each < row) each = round_up(row, 4096);
    e->arena_bytes = measure.used;
    e->scratch_bytes = each * (size_t)o->n_threads;
    if (!measure.overflow) {
        e->arena = pages_take(e->arena_bytes);
        e->scratch = pages_take(e->scratch_bytes);
    }
    if (e->arena == NULL || e->scratch == NULL) {
        return error_set(err, ERR_MEMORY, "activations for steps of %d rows take %zu bytes (lower --prefill-chunk)",
                         o->prefill_chunk, e->arena_bytes + e->scratch_bytes);
    }
    carver lay = {.base = e->arena};
    arena_lay(e, &lay);
    if (s->attention.alibi_slopes != NULL) alibi_slopes((float *)(uintptr_t)s->attention.alibi_slopes, s->attention.n_heads);
    for (int i = 0; i < o->n_threads; i++) {
        e->workers[i] = (worker){.id = i,
                                 .team = &e->team,
                                 .kernels = e->kernels,
                                 .scratch_bytes = each,
                                 .scratch = (unsigned char *)e->scratch + (size_t)i * each};
    }
    return OK;
}

static void step_init(engine *e) {
    const model_config *c = &e->model->config;
    int group = c->n_heads / c->n_kv_heads, tile = TILE_QUERIES / group;
    step *s = &e->step;
    s->model = e->model;
    s->cache = e->cache;
    s->profile = e->options.profile;
    s->attention = (attention_shape){.n_heads = c->n_heads,
                                     .n_kv_heads = c->n_kv_heads,
                                     .head_dim = c->head_dim,
                                     .scale = c->attn_scale,
                                     .softcap = c->attn_softcap,
                                     .window = c->window,
                                     .key_split = KEY_SPLIT};
    s->mode.int8_activations = e->options.int8_activations;
    s->plan = (execution_plan){.weights = &e->storage,
                               .kv_type = e->options.kv_type,
                               .page_size = e->options.page_size,
                               .query_tile = tile < 1             ? 1
                                             : tile > TILE_TOKENS ? TILE_TOKENS
                                                                  : tile,
                               .key_split = KEY_SPLIT,
                               .int8_activations = e->options.int8_activations};
    e->report.plan = &s->plan;
}

/* Starts the threads, so that no step has to. */
static void team_start(engine *e) {
    int n = e->options.n_threads;
    if (n > 1) {
#pragma omp parallel num_threads(n)
        {
            worker *w = &e->workers[omp_get_thread_num()];
            w->n_workers = omp_get_num_threads();
        }
    }
}

status engine_create(engine **out, const model *m, const engine_options *o, error *err) {
    *out = NULL;
    engine *e = calloc(1, sizeof *e);
    if (e == NULL) return error_set(err, ERR_MEMORY, "out of memory for the engine");
    e->model = m;
    e->options = *o;
    e->multiply_adds = (double)config_params(&m->config).matrices;
    status st = options_settle(e, err);
    threads_settle(e);
    e->kernels = kernel_set_choose(o->isa);
    if (st == OK && e->kernels == NULL) {
        st = error_set(err, ERR_UNSUPPORTED,
                       "this machine or build has no '%s' kernels (--isa auto, portable, avx2, avx512 or neon)", o->isa);
    }
    if (st == OK && o->blas) st = blas_open(&e->blas, err);
    if (st == OK) st = cache_prepare(e, err);
    if (st == OK) {
        step_init(e);
        st = memory_prepare(e, err);
    }
    if (st != OK) {
        engine_free(e);
        return st;
    }
    storage_prepare(e);
    team_start(e);
    *out = e;
    return OK;
}

void engine_free(engine *e) {
    if (e == NULL) return;
    kv_cache_free(e->cache);
    blas_close(e->blas);
    pages_free(e->arena, e->arena_bytes);
    pages_free(e->scratch, e->scratch_bytes);
    free(e);
}

/* What can be wrong with a step but for the pages. */
static status step_check(const engine *e, const step_sequence *seqs, int n_seqs, error *err) {
    const engine_options *o = &e->options;
    long long rows = 0;
    if (n_seqs < 1 || n_seqs > o->max_sequences) {
        return error_set(err, ERR_ARGUMENT, "a step of %d sequences (1 to %d)", n_seqs, o->max_sequences);
    }
    for (int i = 0; i < n_seqs; i++) {
        const step_sequence *q = &seqs[i];
        rows += q->n_new;
        if (q->n_new < 1 || rows > o->prefill_chunk) {
            return error_set(err, ERR_ARGUMENT, "a step of %lld rows (each sequence at least 1, together at most %d)", rows,
                             o->prefill_chunk);
        }
        if (q->n_new > o->n_ctx - q->kv->n_tokens) {
            return error_set(
                err, ERR_LIMIT,
                "%d tokens do not fit the context of %d (shorten the prompt, or raise --ctx-size up to the model's %d)",
                q->kv->n_tokens + q->n_new, o->n_ctx, e->model->config.n_ctx);
        }
        for (int t = 0; t < q->n_new; t++) {
            if (q->ids[t] < 0 || q->ids[t] >= e->model->config.n_vocab) {
                return error_set(err, ERR_ARGUMENT, "token id %d is not in the vocabulary (0 to %d)", q->ids[t],
                                 e->model->config.n_vocab - 1);
            }
        }
    }
    return OK;
}

/* Runs the step on as many workers as it is worth, and adds up what they counted. */
static void step_run(engine *e) {
    step *s = &e->step;
    int n = workers_worth(e, s->n_rows);
    atomic_store(&e->team.n_arrived, 0);
    for (int i = 0; i < n; i++) e->workers[i].meter = (meter){0};
    if (n == 1) {
        e->workers[0].n_workers = 1;
        forward(s, &e->workers[0]);
    } else {
#pragma omp parallel num_threads(n)
        {
            worker *w = &e->workers[omp_get_thread_num()];
            w->n_workers = omp_get_num_threads(); /* the system may give fewer than asked */
            forward(s, w);
        }
    }
    e->report.counted = (term_counts){0};
    for (int i = 0; i < n; i++) term_counts_add(&e->report.counted, &e->workers[i].meter.counts);
    e->report.n_workers = e->workers[0].n_workers;
}

/* x - x is 0 for every finite x, and NaN for the others. */
static bool all_finite(const float *x, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] - x[i];
    return sum == 0.0f;
}

static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
    double start = clock_now();
    status st = step_check(e, seqs, n_seqs, err);
    if (st == OK) st = pages_reserve(e, seqs, n_seqs, err);
    if (st != OK) return st;

    step_prepare(s, seqs, n_seqs);
    s->logits = logits;
    s->plan.blas = e->blas != NULL && s->n_rows >= BLAS_ROWS;
    s->mode.blas = s->plan.blas ? e->blas : NULL;
    memset(s->op_seconds, 0, sizeof s->op_seconds);
    step_run(e);

    size_t n_vocab = (size_t)e->model->config.n_vocab;
    for (int i = 0; i < n_seqs; i++) {
        kv_sequence_commit(seqs[i].kv, seqs[i].n_new, e->cache);
        seqs[i].finite = all_finite(logits, (size_t)seqs[i].n_logit_rows * n_vocab);
        if (logits != NULL) logits += (size_t)seqs[i].n_logit_rows * n_vocab;
    }
    memcpy(e->report.op_seconds, s->op_seconds, sizeof s->op_seconds);
    e->report.seconds = clock_now() - start;
    if (e->observer != NULL) e->observer(e->observer_user, &e->report);
    return OK;
}

void engine_observe(engine *e, step_observer observer, void *user) {
    e->observer = observer;
    e->observer_user = user;
}

step_sequence *engine_decode_sequences(engine *e) {
    return e->decode_seqs;
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
int engine_n_threads(const engine *e) {
    return e->options.n_threads;
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
    size_t tables = (size_t)e->cache->n_pages * (3 * sizeof(int) + sizeof(uint64_t));
    return (engine_memory){
        .pool = e->cache->pool_bytes, .tables = tables, .activations = e->arena_bytes, .scratch = e->scratch_bytes};
}
