/* scheduler.c - who waits, who runs, who has to go. What a step does: scheduler_step.c. */
#include "engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "engine/scheduler_private.h"
#include "kernels/sizes.h"

int scheduler_pages_for(const scheduler *s, long long n_tokens) {
    long long size = s->cache->layout.page_size, pages = (n_tokens + size - 1) / size;
    if (s->window > 0) {
        /* A chunk's rows, and what its first row sees behind it, wherever in a page that begins. */
        long long seen = (s->window - 1 + engine_max_rows(s->engine) + size - 1) / size + 1;
        if (seen < pages) pages = seen;
    }
    return (int)pages;
}

/* The last token drawn is never read. */
static int longest_of(const scheduler *s, const request *r) {
    int n_ctx = engine_n_ctx(s->engine);
    return r->max_new < 0 || r->max_new > n_ctx - r->n_ids ? n_ctx : r->n_ids + (r->max_new > 1 ? r->max_new - 1 : 0);
}

static status request_check(const scheduler *s, const request *r, error *err) {
    const model_config *c = &engine_model(s->engine)->config;
    int n_ctx = engine_n_ctx(s->engine);
    if (r->n_ids < 1) return error_set(err, ERR_ARGUMENT, "an empty prompt (give at least one token)");
    if (r->n_ids > n_ctx) {
        return error_set(err, ERR_LIMIT, "a prompt of %d tokens does not fit the context of %d (%s)", r->n_ids, n_ctx,
                         engine_context_advice(s->engine));
    }
    for (int i = 0; i < r->n_ids; i++) {
        if (r->ids[i] >= 0 && r->ids[i] < c->n_vocab) continue;
        return error_set(err, ERR_ARGUMENT, "token id %d is not in the vocabulary (0 to %d)", r->ids[i], c->n_vocab - 1);
    }
    if (r->n_samples < 1 || r->n_samples > s->n_slots) {
        return error_set(err, ERR_LIMIT, "%d samples of a prompt run together, and at most %d sequences do (raise --parallel)",
                         r->n_samples, s->n_slots);
    }
    int longest = longest_of(s, r), pages = scheduler_pages_for(s, longest);
    if (pages > s->cache->n_pages) {
        return error_set(
            err, ERR_LIMIT,
            "a request of up to %d tokens takes %d pages of %d, and the KV cache has %d (shorten the prompt, lower "
            "-n or --ctx-size, or raise --kv-pages or --kv-mem)",
            longest, pages, s->cache->layout.page_size, s->cache->n_pages);
    }
    return sampling_check(&r->sampling, err);
}

static completion *completion_make(const scheduler *s, const request *r, int sample) {
    int room = engine_n_ctx(s->engine) + 1; /* the last token drawn has no place in the cache */
    if (r->max_new >= 0 && r->max_new < room - r->n_ids) room = r->n_ids + r->max_new;
    completion *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    *c = (completion){.user = r->user,
                      .sample = sample,
                      .ids = malloc((size_t)room * sizeof *c->ids),
                      .n_prompt = r->n_ids,
                      .n_ids = r->n_ids,
                      .max_new = r->max_new,
                      .longest = longest_of(s, r),
                      .sampling = r->sampling};
    if (c->ids == NULL) {
        free(c);
        return NULL;
    }
    memcpy(c->ids, r->ids, (size_t)r->n_ids * sizeof *c->ids);
    sample_rng_init(&c->rng, r->seed, (uint64_t)sample);
    c->bill.submitted = scheduler_now(s);
    return c;
}

/* Puts c where its age belongs. */
static void queue_insert(scheduler *s, completion *c) {
    completion **link = &s->waiting;
    while (*link != NULL && (*link)->number < c->number) link = &(*link)->next;
    // cppcheck-suppress ctunullpointer
    c->next = *link;
    *link = c;
    s->stats.n_waiting++;
}

status scheduler_submit(scheduler *s, const request *r, error *err) {
    status st = request_check(s, r, err);
    if (st != OK) return st;
    completion *first = NULL, **link = &first;
    for (int i = 0; i < r->n_samples; i++, link = &(*link)->follower) {
        *link = completion_make(s, r, i);
        if (*link == NULL) {
            scheduler_completion_free(first);
            return error_set(err, ERR_MEMORY, "out of memory for a request of %d tokens", r->n_ids);
        }
        (*link)->number = s->n_submitted++;
    }
    /* request_check: n_samples is at least 1 */
    // cppcheck-suppress nullPointer
    first->n_followers = r->n_samples - 1;
    queue_insert(s, first);
    return OK;
}

void scheduler_join(scheduler *s, completion *c) {
    int at = s->n_running++;
    s->sorted[at] = c;
    for (; at > 0 && s->running[at - 1]->number > c->number; at--) s->running[at] = s->running[at - 1];
    s->running[at] = c;
    c->kv = s->idle[--s->n_idle];
    s->n_expected += c->n_followers;
}

static void list_remove(completion **list, int n, const completion *c) {
    int at = 0;
    while (list[at] != c) at++;
    memmove(list + at, list + at + 1, (size_t)(n - at - 1) * sizeof *list);
}

/* c's sequence is idle again, and c is nowhere. */
static void leave(scheduler *s, completion *c) {
    list_remove(s->running, s->n_running, c);
    list_remove(s->sorted, s->n_running, c);
    s->n_running--;
    kv_sequence_truncate(c->kv, 0, s->cache);
    s->idle[s->n_idle++] = c->kv;
    c->kv = NULL;
    c->mark = (prefix_mark){0};
    c->n_new = 0;
    s->n_expected -= c->n_followers;
}

void scheduler_preempt(scheduler *s, completion *c) {
    leave(s, c);
    queue_insert(s, c);
    c->bill.n_preempted++;
    s->stats.n_preemptions++;
}

void scheduler_finish(scheduler *s, completion *c, finish_reason why) {
    c->finish = why;
    c->bill.finished = scheduler_now(s);
    leave(s, c);
    s->stats.n_done++;
    s->stats.n_failed += why == FINISH_FAILED;
    s->stats.n_recomputed += c->bill.n_recomputed;
    s->stats.n_reused += c->bill.n_reused;
    s->stats.flops_reused += c->bill.flops_reused;
    s->stats.kv_bytes_reused += c->bill.kv_bytes_reused;
    if (s->done != NULL) s->done(s->user, c);
    scheduler_completion_free(c);
}

void scheduler_adopt(scheduler *s, completion *c) {
    if (s->prefix == NULL) return;
    prefix_cache_adopt(s->prefix, c->kv, &c->mark, c->ids, c->n_ids);
    if (s->window > 0) kv_sequence_drop_before(c->kv, c->kv->n_tokens - s->window + 1, s->cache);
}

/* Pages that c will still take for the tokens it has, and one to go on with where it may need it. */
static int pages_owed(const scheduler *s, const completion *c) {
    int held = c->kv->n_pages - c->kv->n_dropped, now = scheduler_pages_for(s, c->n_ids);
    if (scheduler_pages_for(s, c->longest) > (now > held ? now : held)) now = (now > held ? now : held) + 1;
    return now > held ? now - held : 0;
}

/* The oldest that waits comes in when its pages fit beside those that the others already need: else it would soon be the youngest that has
 * to go. Alone it always comes in. */
static bool admit_one(scheduler *s) {
    completion *c = s->waiting;
    if (c == NULL || s->n_running + s->n_expected + 1 + c->n_followers > s->n_slots) return false;
    scheduler_join(s, c);
    scheduler_adopt(s, c);
    long long owed = 0;
    for (int i = 0; i < s->n_running; i++) owed += pages_owed(s, s->running[i]);
    if (s->n_running > 1 && owed > s->cache->n_free) {
        leave(s, c);
        return false;
    }
    s->waiting = c->next;
    s->stats.n_waiting--;
    if (c->bill.n_preempted == 0) c->bill.admitted = scheduler_now(s);
    return true;
}

void scheduler_admit(scheduler *s) {
    while (admit_one(s)) {}
}
