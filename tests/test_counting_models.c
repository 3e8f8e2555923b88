/* test_counting_models.c - the three counts over models that are not random: the shipped one against its answer key, and every checkpoint
 * of ../shared that opens, at every storage type. And: the counting reference is itself able to disagree. */
#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "tests/counting_cases.h"
#include "tests/counting_runs.h"

static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};

/* NULL where it does not open. weights: -1 as the file has it. */
static model *model_open(const char *path, int weights) {
    model_options o;
    error e = {0};
    model *m = NULL;
    model_options_init(&o);
    o.weights = weights, o.n_threads = 1;
    return model_load(&m, path, &o, NULL, &e) == OK ? m : NULL;
}

static engine_options options_of(const model *m, dtype kv_type, int page_size, int chunk) {
    engine_options o;
    engine_options_init(&o);
    o.kv_type = kv_type, o.page_size = page_size, o.prefill_chunk = chunk, o.n_threads = 1;
    o.n_ctx = m->config.n_ctx < 128 ? m->config.n_ctx : 128;
    return o;
}

/* The numbers of the cost model's document, from the reference alone. */
static void level21_costs_what_its_answer_key_says(void **state) {
    (void)state;
    static const uint64_t weight_bytes[] = {403516, 204732, 111740};
    for (int t = 0; t < 3; t++) {
        model *m = model_open("models/level21.pt", (int)types[t]);
        assert_non_null(m);
        engine_options o = options_of(m, DTYPE_F16, 16, 512);
        uint64_t seed = 1;
        counting_case k;
        counting_case_open(&k, "level21", m, &o, 1);
        k.tolerance = counting_tolerance((counting_storage)t, &o);
        for (uint64_t keys = 1; keys <= 11; keys++) {
            counting_decode(&k, 0, 1, &seed);
            assert_int_equal(term_class_sum(&k.last, CLASS_MATMUL), 198528);
            assert_int_equal(term_class_sum(&k.last, CLASS_ATTENTION), 512 * keys);
            assert_int_equal(term_class_sum(&k.last, CLASS_OTHER) - k.last.n[TERM_FLOPS_QUANTISE], 3299 + 48 * keys);
            assert_int_equal(k.last.n[TERM_FLOPS_QUANTISE] > 0, types[t] == DTYPE_Q8_0);
            assert_int_equal(term_class_sum(&k.last, CLASS_WEIGHT_BYTES), weight_bytes[t]);
            assert_int_equal(k.last.n[TERM_BYTES_KV_CACHED], 512 * (keys - 1));
        }
        for (int all = 0; all < 2; all++) {
            kv_sequence_truncate(k.kv[0], 0, engine_cache(k.e));
            k.seqs[0].n_tokens = 0;
            counting_prefill(&k, 0, 10, all ? 10 : 1, &seed);
            assert_int_equal(term_class_sum(&k.last, CLASS_MATMUL), all ? 1985280 : 1968000);
            assert_int_equal(term_class_sum(&k.last, CLASS_ATTENTION), 28160);
            assert_int_equal(term_class_sum(&k.last, CLASS_OTHER) - k.last.n[TERM_FLOPS_QUANTISE], all ? 35630 : 33155);
        }
        assert_int_equal(k.n_differ, 0);
        counting_case_close(&k);
        model_free(m);
    }
}

/* One model in every page size and batch, each with another cache type and chunk. Returns the terms that did not agree. */
static int run_model(const char *name, const model *m, counting_storage stored) {
    static const int pages[] = {1, 4, 16}, batches[] = {1, 3, 8}, chunks[] = {8, 13, 512};
    uint64_t state = 17;
    int n_differ = 0;
    for (int i = 0; i < 9; i++) {
        engine_options o = options_of(m, types[(i + i / 3) % 3], pages[i % 3], chunks[(i + 2 * (i / 3)) % 3]);
        counting_case k;
        o.int8_activations = i % 2 == 0;
        counting_case_open(&k, name, m, &o, batches[i / 3]);
        k.tolerance = counting_tolerance(stored, &o);
        counting_exercise(&k, &state);
        assert_true(k.n_steps >= 5);
        n_differ += k.n_differ;
        counting_case_close(&k);
    }
    return n_differ;
}

static void level21_agrees_in_every_storage_page_size_and_batch(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        model *m = model_open("models/level21.pt", (int)types[t]);
        assert_non_null(m);
        assert_int_equal(run_model("level21", m, (counting_storage)t), 0);
        model_free(m);
    }
}

enum { MOST_PATHS = 512 };
static char *paths[MOST_PATHS];
static int n_paths;

static int path_found(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)kind, (void)where;
    if (n_paths < MOST_PATHS) paths[n_paths++] = strdup(path);
    return 0;
}

static void every_checkpoint_that_opens_agrees_at_every_storage_type(void **state) {
    (void)state;
    if (access("../shared/checkpoints", F_OK) != 0) {
        print_message("SKIP: ../shared is not there\n");
        skip();
    }
    int n_models = 0, n_differ = 0;
    n_paths = 0;
    assert_int_equal(nftw("../shared/checkpoints", path_found, 16, FTW_PHYS), 0);
    for (int i = 0, folder = -1; i < n_paths; i++) {
        size_t n = folder >= 0 ? strlen(paths[folder]) : 0;
        if (n > 0 && strncmp(paths[i], paths[folder], n) == 0 && paths[i][n] == '/')
            continue; /* a part of the folder that opened */
        model *m = model_open(paths[i], -1);
        if (m != NULL) folder = i;
        n_models += m != NULL;
        if (m != NULL) n_differ += run_model(paths[i], m, STORED_MIXED);
        for (int t = 0; t < 3 && m != NULL; t++) {
            model *stored = model_open(paths[i], (int)types[t]);
            assert_non_null(stored);
            n_differ += run_model(paths[i], stored, (counting_storage)t);
            model_free(stored);
        }
        if (m != NULL) model_free(m);
    }
    for (int i = 0; i < n_paths; i++) free(paths[i]);
    assert_int_equal(n_differ, 0);
    assert_true(n_models >= 25);
}

/* The reference does what the plan says: told another one, it counts something else, and only in the terms that hang on it. */
static void a_reference_that_is_told_another_plan_disagrees(void **state) {
    (void)state;
    model *m = model_open("models/level21.pt", DTYPE_F32);
    assert_non_null(m);
    matrix_storage layers[2][N_LAYER_MATRICES] = {{{DTYPE_F32, 0}}};
    weight_storage w = {.layers = layers};
    plan_sequence seq = {.n_new = 9, .n_logit_rows = 1, .group = -1};
    execution_plan plan = {
        .weights = &w, .kv_type = DTYPE_F32, .page_size = 4, .query_tile = 9, .key_split = 9, .n_sequences = 1};
    plan.sequences = &seq;
    term_counts counts[5];
    double logits[5][15];
    for (int i = 0; i < 5; i++) {
        counting_sequence s, *one = &s;
        execution_plan p = plan;
        if (i == 1) p.query_tile = 4;
        if (i == 2) p.key_split = 8;
        if (i == 3) p.page_size = 8;
        if (i == 4) p.kv_type = DTYPE_F16;
        counting_sequence_init(&s, m, 11);
        counting_step(&counts[i], logits[i], m, &p, &one);
        counting_sequence_free(&s);
        for (int v = 0; v < 15; v++) assert_true(fabs(logits[i][v] - logits[0][v]) < 1e-2);
    }
    for (int t = 0; t < N_TERMS; t++) {
        uint64_t sound = counts[0].n[t];
        assert_int_equal(counts[1].n[t], t == TERM_BYTES_KV_OWN ? sound * (4 + 8 + 9) / 9 : sound);
        assert_int_equal(counts[2].n[t],
                         t == TERM_FLOPS_MERGE ? 2 * 4 * (10 + 3 * 16) : sound); /* the last row alone crosses */
        assert_int_equal(counts[3].n[t], t == TERM_BYTES_PAGE_TABLE ? 2 * 2 * 4 : sound);
        assert_int_equal(counts[4].n[t], t == TERM_BYTES_KV_OWN || t == TERM_BYTES_KV_WRITTEN ? sound / 2 : sound);
    }
    assert_int_equal(counts[0].n[TERM_BYTES_PAGE_TABLE], 3 * 2 * 4);
    model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level21_costs_what_its_answer_key_says),
        cmocka_unit_test(level21_agrees_in_every_storage_page_size_and_batch),
        cmocka_unit_test(a_reference_that_is_told_another_plan_disagrees),
        cmocka_unit_test(every_checkpoint_that_opens_agrees_at_every_storage_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
