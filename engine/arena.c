/* arena.c - the memory of a step: every array sized once, when the engine is created, so that a step allocates nothing. */
#include "engine/engine_private.h"

#include <math.h>

#include "kernels/memory.h"
#include "kernels/sizes.h"

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
    s->stored = carve(c, rows, sizeof *s->stored);
    s->logit_rows = carve(c, rows, sizeof *s->logit_rows);
    s->views = carve(c, seqs, sizeof *s->views);
    s->page_pointers = carve(c, pages, sizeof *s->page_pointers);
    s->first_page_pointer = carve(c, seqs, sizeof *s->first_page_pointer);
    s->tasks.tasks = carve(c, rows, sizeof *s->tasks.tasks);
    s->windowed_tasks.tasks = carve(c, rows, sizeof *s->windowed_tasks.tasks);
    s->x = carve(c, rows * d, sizeof(float));
    s->n = carve(c, rows * d, sizeof(float));
    s->n_ffn = m->parallel_residual ? carve(c, rows * d, sizeof(float)) : NULL;
    /* A block is done with q, k, v and o before its feed-forward begins: h takes their place. */
    size_t attention_begin = c->used;
    s->q = carve(c, rows * q_dim, sizeof(float));
    s->o = carve(c, rows * q_dim, sizeof(float));
    s->k = carve(c, rows * kv_dim, sizeof(float));
    s->v = carve(c, rows * kv_dim, sizeof(float));
    size_t attention_end = c->used;
    c->used = attention_begin;
    s->h = carve(c, rows * (size_t)m->d_ff, sizeof(float));
    if (c->used < attention_end) c->used = attention_end;
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

/* Press et al. 2022: slopes 2^(-8/n), 2^(-16/n), ... for n heads, n a power of two; else those of the next lower power, and then every other
 * one of the next higher. */
static void alibi_slopes(float *out, int n_heads) {
    int n = 1;
    while (n * 2 <= n_heads) n *= 2;
    for (int h = 0; h < n_heads; h++) {
        out[h] = (float)(h < n ? exp2(-8.0 * (h + 1) / n) : exp2(-4.0 * (2 * (h - n) + 1) / n));
    }
}

size_t engine_memory_measure(engine *e) {
    const step *s = &e->step;
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
    return measure.overflow ? 0 : each;
}

status engine_memory_prepare(engine *e, error *err) {
    step *s = &e->step;
    const engine_options *o = &e->options;
    size_t each = engine_memory_measure(e);
    if (each > 0) {
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
