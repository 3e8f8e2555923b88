/* scheduler_setup.c - what a scheduler is made of, and whether it is whole. */
#include <stdlib.h>

#include "engine/scheduler_private.h"
#include "kernels/clock.h"
#include "kernels/sizes.h"

const char *const finish_words[N_FINISH] = {
#define FINISH_NAME(id, words) words,
    FINISH_LIST(FINISH_NAME)
#undef FINISH_NAME
};

void scheduler_options_init(scheduler_options *o) {
    *o = (scheduler_options){.prefix_cache = true, .prefix_hash_mask = UINT64_MAX};
}

double scheduler_now(const scheduler *s) {
    if (s->options.clock != NULL) return s->options.clock(s->options.clock_user);
    return clock_seconds();
}

/* The window that all layers have, or 0: pages can be given back only when no layer will read them again. */
static int common_window(const model_config *c) {
    for (int il = 0; il < c->n_layers; il++) {
        if (!c->layer_windowed[il]) return 0;
    }
    return c->window;
}

static status arrays_take(scheduler *s, error *err) {
    size_t n = (size_t)s->n_slots, n_vocab = (size_t)engine_model(s->engine)->config.n_vocab, bytes;
    s->running = calloc(n, sizeof *s->running);
    s->sorted = calloc(n, sizeof *s->sorted);
    s->order = calloc(n, sizeof *s->order);
    s->parts = calloc(n, sizeof *s->parts);
    s->costs = calloc(n, sizeof *s->costs);
    s->idle = calloc(n, sizeof *s->idle);
    s->all = calloc(n, sizeof *s->all);
    s->fill = calloc((size_t)s->cache->n_pages, sizeof *s->fill);
    s->row = calloc(n_vocab, sizeof *s->row);
    s->logits = size_mul(n, n_vocab, &bytes) ? calloc(bytes, sizeof *s->logits) : NULL;
    if (!s->running || !s->sorted || !s->order || !s->parts || !s->costs || !s->idle || !s->all || !s->fill || !s->row ||
        !s->logits) {
        return error_set(err, ERR_MEMORY, "out of memory for %d sequences at once (lower --parallel)", s->n_slots);
    }
    for (int i = 0; i < s->n_slots; i++, s->n_idle++) {
        status st = kv_sequence_create(&s->idle[i], s->cache, engine_n_ctx(s->engine), err);
        if (st != OK) return st;
        s->all[i] = s->idle[i];
    }
    return sample_scratch_create(&s->scratch, (int)n_vocab, s->options.n_allowed > 0 ? s->options.n_allowed : (int)n_vocab,
                                 err);
}

status scheduler_create(scheduler **out, engine *e, const scheduler_options *o, completion_done done, void *user, error *err) {
    *out = NULL;
    scheduler *s = calloc(1, sizeof *s);
    if (s == NULL) return error_set(err, ERR_MEMORY, "out of memory for the scheduler");
    *s = (scheduler){.engine = e, .cache = engine_cache(e), .options = *o, .done = done, .user = user};
    s->n_slots = engine_max_sequences(e);
    s->window = common_window(&engine_model(e)->config);
    status st = arrays_take(s, err);
    if (st == OK && o->prefix_cache) st = prefix_cache_create(&s->prefix, s->cache, o->prefix_hash_mask, err);
    if (st != OK) {
        scheduler_free(s);
        return st;
    }
    *out = s;
    return OK;
}

void scheduler_completion_free(completion *c) {
    for (completion *next; c != NULL; c = next) {
        next = c->follower;
        free(c->ids);
        free(c);
    }
}

void scheduler_free(scheduler *s) {
    if (s == NULL) return;
    for (int i = 0; i < s->n_running; i++) scheduler_completion_free(s->running[i]);
    for (completion *c = s->waiting, *next; c != NULL; c = next) {
        next = c->next;
        scheduler_completion_free(c);
    }
    for (int i = 0; s->all != NULL && i < s->n_slots; i++) kv_sequence_free(s->all[i], s->cache);
    prefix_cache_free(s->prefix);
    sample_scratch_free(&s->scratch);
    free(s->running);
    free(s->sorted);
    free(s->order);
    free(s->parts);
    free(s->costs);
    free(s->idle);
    free(s->all);
    free(s->fill);
    free(s->row);
    free(s->logits);
    free(s);
}

bool scheduler_busy(const scheduler *s) {
    return s->waiting != NULL || s->n_running > 0;
}

size_t scheduler_memory_use(const scheduler *s) {
    size_t n_vocab = (size_t)engine_model(s->engine)->config.n_vocab, n_ctx = (size_t)engine_n_ctx(s->engine);
    size_t table = sizeof(kv_sequence) + ceil_div(n_ctx, (size_t)s->cache->layout.page_size) * sizeof(int);
    size_t slot = 3 * sizeof(completion *) + 2 * sizeof(kv_sequence *) + sizeof *s->parts + sizeof *s->costs + table;
    size_t bytes = sizeof *s + (size_t)s->n_slots * (slot + n_vocab * sizeof *s->logits);
    bytes += n_vocab * (sizeof *s->row + sizeof *s->scratch.order + sizeof *s->scratch.p);
    bytes += (size_t)s->cache->n_pages * sizeof *s->fill;
    return bytes + (s->prefix != NULL ? prefix_cache_memory_use(s->prefix) : 0);
}

const scheduler_stats *scheduler_statistics(scheduler *s) {
    s->stats.n_running = s->n_running;
    return &s->stats;
}

status scheduler_check(const scheduler *s, error *err) {
    int expected = 0, waiting = 0;
    for (int i = 0; i < s->n_running; i++) {
        expected += s->running[i]->n_followers;
        if (i > 0 && s->running[i - 1]->number >= s->running[i]->number) {
            return error_set(err, ERR_MISMATCH, "running completions are not in the order of their age");
        }
    }
    for (const completion *c = s->waiting; c != NULL; c = c->next, waiting++) {
        if (c->kv != NULL || (c->next != NULL && c->next->number <= c->number)) {
            return error_set(err, ERR_MISMATCH, "waiting completions hold pages, or are not in the order of their age");
        }
    }
    if (expected != s->n_expected || waiting != s->stats.n_waiting || s->n_running + s->n_idle != s->n_slots ||
        s->n_running + expected > s->n_slots) {
        return error_set(err, ERR_MISMATCH, "%d run, %d are expected (%d), %d wait (%d), %d sequences of %d are idle",
                         s->n_running, expected, s->n_expected, waiting, s->stats.n_waiting, s->n_idle, s->n_slots);
    }
    status st = kv_cache_check(s->cache, s->all, s->n_slots, err);
    return st == OK && s->prefix != NULL ? prefix_cache_check(s->prefix, err) : st;
}
