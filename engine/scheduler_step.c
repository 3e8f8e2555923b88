/* scheduler_step.c - one step: who gets how many rows, the step itself, and what each sequence makes of its logits. */
#include <string.h>

#include "engine/scheduler_private.h"

/* Tokens that are not in the cache: 1 where the last one drawn waits to be computed. */
static int n_left(const completion *c) {
    return c->n_ids - c->kv->n_tokens;
}

/* Will an older prompt of this step fill the very page that c needs next? Then c waits a step, and finds it in the prefix cache. */
static bool block_is_coming(const scheduler *s, const completion *c, int at) {
    int end = c->kv->n_tokens + s->cache->layout.page_size;
    if (s->prefix == NULL || c->mark.n_blocks * s->cache->layout.page_size != c->kv->n_tokens || end >= c->n_ids) return false;
    for (int i = 0; i < at; i++) {
        const completion *o = s->running[i];
        if (o->n_new > 0 && o->kv->n_tokens < end && o->kv->n_tokens + o->n_new >= end &&
            memcmp(o->ids, c->ids, (size_t)end * sizeof *c->ids) == 0) {
            return true;
        }
    }
    return false;
}

/* Rows of the i-th running completion, a prompt, when n_budget are left for prompts. */
static int prompt_rows(scheduler *s, int i, int n_budget) {
    completion *c = s->running[i];
    scheduler_adopt(s, c);
    if (block_is_coming(s, c, i)) return 0;
    return n_left(c) < n_budget ? n_left(c) : n_budget;
}

/* Takes the pages for c's rows; where there are too few, the youngest give theirs back. False: c was the youngest, and waits again. Alone it
 * fits: request_check. */
static bool pages_take_for(scheduler *s, completion *c) {
    while (kv_sequence_pages_needed(c->kv, c->n_new, s->cache) > s->cache->n_free && s->n_running > 1) {
        completion *youngest = s->running[s->n_running - 1];
        scheduler_preempt(s, youngest);
        if (youngest == c) return false;
    }
    kv_sequence_reserve(c->kv, c->n_new, s->cache, NULL); /* engine_step does the same, and finds it done or says why not */
    return true;
}

/* Gives rows and pages to all that run, oldest first. A row for each of those that generate is kept free, and prompts get what is left: one
 * at least, as they are among the at most prefill_chunk sequences. */
static void rows_share(scheduler *s) {
    int n_budget = engine_max_rows(s->engine);
    for (int i = 0; i < s->n_running; i++) {
        s->running[i]->n_new = 0;
        n_budget -= n_left(s->running[i]) == 1;
    }
    for (int i = 0; i < s->n_running; i++) {
        completion *c = s->running[i];
        if (n_left(c) == 1) {
            c->n_new = 1;
        } else {
            n_budget -= c->n_new = prompt_rows(s, i, n_budget);
        }
        if (c->n_new > 0 && !pages_take_for(s, c)) return;
    }
}

/* By page table, entry by entry; then by age. */
static bool comes_before(const completion *x, const completion *y) {
    int n = x->kv->n_pages < y->kv->n_pages ? x->kv->n_pages : y->kv->n_pages;
    for (int i = 0; i < n; i++) {
        if (x->kv->pages[i] != y->kv->pages[i]) return x->kv->pages[i] < y->kv->pages[i];
    }
    return x->number < y->number;
}

/* Puts those that share pages side by side, so that they read them together (step.c). From step to step little changes, and insertion is
 * quick where little has to move; where nobody shares a first page any order will do. */
static void sharers_join(scheduler *s) {
    bool sharing = false;
    for (int i = 0; i < s->n_running && !sharing; i++) {
        const kv_sequence *kv = s->running[i]->kv;
        sharing = kv->n_pages > 0 && kv->pages[0] >= 0 && s->cache->n_refs[kv->pages[0]] > 1;
    }
    for (int i = 1; i < s->n_running && sharing; i++) {
        completion *c = s->sorted[i];
        int at = i;
        for (; at > 0 && comes_before(c, s->sorted[at - 1]); at--) s->sorted[at] = s->sorted[at - 1];
        s->sorted[at] = c;
    }
}

/* Rows of one token first, then the chunks of prompts. Returns how many take part. */
static int order_make(scheduler *s) {
    int n = 0;
    sharers_join(s);
    for (int i = 0; i < s->n_running; i++) {
        if (s->sorted[i]->n_new == 1) s->order[n++] = s->sorted[i];
    }
    for (int i = 0; i < s->n_running; i++) {
        if (s->running[i]->n_new > 1) s->order[n++] = s->running[i];
    }
    return n;
}

static void parts_make(scheduler *s, int n) {
    for (int i = 0; i < n; i++) {
        completion *c = s->order[i];
        s->parts[i] = (step_sequence){
            .kv = c->kv, .ids = c->ids + c->kv->n_tokens, .n_new = c->n_new, .n_logit_rows = c->n_new == n_left(c)};
    }
}

/* What tokens [from, to), which it got without computing them, would have taken. */
static void reused_add(scheduler *s, completion *c, int from, int to) {
    execution_plan plan = *engine_last_report(s->engine)->plan;
    plan_sequence q = {.n_cached = from, .n_new = to - from, .group = -1};
    plan.n_sequences = 1;
    plan.sequences = &q;
    term_counts t;
    cost_own(&t, &s->shares, &plan, 0);
    c->bill.n_reused += to - from;
    c->bill.flops_reused += term_flops_sum(&t);
    c->bill.kv_bytes_reused += term_class_sum(&t, CLASS_KV_BYTES);
}

/* Adds the step to the bills of those who were in it, whose tables have not changed since. */
static void bills_add(scheduler *s, int n) {
    const step_report *r = engine_last_report(s->engine);
    if (!s->shares_ready) cost_shares_init(&s->shares, &engine_model(s->engine)->config, r->plan);
    s->shares_ready = true;
    cost_divide(s->costs, &s->shares, r->plan, &r->counted);
    for (int i = 0; i < n; i++) {
        completion *c = s->order[i];
        int first = c->kv->n_tokens - c->n_new;
        bool generates = c->n_new == 1 && c->n_ids == c->kv->n_tokens && c->n_ids > c->n_prompt;
        if (first > c->n_done) reused_add(s, c, c->n_done, first);
        c->bill.n_steps++;
        term_counts_add(generates ? &c->bill.decode : &c->bill.prefill, &s->costs[i]);
        c->bill.n_computed += c->n_new;
        if (first < c->n_done) c->bill.n_recomputed += (c->kv->n_tokens < c->n_done ? c->kv->n_tokens : c->n_done) - first;
        if (c->n_done < c->kv->n_tokens) c->n_done = c->kv->n_tokens;
        s->stats.n_rows += c->n_new;
    }
    s->stats.n_steps++;
    term_counts_add(&s->stats.counted, &r->counted);
    s->stats.bytes_spared += cost_bytes_spared(&s->shares, r->plan);
}

static void pages_note(scheduler *s, completion *c) {
    int n = c->kv->n_pages - c->kv->n_dropped, shared = 0;
    if (n <= c->bill.n_pages) return;
    for (int i = c->kv->n_dropped; i < c->kv->n_pages; i++) shared += s->cache->n_refs[c->kv->pages[i]] > 1;
    c->bill.n_pages = n;
    c->bill.n_pages_shared = shared;
}

static void pool_note(scheduler *s) {
    if (s->cache->n_pages - s->cache->n_free <= s->stats.peak.n_held) return;
    kv_cache_usage(s->cache, s->all, s->n_slots, s->fill, &s->stats.peak);
}

/* The next token of c. Does c go on? */
static bool token_draw(scheduler *s, completion *c, float *logits, finish_reason *why) {
    *why = FINISH_LENGTH;
    if (c->n_ids - c->n_prompt >= c->max_new && c->max_new >= 0) return false; /* none was asked for */
    int id = sample_token(logits, &c->sampling, c->ids, c->n_ids, &c->rng, &s->scratch);
    if (c->n_ids == c->n_prompt) c->bill.first_token = scheduler_now(s);
    *why = FINISH_END;
    if (s->options.is_end != NULL && s->options.is_end(s->options.is_end_user, id)) return false;
    c->ids[c->n_ids++] = id;
    s->stats.n_generated++;
    *why = FINISH_LENGTH;
    if (c->max_new >= 0 && c->n_ids - c->n_prompt >= c->max_new) return false;
    *why = FINISH_CONTEXT;
    return c->kv->n_tokens < engine_n_ctx(s->engine);
}

static void completion_go_on(scheduler *s, completion *c, float *logits) {
    finish_reason why;
    if (!token_draw(s, c, logits, &why)) scheduler_finish(s, c, why);
}

/* Takes the samples that wait for c's prompt; the first of them, each the next one's. */
static completion *followers_take(scheduler *s, completion *c) {
    completion *first = c->follower;
    s->n_expected -= c->n_followers;
    c->n_followers = 0;
    c->follower = NULL;
    return first;
}

/* The prompt is done: its other samples begin, from the same pages and the same logits. */
static void followers_start(scheduler *s, completion *c, const float *logits) {
    size_t n_vocab = (size_t)engine_model(s->engine)->config.n_vocab;
    for (completion *f = followers_take(s, c), *next; f != NULL; f = next) {
        next = f->follower;
        f->follower = NULL;
        scheduler_join(s, f);
        kv_sequence_fork(f->kv, c->kv, s->cache);
        f->mark = c->mark;
        f->n_done = c->kv->n_tokens;
        f->bill.admitted = c->bill.admitted;
        reused_add(s, f, 0, c->kv->n_tokens);
        pages_note(s, f);
        memcpy(s->row, logits, n_vocab * sizeof *logits);
        completion_go_on(s, f, s->row);
    }
}

/* What c computed is not finite: it ends, and with it the samples that wait for its prompt. Its pages are not offered to anybody: a key among
 * them may be infinite, and a later prompt that began alike would not find that out. */
static void part_fail(scheduler *s, completion *c, const step_sequence *q) {
    error e;
    step_not_finite(q, -1, &e);
    for (completion *f = followers_take(s, c), *next; f != NULL; f = next) {
        next = f->follower;
        f->follower = NULL;
        scheduler_join(s, f);
        f->error = e;
        f->bill.admitted = c->bill.admitted;
        scheduler_finish(s, f, FINISH_FAILED);
    }
    c->error = e;
    scheduler_finish(s, c, FINISH_FAILED);
}

/* What one sequence makes of the step: pages become known, those behind the window go, a token is drawn. */
static void part_finish(scheduler *s, completion *c, const step_sequence *q, float *logits) {
    pages_note(s, c);
    if (!q->finite) {
        part_fail(s, c, q);
        return;
    }
    if (s->prefix != NULL) prefix_cache_offer(s->prefix, c->kv, &c->mark, c->ids);
    if (s->window > 0) kv_sequence_drop_before(c->kv, c->kv->n_tokens - s->window + 1, s->cache);
    if (q->n_logit_rows == 0) return;
    if (c->n_followers > 0) followers_start(s, c, logits);
    completion_go_on(s, c, logits);
}

status scheduler_step(scheduler *s, error *err) {
    double start = scheduler_now(s);
    scheduler_admit(s);
    rows_share(s);
    int n = order_make(s);
    if (n == 0) return OK;
    parts_make(s, n);
    status st = engine_step(s->engine, s->parts, n, s->logits, err);
    if (st != OK) return st;
    bills_add(s, n);
    pool_note(s);
    float *logits = s->logits;
    for (int i = 0; i < n; i++) {
        int n_rows = s->parts[i].n_logit_rows;
        part_finish(s, s->order[i], &s->parts[i], logits);
        logits += (size_t)n_rows * (size_t)engine_model(s->engine)->config.n_vocab;
    }
    s->stats.seconds += scheduler_now(s) - start;
    return OK;
}
