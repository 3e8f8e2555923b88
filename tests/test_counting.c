/* test_counting.c - three independent counts of every step: predicted by closed forms, counted by the kernels, and counted operation by
 * operation by a scalar reference that makes the same logits. They are equal as integers, term by term. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/counting_cases.h"
#include "tests/counting_runs.h"
#include "tests/kernel_sets.h"

static const dtype cache_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};

static engine_options options_of(dtype kv_type, int page_size, int chunk) {
    engine_options o;
    engine_options_init(&o);
    o.kv_type = kv_type, o.page_size = page_size, o.prefill_chunk = chunk, o.n_threads = 1;
    return o;
}

static void run_random_shape(uint64_t seed, uint64_t sums[N_TERMS], int *n_steps, int *n_differ) {
    static const int pages[] = {1, 4, 16}, batches[] = {1, 3, 8}, chunks[] = {8, 11, 16, 33, 512};
    uint64_t state = seed * 7919 + 1;
    model_config c = counting_random_config(&state);
    counting_storage stored = (counting_storage)random_below(&state, N_STORED);
    counting_model cm = counting_model_make(&c, stored, random_below(&state, 4) == 0, seed);
    engine_options o =
        options_of(cache_types[random_below(&state, 3)], pages[random_below(&state, 3)], chunks[random_below(&state, 5)]);
    o.int8_activations = random_below(&state, 2) == 0;
    o.n_threads = 1 + random_below(&state, 3);
    o.isa = random_below(&state, 2) == 0 ? "portable" : "auto";
    counting_case k;
    char name[64];
    snprintf(name, sizeof name, "shape %d", (int)seed);
    int B = batches[random_below(&state, 3)];
    counting_case_open(&k, name, cm.m, &o, B);
    k.tolerance = counting_tolerance(stored, &o);
    counting_exercise(&k, &state);
    for (int i = 0; i < N_TERMS; i++) sums[i] += k.sums[i];
    *n_steps += k.n_steps;
    *n_differ += k.n_differ;
    counting_case_close(&k);
    counting_model_free(&cm);
}

static void two_hundred_random_shapes_cost_the_same_predicted_counted_and_done_one_by_one(void **state) {
    (void)state;
    uint64_t sums[N_TERMS] = {0};
    int n_steps = 0, n_differ = 0;
    for (uint64_t seed = 0; seed < 200; seed++) run_random_shape(seed, sums, &n_steps, &n_differ);
    assert_int_equal(n_differ, 0);
    assert_true(n_steps > 1000);
    for (int i = 0; i < N_TERMS; i++) {
        bool merge = i == TERM_FLOPS_MERGE; /* contexts here are shorter than a range */
        if (!merge && sums[i] == 0) fail_msg("%s was never counted", term_table[i].key);
    }
}

/* A small shape that is not the level-21 one, for what depends on lengths. */
static model_config grouped_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 20, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 7, c.d_ff = 33, c.n_vocab = 29, c.n_ctx = 150;
    c.rope_dim = 4, c.rope_base = 10000, c.attn_scale = 0.4f, c.window = 19, c.layer_windowed[1] = 1;
    return c;
}

static void every_length_around_a_page_and_a_tile_agrees_chunked_and_not(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 34, 47, 48, 49, 63, 64, 65, 66};
    static const int pages[] = {1, 4, 16, 24}, chunks[] = {1, 7, 16, 32, 40, 512};
    model_config c = grouped_config();
    counting_model cm = counting_model_make(&c, STORED_F16, false, 3);
    uint64_t seed = 11;
    for (int p = 0; p < 4; p++)
        for (int h = 0; h < 6; h++) {
            engine_options o = options_of(cache_types[(p + h) % 3], pages[p], chunks[h]);
            counting_case k;
            counting_case_open(&k, "lengths", cm.m, &o, 1);
            k.tolerance = counting_tolerance(STORED_F16, &o);
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                kv_sequence_truncate(k.kv[0], 0, engine_cache(k.e));
                k.seqs[0].n_tokens = 0;
                counting_prefill(&k, 0, lengths[i], 1, &seed);
                counting_decode(&k, 0, 1, &seed);
                counting_prefill(&k, 0, lengths[i], 0, &seed); /* a second turn */
            }
            assert_true(k.n_steps >= 3 * 19);
            assert_int_equal(k.n_differ, 0);
            counting_case_close(&k);
        }
    counting_model_free(&cm);
}

/* n tokens, then B - 1 forks: the group reads the full pages that all share once, as the number that comes back says. */
static int shared_by_forks(const model *m, dtype kv_type, int page_size, int n, int B) {
    engine_options o = options_of(kv_type, page_size, 512);
    uint64_t seed = (uint64_t)n;
    counting_case k;
    counting_case_open(&k, "forks", m, &o, B);
    k.tolerance = counting_tolerance(STORED_F32, &o);
    counting_prefill(&k, 0, n, 0, &seed);
    for (int b = 1; b < B; b++) counting_fork(&k, b, 0);
    for (int i = 0; i < 4; i++) counting_decode(&k, 0, B, &seed);
    assert_int_equal(k.n_steps, 5);
    assert_int_equal(k.n_differ, 0);
    int shared = k.n_grouped == 4 ? k.n_shared_tokens : 0;
    counting_case_close(&k);
    return shared;
}

static void a_shared_prefix_is_read_once_for_three_and_for_eight(void **state) {
    (void)state;
    static const int lengths[] = {15, 16, 17, 31, 32, 33, 40}, pages[] = {1, 4, 16}, batches[] = {3, 8};
    model_config c = grouped_config();
    counting_model cm = counting_model_make(&c, STORED_F32, false, 5);
    for (int i = 0; i < 7; i++)
        for (int p = 0; p < 3; p++)
            for (int b = 0; b < 2; b++) {
                int n = lengths[i], page = pages[p], full = n / page * page;
                assert_int_equal(shared_by_forks(cm.m, cache_types[i % 3], page, n, batches[b]), full);
            }
    counting_model_free(&cm);
}

/* Contexts of several ranges of keys (256 each): full, in a window that reaches over one edge, and shared. Returns the merges' FLOPs. */
static uint64_t merges_done(int window, dtype kv_type, int n_threads) {
    model_config c = grouped_config();
    c.n_layers = 1, c.d_model = 6, c.n_heads = 2, c.n_kv_heads = 1, c.head_dim = 3, c.d_ff = 5, c.n_vocab = 11, c.n_ctx = 800;
    c.rope_dim = 2, c.window = window, c.layer_windowed[0] = window > 0, c.layer_windowed[1] = 0;
    counting_model cm = counting_model_make(&c, STORED_F32, false, 5);
    engine_options o = options_of(kv_type, 16, 512);
    o.n_threads = n_threads;
    uint64_t seed = 3;
    counting_case k;
    counting_case_open(&k, "ranges", cm.m, &o, 3);
    k.tolerance = counting_tolerance(STORED_F32, &o);
    counting_prefill(&k, 0, 254, 1, &seed);
    for (int i = 0; i < 4; i++) counting_decode(&k, 0, 1, &seed); /* 255 to 258 keys */
    counting_prefill(&k, 0, 253, 1, &seed);
    counting_fork(&k, 1, 0);
    counting_fork(&k, 2, 1);
    for (int i = 0; i < 4; i++) counting_decode(&k, 0, 3, &seed); /* 512 to 515 */
    assert_int_equal(k.n_differ, 0);
    uint64_t flops = k.sums[TERM_FLOPS_MERGE];
    counting_case_close(&k);
    counting_model_free(&cm);
    return flops;
}

/* By hand: a merge is 10 + 3 head_dim for each of 2 heads. The first sequence's rows at 256 and 257 (decoded), at 258 to 510 (prefill) make
 * one; then three sequences' rows at 511 make one each, at 512, 513 and 514 two. */
static void ranges_of_keys_are_merged_as_often_as_they_are_crossed(void **state) {
    (void)state;
    uint64_t each = 2 * (10 + 3 * 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(merges_done(0, cache_types[i], 1 + i), each * (2 + 253 + 3 * (1 + 3 * 2)));
        merges_done(200, cache_types[i], 1 + i);
        merges_done(300, cache_types[i], 3 - i);
    }
}

/* Rows of more columns than are decoded or packed at a time (1,024), in every storage; int8 activations and not. */
static void rows_longer_than_a_slice_agree(void **state) {
    (void)state;
    model_config c = grouped_config();
    c.n_layers = 1, c.d_ff = 2100, c.d_model = 18;
    for (int stored = 0; stored < N_STORED; stored++)
        for (int way = 0; way < 4; way++) {
            counting_model cm = counting_model_make(&c, (counting_storage)stored, way % 2 == 1, 9);
            engine_options o = options_of(DTYPE_F32, 16, 512);
            o.int8_activations = way >= 2;
            uint64_t seed = 3;
            counting_case k;
            counting_case_open(&k, "long rows", cm.m, &o, 1);
            k.tolerance = counting_tolerance((counting_storage)stored, &o);
            counting_prefill(&k, 0, 9, 9, &seed);
            counting_decode(&k, 0, 1, &seed);
            assert_int_equal(k.n_steps, 2);
            assert_int_equal(k.n_differ, 0);
            counting_case_close(&k);
            counting_model_free(&cm);
        }
}

static void products_through_blas_agree(void **state) {
    (void)state;
    model_config c = grouped_config();
    for (int stored = 0; stored < N_STORED; stored++) {
        counting_model cm = counting_model_make(&c, (counting_storage)stored, stored % 2 == 1, 9);
        engine_options o = options_of(DTYPE_F16, 4, 512);
        engine *probe;
        error e = {0};
        o.blas = true;
        status s = engine_create(&probe, cm.m, &o, &e);
        engine_free(probe);
        if (s != OK) {
            counting_model_free(&cm);
            print_message("SKIP: %s\n", e.message);
            skip();
        }
        uint64_t seed = 3;
        counting_case k;
        counting_case_open(&k, "blas", cm.m, &o, 1);
        k.tolerance = counting_tolerance((counting_storage)stored, &o);
        counting_prefill(&k, 0, 21, 1, &seed); /* through sgemm */
        counting_decode(&k, 0, 1, &seed);      /* too few rows for it */
        assert_int_equal(k.n_differ, 0);
        counting_case_close(&k);
        counting_model_free(&cm);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_around_a_page_and_a_tile_agrees_chunked_and_not),
        cmocka_unit_test(a_shared_prefix_is_read_once_for_three_and_for_eight),
        cmocka_unit_test(ranges_of_keys_are_merged_as_often_as_they_are_crossed),
        cmocka_unit_test(rows_longer_than_a_slice_agree),
        cmocka_unit_test(products_through_blas_agree),
        cmocka_unit_test(two_hundred_random_shapes_cost_the_same_predicted_counted_and_done_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
