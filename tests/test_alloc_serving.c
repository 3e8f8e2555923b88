/* Every allocation of an engine, a scheduler and its requests is failed in turn: each time there is an error, or the right answer, and all
 * that was taken is given back. And once they are there, a step takes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler.h"
#include "tests/failing_malloc.h"

enum { N_REQUESTS = 6 };

static model *small_model(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 20, c.n_heads = 4, c.n_kv_heads = 2, c.head_dim = 6, c.d_ff = 30, c.n_vocab = 29, c.n_ctx = 64;
    c.rope_dim = 6, c.attn_scale = 0.4f;
    model_options o;
    model_options_init(&o);
    model *m = NULL;
    error e;
    if (model_random(&m, &c, 1, &o, &e) != OK) fail_msg("%s", e.message);
    return m;
}

static long long answers; /* a sum over all tokens of all completions */
static void note_done(void *user, const completion *c) {
    (void)user;
    for (int i = 0; i < c->n_ids; i++) answers = answers * 31 + c->ids[i];
}

static status submit_all(scheduler *s, error *e) {
    static const int ids[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    status st = OK;
    for (int i = 0; i < N_REQUESTS && st == OK; i++) {
        request r = {.ids = ids + i % 3, .n_ids = 5, .max_new = 6, .n_samples = i == 2 ? 2 : 1, .seed = 1};
        sampling_init(&r.sampling);
        st = scheduler_submit(s, &r, e);
    }
    return st;
}

static engine_options options_make(int n_threads) {
    engine_options o;
    engine_options_init(&o);
    o.n_threads = n_threads, o.max_sequences = 3, o.page_size = 2, o.n_pages = 9, o.prefill_chunk = 8;
    return o;
}

static status serve(const model *m, error *e) {
    engine_options o = options_make(1);
    scheduler_options so;
    scheduler_options_init(&so);
    engine *en = NULL;
    scheduler *s = NULL;
    answers = 0;
    status st = engine_create(&en, m, &o, e);
    if (st == OK) st = scheduler_create(&s, en, &so, note_done, NULL, e);
    if (st == OK) st = submit_all(s, e);
    while (st == OK && scheduler_busy(s)) st = scheduler_step(s, e);
    scheduler_free(s);
    engine_free(en);
    return st;
}

static void each_allocation_failed_in_turn_is_an_error_and_leaves_nothing(void **state) {
    (void)state;
    if (not_possible()) skip();
    model *m = small_model();
    error e;
    if (serve(m, &e) != OK) fail_msg("%s", e.message);
    long long want = answers;
    int n = 1;
    for (;; n++) {
        e = (error){0};
        counting = 1, live = 0, countdown = n;
        status st = serve(m, &e);
        long left = live, unused = countdown;
        counting = 0, countdown = 0;
        if (left != 0) fail_msg("allocation %d failed: %ld blocks were kept", n, left);
        if (unused > 0) break; /* there are fewer than n */
        if (st == OK && answers != want) fail_msg("allocation %d failed, and the answers are others", n);
        if (st != OK && (st != ERR_MEMORY || e.message[0] == '\0')) fail_msg("allocation %d: %s", n, e.message);
    }
    assert_true(n > 20);
    model_free(m);
}

static void a_step_takes_no_memory(void **state) {
    (void)state;
    if (not_possible()) skip();
    model *m = small_model();
    const int threads[] = {1, 2, 3, 0}; /* 0: found by trial */
    for (int i = 0; i < 4; i++) {
        engine_options o = options_make(threads[i]);
        o.work_per_worker = 1000; /* of a model this small: so that larger steps have more workers */
        scheduler_options so;
        scheduler_options_init(&so);
        engine *en;
        scheduler *s;
        error e;
        if (engine_create(&en, m, &o, &e) != OK) fail_msg("%s", e.message);
        if (scheduler_create(&s, en, &so, note_done, NULL, &e) != OK) fail_msg("%s", e.message);
        if (submit_all(s, &e) != OK) fail_msg("%s", e.message);
        int n_steps = 0;
        while (scheduler_busy(s)) {
            counting = 1, allocations = 0, countdown = 1; /* the first would fail */
            status st = scheduler_step(s, &e);
            long n = allocations, unused = countdown;
            counting = 0, countdown = 0;
            assert_int_equal(st, OK);
            assert_int_equal(n, 0);
            assert_int_equal(unused, 1);
            n_steps++;
        }
        assert_true(n_steps > 5);
        assert_true(scheduler_statistics(s)->n_preemptions > 0);
        scheduler_free(s);
        engine_free(en);
    }
    model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_failed_in_turn_is_an_error_and_leaves_nothing),
        cmocka_unit_test(a_step_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
