#include "tests/counting_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "tests/kernel_sets.h"

static void room_for(counting_case *k, size_t more) {
    if (k->n_logits + more <= k->room) return;
    k->room = 2 * k->room + more;
    k->logits = realloc(k->logits, k->room * sizeof *k->logits);
    assert_non_null(k->logits);
}

static void compare_counts(counting_case *k, const term_counts *predicted, const term_counts *counted) {
    for (int i = 0; i < N_TERMS; i++) {
        uint64_t p = predicted->n[i], c = counted->n[i], r = k->last.n[i];
        k->sums[i] += r;
        if (p == c && c == r) continue;
        if (k->n_differ++ < 10)
            print_message("%s, step %d, %s: predicted %llu, counted %llu, reference %llu\n", k->name, k->n_steps,
                          term_table[i].key, (unsigned long long)p, (unsigned long long)c, (unsigned long long)r);
    }
}

/* The step's observer: runs it again in the reference, and lays the three side by side. */
static void observe(void *user, const step_report *r) {
    counting_case *k = user;
    const execution_plan *p = r->plan;
    term_counts predicted;
    size_t rows = 0;
    int shared = 0;
    for (int i = 0; i < p->n_sequences; i++) {
        rows += (size_t)p->sequences[i].n_logit_rows;
        if (p->sequences[i].group >= 0 && p->sequences[i].n_shared > shared) shared = p->sequences[i].n_shared;
    }
    room_for(k, rows * (size_t)k->m->config.n_vocab);
    counting_step(&k->last, k->logits + k->n_logits, k->m, p, k->order);
    k->n_logits += rows * (size_t)k->m->config.n_vocab;
    cost_predict(&predicted, &k->m->config, p);
    compare_counts(k, &predicted, &r->counted);
    k->n_steps++;
    k->n_grouped += shared > 0;
    if (shared > k->n_shared_tokens) k->n_shared_tokens = shared;
}

void counting_case_open(counting_case *k, const char *name, const model *m, const engine_options *o, int n) {
    error e = {0};
    *k = (counting_case){.m = m, .name = name, .n = n, .tolerance = 1e-4};
    engine_options busy = *o;
    busy.max_sequences = n;
    busy.work_per_worker = 1; /* every thread works in every step, however small */
    if (engine_create(&k->e, m, &busy, &e) != OK) fail_msg("%s: %s", name, e.message);
    engine_observe(k->e, observe, k);
    for (int b = 0; b < n; b++) {
        assert_int_equal(kv_sequence_create(&k->kv[b], engine_cache(k->e), engine_n_ctx(k->e), &e), OK);
        counting_sequence_init(&k->seqs[b], m, engine_n_ctx(k->e));
    }
}

void counting_case_close(counting_case *k) {
    for (int b = 0; b < k->n; b++) {
        kv_sequence_free(k->kv[b], engine_cache(k->e));
        counting_sequence_free(&k->seqs[b]);
    }
    engine_free(k->e);
    free(k->logits);
}

void counting_draw(counting_case *k, int b, int n, uint64_t *state) {
    counting_sequence *s = &k->seqs[b];
    for (int i = 0; i < n; i++) s->ids[s->n_tokens + i] = random_below(state, k->m->config.n_vocab);
}

/* The engine's logits are the reference's: the operations that were counted are those of the model. */
static void compare_logits(counting_case *k, float *logits, size_t n_rows) {
    size_t n = n_rows * (size_t)k->m->config.n_vocab;
    double largest = 0, worst = 0;
    assert_int_equal(k->n_logits, n);
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(k->logits[i]));
        worst = fmax(worst, fabs(k->logits[i] - (double)logits[i]));
    }
    if (!(worst <= k->tolerance * largest)) fail_msg("%s: a logit of at most %g is off by %g", k->name, largest, worst);
    k->n_logits = 0;
    free(logits);
}

static float *logits_for(const counting_case *k, size_t n_rows) {
    float *logits = malloc((n_rows * (size_t)k->m->config.n_vocab + 1) * sizeof *logits);
    assert_non_null(logits);
    return logits;
}

void counting_prefill(counting_case *k, int b, int n, int logit_rows, uint64_t *state) {
    error e = {0};
    float *logits = logits_for(k, (size_t)logit_rows);
    counting_draw(k, b, n, state);
    k->order[0] = &k->seqs[b];
    const int *ids = k->seqs[b].ids + k->seqs[b].n_tokens;
    if (engine_prefill(k->e, k->kv[b], ids, n, logit_rows, logits, &e) != OK) fail_msg("%s: %s", k->name, e.message);
    compare_logits(k, logits, (size_t)logit_rows);
}

void counting_decode(counting_case *k, int first, int n, uint64_t *state) {
    error e = {0};
    int ids[MOST_SEQUENCES];
    float *logits = logits_for(k, (size_t)n);
    for (int i = 0; i < n; i++) {
        counting_draw(k, first + i, 1, state);
        k->order[i] = &k->seqs[first + i];
        ids[i] = k->order[i]->ids[k->order[i]->n_tokens];
    }
    if (engine_decode(k->e, k->kv + first, ids, n, logits, &e) != OK) fail_msg("%s: %s", k->name, e.message);
    compare_logits(k, logits, (size_t)n);
}

void counting_mixed(counting_case *k, const int *n_new, const int *n_logit_rows, uint64_t *state) {
    error e = {0};
    step_sequence q[MOST_SEQUENCES];
    size_t rows = 0;
    for (int b = 0; b < k->n; b++) {
        counting_draw(k, b, n_new[b], state);
        k->order[b] = &k->seqs[b];
        q[b] = (step_sequence){
            .kv = k->kv[b], .ids = k->seqs[b].ids + k->seqs[b].n_tokens, .n_new = n_new[b], .n_logit_rows = n_logit_rows[b]};
        rows += (size_t)n_logit_rows[b];
    }
    float *logits = logits_for(k, rows);
    if (engine_step(k->e, q, k->n, logits, &e) != OK) fail_msg("%s: %s", k->name, e.message);
    compare_logits(k, logits, rows);
}

void counting_fork(counting_case *k, int to, int from) {
    kv_sequence_fork(k->kv[to], k->kv[from], engine_cache(k->e));
    counting_sequence_copy(&k->seqs[to], &k->seqs[from], k->seqs[from].n_tokens, k->m);
}

/* Lengths one before, at and one after an edge of a page or of a query tile. */
static int draw_length(uint64_t *state, int page_size, int most) {
    int edges[] = {page_size, 2 * page_size, 3 * page_size, 16, 32, 48};
    int n = edges[random_below(state, 6)] - 1 + random_below(state, 3);
    return n < 1 ? 1 : n > most ? most : n;
}

void counting_exercise(counting_case *k, uint64_t *state) {
    int B = k->n, n_ctx = engine_n_ctx(k->e), mixed = n_ctx < 40 ? B : B > 8 ? B : 8, steps = 3;
    int n_new[MOST_SEQUENCES], n_rows[MOST_SEQUENCES], page = engine_cache(k->e)->layout.page_size;
    for (int b = 0; b < B; b++) {
        int n = draw_length(state, page, n_ctx - steps - (mixed - B + 1)), rows[] = {0, 1, n};
        if (b > 0 && random_below(state, 2) == 0) {
            counting_fork(k, b, b - 1);
        } else {
            counting_prefill(k, b, n, rows[random_below(state, 3)], state);
        }
    }
    for (int i = 0; i < steps; i++) counting_decode(k, 0, B, state);
    for (int b = 0, left = mixed; b < B; b++) {
        int most = left - (B - 1 - b);
        n_new[b] = 1 + random_below(state, most);
        n_rows[b] = (const int[]){0, 1, n_new[b]}[random_below(state, 3)];
        left -= n_new[b];
    }
    counting_mixed(k, n_new, n_rows, state);
}
