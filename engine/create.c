/* create.c - an engine from a model and options. What its memory is: arena.c. */
#include "engine/engine_private.h"

#include <stdlib.h>

#include "kernels/blas.h"
#include "kernels/memory.h"
#include "kernels/processors.h"
#include "kernels/sizes.h"

/* A worker is worth waking for about this many multiply-adds: some tens of microseconds. */
enum { WORK_PER_WORKER = 2 * 1000 * 1000 };
enum { MOST_THREADS = 256 };

void engine_options_init(engine_options *o) {
    *o = (engine_options){.max_sequences = 1,
                          .prefill_chunk = 512,
                          .page_size = 16,
                          .kv_type = DTYPE_F16,
                          .int8_activations = true,
                          .isa = "auto",
                          .work_per_worker = WORK_PER_WORKER};
}

/* How many workers so many rows are worth. */
int engine_workers_worth(const engine *e, double n_rows) {
    double n = 1 + e->multiply_adds * n_rows / e->options.work_per_worker;
    return n < e->options.n_threads ? (int)n : e->options.n_threads;
}

/* A small model never has work for many: threads that would only wait are not started. */
static void threads_settle(engine *e) {
    engine_options *o = &e->options;
    e->finds_team_size = o->n_threads <= 0;
    if (o->n_threads <= 0) o->n_threads = processors_usable();
    if (o->n_threads > MOST_THREADS) o->n_threads = MOST_THREADS;
    double longest = (double)o->n_ctx * o->max_sequences;
    o->n_threads = engine_workers_worth(e, longest < o->prefill_chunk ? longest : o->prefill_chunk);
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

static status options_settle(engine *e, error *err) {
    const model_config *c = &e->model->config;
    engine_options *o = &e->options;
    if (o->n_threads > MOST_THREADS) {
        return error_set(err, ERR_ARGUMENT, "%d threads are too many (at most %d)", o->n_threads, MOST_THREADS);
    }
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

static status cache_settle(engine *e, kv_layout *l, int *n_pages, error *err) {
    const model_config *c = &e->model->config;
    if (!kv_layout_init(l, e->options.kv_type, e->options.page_size, c->n_kv_heads, c->head_dim)) {
        return error_set(err, ERR_LIMIT, "a page of %d tokens is too large", e->options.page_size);
    }
    return pages_settle(e, l, n_pages, err);
}

static status cache_prepare(engine *e, error *err) {
    kv_layout l;
    int n_pages = 0;
    status st = cache_settle(e, &l, &n_pages, err);
    return st != OK ? st : kv_cache_create(&e->cache, &l, e->model->config.n_layers, n_pages, err);
}

static void step_init(engine *e) {
    const model_config *c = &e->model->config;
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
                                     .key_split = PLAN_KEY_SPLIT};
    s->mode.int8_activations = e->options.int8_activations;
    s->plan = (execution_plan){.weights = &e->storage,
                               .kv_type = e->options.kv_type,
                               .page_size = e->options.page_size,
                               .query_tile = plan_query_tile(c->n_heads, c->n_kv_heads),
                               .key_split = PLAN_KEY_SPLIT,
                               .int8_activations = e->options.int8_activations};
    e->report.plan = &s->plan;
}

/* Starts the threads, so that no step has to. The system may give fewer than asked. */
static status crew_prepare(engine *e, error *err) {
    status st = crew_create(&e->crew, e->options.n_threads, err);
    if (st != OK) return st;
    e->options.n_threads = crew_size(e->crew);
    e->finds_team_size = e->finds_team_size && e->options.n_threads > 1;
    return OK;
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
        st = engine_memory_prepare(e, err);
    }
    if (st == OK) st = crew_prepare(e, err);
    if (st != OK) {
        engine_free(e);
        return st;
    }
    storage_prepare(e);
    *out = e;
    return OK;
}

void engine_free(engine *e) {
    if (e == NULL) return;
    crew_free(e->crew);
    kv_cache_free(e->cache);
    blas_close(e->blas);
    pages_free(e->arena, e->arena_bytes);
    pages_free(e->scratch, e->scratch_bytes);
    free(e);
}

/* An engine as far as sizes go; e->model is a stand-in that has a configuration, and rotations where a model would have them. */
static status plan_memory(engine *e, engine_memory *out, error *err) {
    kv_layout l;
    int n_pages = 0;
    status st = options_settle(e, err);
    threads_settle(e);
    if (st == OK) st = cache_settle(e, &l, &n_pages, err);
    if (st != OK) return st;
    step_init(e);
    if (engine_memory_measure(e) == 0) return error_set(err, ERR_MEMORY, "activations of a step do not fit in any memory");
    out->pool = (size_t)n_pages * l.page_bytes * (size_t)e->model->config.n_layers;
    out->tables = engine_table_bytes(n_pages);
    out->activations = e->arena_bytes;
    out->scratch = e->scratch_bytes;
    return OK;
}

status engine_memory_plan(engine_memory *out, const model_config *c, const engine_options *o, error *err) {
    float there = 0;
    engine *e = calloc(1, sizeof *e);
    model *m = calloc(1, sizeof *m);
    *out = (engine_memory){0};
    status st = e == NULL || m == NULL ? error_set(err, ERR_MEMORY, "out of memory for the plan") : OK;
    if (st == OK) {
        m->config = *c;
        if (c->position == POSITION_ROPE) m->rope_freq = &there;
        if (c->position == POSITION_ROPE && c->rope_local_base != 0) m->rope_local_freq = &there;
        e->model = m;
        e->options = *o;
        e->multiply_adds = (double)config_params(c).matrices;
        st = plan_memory(e, out, err);
    }
    free(m);
    free(e);
    return st;
}
