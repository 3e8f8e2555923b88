/* test_engine.c - the engine on random models: the same bits however the work is cut, and counts that agree with the prediction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "engine/engine.h"
#include "kernels/processors.h"

/* Every dimension different, so that none hides behind another. */
static model_config small_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 40, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 53, c.n_vocab = 71,
    c.n_ctx = 700;
    c.rope_dim = 10, c.rope_base = 10000, c.attn_scale = 0.31f;
    return c;
}

static model *small_model(const model_config *c, uint64_t seed) {
    model_options o;
    model_options_init(&o);
    model *m;
    error err = {0};
    if (model_random(&m, c, seed, &o, &err) != OK) fail_msg("%s", err.message);
    return m;
}

typedef struct {
    uint64_t steps, mismatches;
    const model_config *c;
} check;

static void compare(void *user, const step_report *r) {
    check *k = user;
    term_counts predicted;
    cost_predict(&predicted, k->c, r->plan);
    k->steps++;
    for (int i = 0; i < N_TERMS; i++) {
        if (predicted.n[i] == r->counted.n[i]) continue;
        k->mismatches++;
        print_message("%s: predicted %llu, counted %llu\n", term_table[i].key, (unsigned long long)predicted.n[i],
                      (unsigned long long)r->counted.n[i]);
    }
}

/* Logits of all n positions of one prompt, chunk rows at a time. */
static float *run(const model *m, const engine_options *o, const int *ids, int n, check *k) {
    engine *e;
    error err = {0};
    engine_options busy = *o;
    busy.work_per_worker = 1; /* every thread works in every step, however small */
    if (engine_create(&e, m, &busy, &err) != OK) fail_msg("%s", err.message);
    engine_observe(e, compare, k);
    kv_sequence *s;
    assert_int_equal(kv_sequence_create(&s, engine_cache(e), engine_n_ctx(e), &err), OK);
    float *logits = malloc((size_t)n * (size_t)m->config.n_vocab * sizeof *logits);
    assert_non_null(logits);
    if (engine_prefill(e, s, ids, n, n, logits, &err) != OK) fail_msg("%s", err.message);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
    return logits;
}

static void logits_are_the_same_bits_for_any_chunk_page_and_thread_count(void **state) {
    (void)state;
    model_config c = small_config();
    model_options mo;
    model_options_init(&mo);
    dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    enum { N = 300 };
    int ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 11) % c.n_vocab;
    for (int t = 0; t < 3; t++) {
        mo.weights = (int)types[t];
        model *m;
        error err = {0};
        if (model_random(&m, &c, 7, &mo, &err) != OK) fail_msg("%s", err.message);
        for (int kt = 0; kt < 3; kt++) {
            engine_options o;
            engine_options_init(&o);
            o.kv_type = types[kt];
            o.n_threads = 1;
            check k = {.c = &c};
            float *whole = run(m, &o, ids, N, &k);
            const int chunks[] = {1, 3, 16, 100}, pages[] = {1, 2, 4, 16, 24}, threads[] = {1, 2, 3};
            for (int i = 0; i < 5; i++) {
                o.prefill_chunk = chunks[i % 4];
                o.page_size = pages[i];
                o.n_threads = threads[i % 3];
                float *other = run(m, &o, ids, N, &k);
                assert_memory_equal(whole, other, (size_t)N * (size_t)c.n_vocab * sizeof *whole);
                free(other);
            }
            assert_true(k.steps > 300);
            assert_int_equal(k.mismatches, 0);
            free(whole);
        }
        model_free(m);
    }
}

/* A sequence's whole life: its prompt through prefill, then fixed tokens one at a time. */
enum { STEPS = 20, MOST = 8 };

static engine *engine_make(const model *m, int page_size, int n_threads, check *k) {
    engine_options o;
    engine *e;
    error err = {0};
    engine_options_init(&o);
    o.page_size = page_size;
    o.n_threads = n_threads;
    o.max_sequences = MOST;
    o.work_per_worker = 1;
    if (engine_create(&e, m, &o, &err) != OK) fail_msg("%s", err.message);
    engine_observe(e, compare, k);
    return e;
}

static kv_sequence *sequence_make(engine *e) {
    kv_sequence *s;
    error err = {0};
    if (kv_sequence_create(&s, engine_cache(e), engine_n_ctx(e), &err) != OK) fail_msg("%s", err.message);
    return s;
}

static int prompt_token(int seq, int i, int n_vocab) {
    return (seq * 31 + i * 7 + 5) % n_vocab;
}
static int prompt_length(int seq) {
    return 1 + seq * 7 % 40;
}

/* Logits of every decode step of sequence `seq` run alone: [STEPS, n_vocab]. */
static void run_alone(engine *e, int seq, float *logits) {
    int V = engine_model(e)->config.n_vocab, n = prompt_length(seq), ids[64];
    error err = {0};
    kv_sequence *s = sequence_make(e);
    for (int i = 0; i < n; i++) ids[i] = prompt_token(seq, i, V);
    if (engine_prefill(e, s, ids, n, 0, NULL, &err) != OK) fail_msg("%s", err.message);
    for (int i = 0; i < STEPS; i++) {
        int id = (seq + i) % V;
        if (engine_decode(e, &s, &id, 1, logits + (size_t)i * (size_t)V, &err) != OK) fail_msg("%s", err.message);
    }
    kv_sequence_free(s, engine_cache(e));
}

/* The same for B sequences together, in the order given. logits[seq]: [STEPS, n_vocab]. */
static void run_batch(engine *e, const int *order, int B, float *logits[MOST]) {
    int V = engine_model(e)->config.n_vocab, ids[64];
    kv_sequence *s[MOST];
    float *rows = malloc((size_t)B * (size_t)V * sizeof *rows);
    error err = {0};
    assert_non_null(rows);
    for (int b = 0; b < B; b++) {
        int n = prompt_length(order[b]);
        s[b] = sequence_make(e);
        for (int i = 0; i < n; i++) ids[i] = prompt_token(order[b], i, V);
        if (engine_prefill(e, s[b], ids, n, 0, NULL, &err) != OK) fail_msg("%s", err.message);
    }
    for (int i = 0; i < STEPS; i++) {
        for (int b = 0; b < B; b++) ids[b] = (order[b] + i) % V;
        if (engine_decode(e, s, ids, B, rows, &err) != OK) fail_msg("%s", err.message);
        for (int b = 0; b < B; b++)
            memcpy(logits[order[b]] + (size_t)i * (size_t)V, rows + (size_t)b * (size_t)V, (size_t)V * sizeof *rows);
    }
    for (int b = 0; b < B; b++) kv_sequence_free(s[b], engine_cache(e));
    free(rows);
}

static void a_sequence_gives_the_same_bits_alone_and_in_any_batch_in_any_order(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = small_model(&c, 11);
    check k = {.c = &c};
    size_t bytes = (size_t)STEPS * (size_t)c.n_vocab * sizeof(float);
    float *alone[MOST], *batched[MOST];
    engine *e = engine_make(m, 16, 1, &k);
    for (int i = 0; i < MOST; i++) {
        alone[i] = malloc(bytes), batched[i] = malloc(bytes);
        assert_non_null(alone[i]);
        assert_non_null(batched[i]);
        run_alone(e, i, alone[i]);
    }
    engine_free(e);
    const int orders[][MOST] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 7, 2, 5, 4}};
    const int sizes[] = {1, 2, 8}, pages[] = {1, 2, 4, 16}, threads[] = {1, 2, 3, 7};
    for (int p = 0; p < 4; p++) {
        e = engine_make(m, pages[p], threads[p], &k);
        for (int i = 0; i < 9; i++) {
            const int *order = orders[i / 3];
            int B = sizes[i % 3];
            run_batch(e, order, B, batched);
            for (int b = 0; b < B; b++) assert_memory_equal(alone[order[b]], batched[order[b]], bytes);
        }
        assert_int_equal(engine_cache(e)->n_free, engine_cache(e)->n_pages);
        engine_free(e);
    }
    assert_int_equal(k.mismatches, 0);
    for (int i = 0; i < MOST; i++) {
        free(alone[i]);
        free(batched[i]);
    }
    model_free(m);
}

typedef struct {
    check counts;
    int least, most; /* workers that steps had */
} trial_check;

static void compare_in_trial(void *user, const step_report *r) {
    trial_check *k = user;
    compare(&k->counts, r);
    if (r->n_workers < k->least) k->least = r->n_workers;
    if (r->n_workers > k->most) k->most = r->n_workers;
}

static void the_number_of_workers_is_found_while_bits_and_counts_stay(void **state) {
    (void)state;
    enum { N = 300 };
    model_config c = small_config();
    model *m = small_model(&c, 5);
    error err = {0};
    trial_check k = {.counts = {.c = &c}, .least = 256};
    engine *one = engine_make(m, 16, 1, &k.counts), *found = engine_make(m, 16, 0, &k.counts);
    engine_observe(found, compare_in_trial, &k);
    assert_int_equal(engine_n_threads(found), processors_usable());
    kv_sequence *s = sequence_make(one), *t = sequence_make(found);
    size_t V = (size_t)c.n_vocab;
    float *want = malloc(V * sizeof *want), *got = malloc(V * sizeof *got);
    assert_non_null(want);
    assert_non_null(got);
    for (int i = 0; i < N; i++) {
        int id = prompt_token(1, i, c.n_vocab);
        assert_int_equal(engine_decode(one, &s, &id, 1, want, &err), OK);
        assert_int_equal(engine_decode(found, &t, &id, 1, got, &err), OK);
        assert_memory_equal(want, got, V * sizeof *want);
    }
    assert_int_equal(k.counts.steps, 2 * N);
    assert_int_equal(k.counts.mismatches, 0);
    if (processors_usable() > 1) assert_true(k.least < k.most);
    kv_sequence_free(s, engine_cache(one));
    kv_sequence_free(t, engine_cache(found));
    engine_free(one);
    engine_free(found);
    model_free(m);
    free(want);
    free(got);
}

static void a_step_with_little_work_wakes_no_thread(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = small_model(&c, 5);
    error err = {0};
    engine_options o;
    engine_options_init(&o);
    engine *e;
    assert_int_equal(engine_create(&e, m, &o, &err), OK);
    trial_check k = {.counts = {.c = &c}, .least = 256};
    engine_observe(e, compare_in_trial, &k);
    kv_sequence *s = sequence_make(e);
    float *logits = malloc((size_t)c.n_vocab * sizeof *logits);
    assert_non_null(logits);
    for (int id = 0; id < 300; id++) assert_int_equal(engine_decode(e, &s, &(int){id % c.n_vocab}, 1, logits, &err), OK);
    assert_int_equal(k.most, 1);
    assert_int_equal(engine_workers_found(e, 1), 1);
    assert_true(engine_workers_settled(e, 1));
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
    model_free(m);
    free(logits);
}

static void decode_equals_prefill_equals_recompute_for_every_length_up_to_three_pages_and_one(void **state) {
    (void)state;
    enum { N = 49 };
    model_config c = small_config();
    model *m = small_model(&c, 5);
    error err = {0};
    check k = {.c = &c};
    engine *e = engine_make(m, 16, 1, &k);
    size_t V = (size_t)c.n_vocab;
    int ids[N];
    for (int i = 0; i < N; i++) ids[i] = prompt_token(3, i, c.n_vocab);
    float *whole = malloc(N * V * sizeof *whole), *one = malloc(V * sizeof *one);
    assert_non_null(whole);
    assert_non_null(one);
    kv_sequence *s = sequence_make(e);
    assert_int_equal(engine_prefill(e, s, ids, N, N, whole, &err), OK);
    for (int n = 1; n <= N; n++) {
        kv_sequence_truncate(s, 0, engine_cache(e)); /* a recompute of n tokens without a cache */
        assert_int_equal(engine_prefill(e, s, ids, n, 1, one, &err), OK);
        assert_memory_equal(one, whole + (size_t)(n - 1) * V, V * sizeof *one);
        if (n == N) break;
        assert_int_equal(engine_decode(e, &s, &ids[n], 1, one, &err), OK); /* prefill(n), then one token decoded */
        assert_memory_equal(one, whole + (size_t)n * V, V * sizeof *one);
    }
    assert_int_equal(k.mismatches, 0);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
    model_free(m);
    free(whole);
    free(one);
}

static void the_context_holds_exactly_its_tokens(void **state) {
    (void)state;
    model_config c = small_config();
    c.n_ctx = 37;
    model *m = small_model(&c, 5);
    error err = {0};
    check k = {.c = &c};
    engine *e = engine_make(m, 16, 1, &k);
    int ids[38] = {0};
    float *logits = malloc((size_t)c.n_vocab * sizeof *logits);
    assert_non_null(logits);
    for (int n = 36; n <= 38; n++) {
        kv_sequence *s = sequence_make(e);
        assert_int_equal(engine_prefill(e, s, ids, n, 1, logits, &err), n <= 37 ? OK : ERR_LIMIT);
        if (n == 38) assert_non_null(strstr(err.message, "38 tokens does not fit the context of 37"));
        if (n == 36) assert_int_equal(engine_decode(e, &s, ids, 1, logits, &err), OK);
        if (n <= 37) assert_int_equal(engine_decode(e, &s, ids, 1, logits, &err), ERR_LIMIT);
        assert_int_equal(s->n_tokens, n <= 37 ? 37 : 0);
        kv_sequence_free(s, engine_cache(e));
    }
    kv_sequence *s = sequence_make(e);
    ids[1] = c.n_vocab;
    assert_int_equal(engine_prefill(e, s, ids, 2, 1, logits, &err), ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "token id 71 is not in the vocabulary"));
    assert_int_equal(s->n_tokens, 0);
    kv_sequence_free(s, engine_cache(e));
    free(logits);
    engine_free(e);
    model_free(m);
}

/* A NaN in one number of one matrix, of the first, a middle and the last layer: the step fails, and says which it was. */
static void a_nan_in_the_weights_stops_the_step_with_an_error_that_names_it(void **state) {
    (void)state;
    for (int where = 0; where < 3; where++) {
        model_config c = small_config();
        model_options mo;
        model_options_init(&mo);
        mo.weights = DTYPE_F32;
        model *m;
        error err = {0};
        assert_int_equal(model_random(&m, &c, 5, &mo, &err), OK);
        const matrix *w = where == 2 ? &m->head : where == 1 ? &m->layers[1].w_down : &m->layers[0].wq;
        ((float *)(uintptr_t)w->data)[17] = NAN;
        check k = {.c = &c};
        engine *e = engine_make(m, 16, 2, &k);
        kv_sequence *s = sequence_make(e);
        float *logits = malloc((size_t)c.n_vocab * sizeof *logits);
        assert_non_null(logits);
        const int ids[] = {1, 2, 3, 4, 5};
        assert_int_equal(engine_prefill(e, s, ids, 5, 1, logits, &err), ERR_NUMERIC);
        assert_non_null(strstr(err.message, "positions 0 to 4"));
        free(logits);
        kv_sequence_free(s, engine_cache(e));
        engine_free(e);
        model_free(m);
    }
}

/* A weight so large that a norm's sum of squares overflows: an error, not a row of zeros. */
static void a_sum_that_overflows_stops_the_step(void **state) {
    (void)state;
    const char *const sets[] = {"portable", "avx2", "avx512"};
    for (int k = 0; k < 3; k++) {
        if (kernel_set_choose(sets[k]) == NULL) continue;
        model_config c = small_config();
        c.ffn_bias = true;
        model_options mo;
        model_options_init(&mo);
        model *m;
        error err = {0};
        assert_int_equal(model_random(&m, &c, 5, &mo, &err), OK);
        ((float *)(uintptr_t)m->layers[1].w_down.bias)[3] = 1e30f;
        engine_options o;
        engine *e;
        engine_options_init(&o);
        o.isa = sets[k];
        assert_int_equal(engine_create(&e, m, &o, &err), OK);
        kv_sequence *s = sequence_make(e);
        float *logits = malloc((size_t)c.n_vocab * sizeof *logits);
        assert_non_null(logits);
        const int ids[] = {1, 2, 3};
        assert_int_equal(engine_prefill(e, s, ids, 3, 1, logits, &err), ERR_NUMERIC);
        free(logits);
        kv_sequence_free(s, engine_cache(e));
        engine_free(e);
        model_free(m);
    }
}

static void a_forked_sequence_shares_its_pages_and_both_go_on_as_if_alone(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = small_model(&c, 5);
    error err = {0};
    check k = {.c = &c};
    engine *e = engine_make(m, 16, 1, &k);
    size_t V = (size_t)c.n_vocab;
    float *two = malloc(2 * V * sizeof *two), *solo = malloc(V * sizeof *solo);
    assert_non_null(two);
    assert_non_null(solo);
    for (int n = 15; n <= 33; n += n == 17 ? 14 : 1) { /* 15, 16, 17, 31, 32, 33 */
        int ids[64];
        for (int i = 0; i < n; i++) ids[i] = prompt_token(2, i, c.n_vocab);
        kv_sequence *a = sequence_make(e), *b = sequence_make(e), *alone = sequence_make(e);
        assert_int_equal(engine_prefill(e, a, ids, n, 0, NULL, &err), OK);
        kv_sequence_fork(b, a, engine_cache(e));
        int used = engine_cache(e)->n_pages - engine_cache(e)->n_free;
        assert_int_equal(used, (n + 15) / 16);
        kv_sequence *both[] = {a, b};
        for (int i = 0; i < 20; i++) {
            const int next[] = {(i * 3 + 1) % c.n_vocab, (i * 5 + 2) % c.n_vocab};
            assert_int_equal(engine_decode(e, both, next, 2, two, &err), OK);
        }
        for (int which = 0; which < 2; which++) {
            kv_sequence_truncate(alone, 0, engine_cache(e));
            assert_int_equal(engine_prefill(e, alone, ids, n, 0, NULL, &err), OK);
            for (int i = 0; i < 20; i++) {
                int next = (which == 0 ? i * 3 + 1 : i * 5 + 2) % c.n_vocab;
                assert_int_equal(engine_decode(e, &alone, &next, 1, solo, &err), OK);
            }
            assert_memory_equal(solo, two + (size_t)which * V, V * sizeof *solo);
        }
        kv_sequence_free(n % 2 == 0 ? a : b, engine_cache(e));
        kv_sequence_free(alone, engine_cache(e));
        kv_sequence_free(n % 2 == 0 ? b : a, engine_cache(e));
        assert_int_equal(engine_cache(e)->n_free, engine_cache(e)->n_pages);
    }
    assert_int_equal(k.mismatches, 0);
    engine_free(e);
    model_free(m);
    free(two);
    free(solo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_gives_the_same_bits_alone_and_in_any_batch_in_any_order),
        cmocka_unit_test(the_number_of_workers_is_found_while_bits_and_counts_stay),
        cmocka_unit_test(a_step_with_little_work_wakes_no_thread),
        cmocka_unit_test(decode_equals_prefill_equals_recompute_for_every_length_up_to_three_pages_and_one),
        cmocka_unit_test(the_context_holds_exactly_its_tokens),
        cmocka_unit_test(a_nan_in_the_weights_stops_the_step_with_an_error_that_names_it),
        cmocka_unit_test(a_sum_that_overflows_stops_the_step),
        cmocka_unit_test(a_forked_sequence_shares_its_pages_and_both_go_on_as_if_alone),
        cmocka_unit_test(logits_are_the_same_bits_for_any_chunk_page_and_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
