/* test_level21.c - the shipped checkpoint against outside logits in float64, in every storage, and what a step of it reads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/engine.h"
#include "tests/kernel_sets.h"

#define DATA "tests/data/level21/"
enum { V = 15, EOS = 2, MOST_IDS = 11 };

static json_t *golden(const char *path) {
    json_error_t e;
    json_t *j = json_load_file(path, 0, &e);
    if (j == NULL) fail_msg("%s: %s", path, e.text);
    return j;
}

static int take_ids(const json_t *list, int ids[MOST_IDS]) {
    int n = (int)json_array_size(list);
    assert_in_range(n, 1, MOST_IDS);
    for (int i = 0; i < n; i++) ids[i] = (int)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

typedef struct {
    model *m;
    engine *e;
    kv_sequence *s;
} runner;

/* blas: only where the machine has it (e->e NULL: it has not). */
static runner runner_open(const char *path, int weights, dtype kv, const char *isa, bool blas) {
    runner r = {0};
    model_options mo;
    engine_options eo;
    error err = {0};
    model_options_init(&mo);
    mo.weights = weights;
    mo.n_threads = 1;
    if (model_load(&r.m, path, &mo, NULL, &err) != OK) fail_msg("%s", err.message);
    engine_options_init(&eo);
    eo.kv_type = kv;
    eo.isa = isa;
    eo.blas = blas;
    eo.n_threads = 1;
    status st = engine_create(&r.e, r.m, &eo, &err);
    if (st != OK && !blas) fail_msg("%s", err.message);
    if (st == OK) assert_int_equal(kv_sequence_create(&r.s, engine_cache(r.e), MOST_IDS, &err), OK);
    return r;
}

static void runner_close(runner *r) {
    if (r->e != NULL) kv_sequence_free(r->s, engine_cache(r->e));
    engine_free(r->e);
    model_free(r->m);
}

static void prefill(runner *r, const int *ids, int n, int rows, float *logits) {
    error err = {0};
    kv_sequence_truncate(r->s, 0, engine_cache(r->e));
    if (engine_prefill(r->e, r->s, ids, n, rows, logits, &err) != OK) fail_msg("%s", err.message);
}

/* The largest difference of one row from its golden; *largest is raised to the golden's largest |logit|. */
static double row_difference(const float *logits, const json_t *row, double *largest) {
    double worst = 0;
    assert_int_equal(json_array_size(row), V);
    for (size_t i = 0; i < V; i++) {
        double want = json_number_value(json_array_get(row, i));
        worst = fmax(worst, fabs((double)logits[i] - want));
        *largest = fmax(*largest, fabs(want));
    }
    return worst;
}

/* All ten rows of the check weights. */
static double check_difference(runner *r, double *largest) {
    json_t *g = golden(DATA "golden_check.json");
    int ids[MOST_IDS], n = take_ids(json_object_get(g, "input_ids"), ids);
    float logits[MOST_IDS * V];
    double worst = 0;
    prefill(r, ids, n, n, logits);
    for (int t = 0; t < n; t++) {
        const json_t *row = json_array_get(json_object_get(g, "logits"), (size_t)t);
        worst = fmax(worst, row_difference(logits + t * V, row, largest));
    }
    json_decref(g);
    return worst;
}

/* The answers: prefill up to the =, then decode; each step's logits, and that the largest is the golden answer's token. */
static double answers_difference(runner *r, double *largest) {
    json_t *g = golden(DATA "golden_model.json"), *one;
    size_t i;
    double worst = 0;
    json_array_foreach(json_object_get(g, "examples"), i, one) {
        const json_t *rows = json_object_get(one, "logits");
        int ids[MOST_IDS], n = take_ids(json_object_get(one, "ids"), ids), steps = (int)json_array_size(rows);
        float logits[V];
        error err = {0};
        prefill(r, ids, n - steps, 1, logits);
        for (int t = 0; t < steps; t++) {
            const int *next = &ids[n - steps + t];
            worst = fmax(worst, row_difference(logits, json_array_get(rows, (size_t)t), largest));
            for (int id = 0; id < V; id++) assert_true(id == *next || logits[id] < logits[*next]);
            if (t < steps - 1) assert_int_equal(engine_decode(r->e, &r->s, next, 1, logits, &err), OK);
        }
    }
    json_decref(g);
    return worst;
}

static void fp32_logits_are_within_1e_4_of_float64(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n = kernel_sets(sets);
    for (int i = 0; i < n; i++) {
        double largest = 0;
        runner r = runner_open(DATA "check_weights.json", DTYPE_F32, DTYPE_F32, sets[i]->name, false);
        assert_true(check_difference(&r, &largest) <= 1e-4);
        runner_close(&r);
        r = runner_open("models/level21.pt", DTYPE_F32, DTYPE_F32, sets[i]->name, false);
        assert_true(answers_difference(&r, &largest) <= 1e-4);
        runner_close(&r);
    }
}

/* 1e-3 of the largest logit: each fp16 rounding is 2^-11 = 4.9e-4 of its number, and they do not all point one way. */
static void fp16_weights_and_cache_are_within_1e_3_of_the_largest_logit(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n = kernel_sets(sets);
    for (int i = 0; i < n; i++) {
        double largest = 1;
        runner r = runner_open(DATA "check_weights.json", DTYPE_F16, DTYPE_F16, sets[i]->name, false);
        double worst = check_difference(&r, &largest);
        assert_true(worst <= 1e-3 * largest);
        assert_true(worst > 1e-6); /* it did round */
        runner_close(&r);
        r = runner_open("models/level21.pt", DTYPE_F16, DTYPE_F16, sets[i]->name, false);
        largest = 1;
        worst = answers_difference(&r, &largest);
        assert_true(worst <= 1e-3 * largest);
        assert_true(worst > 1e-6);
        runner_close(&r);
    }
}

static void blas_logits_are_within_1e_3(void **state) {
    (void)state;
    double largest = 1;
    runner r = runner_open(DATA "check_weights.json", DTYPE_F32, DTYPE_F32, "auto", true);
    if (r.e == NULL) {
        runner_close(&r);
        printf("SKIP: OpenBLAS is not installed\n");
        skip();
    }
    assert_true(check_difference(&r, &largest) <= 1e-3); /* 10 rows: more than BLAS_ROWS */
    assert_true(engine_last_report(r.e)->plan->blas);
    runner_close(&r);
}

/* cost-model.md: what one decode step reads of weights, and what a token takes in the cache. */
static void a_decode_step_reads_the_bytes_of_the_answer_key(void **state) {
    (void)state;
    static const struct {
        dtype weights;
        uint64_t bytes;
    } weights[] = {{DTYPE_F32, 403516}, {DTYPE_F16, 204732}, {DTYPE_Q8_0, 111740}};
    static const struct {
        dtype type;
        uint64_t bytes;
    } caches[] = {{DTYPE_F32, 1024}, {DTYPE_F16, 512}, {DTYPE_Q8_0, 288}};
    const int ids[] = {1, 5, 6, 13, 8, 11, 14};
    for (int w = 0; w < 3; w++) {
        for (int c = 0; c < 3; c++) {
            runner r = runner_open("models/level21.pt", weights[w].weights, caches[c].type, "auto", false);
            float logits[V];
            error err = {0};
            prefill(&r, ids, 6, 1, logits);
            assert_int_equal(engine_decode(r.e, &r.s, &ids[6], 1, logits, &err), OK);
            const term_counts *n = &engine_last_report(r.e)->counted;
            assert_int_equal(term_class_sum(n, CLASS_WEIGHT_BYTES), weights[w].bytes);
            assert_int_equal(n->n[TERM_BYTES_KV_WRITTEN], caches[c].bytes);
            assert_int_equal(n->n[TERM_BYTES_KV_CACHED], 6 * caches[c].bytes);
            assert_int_equal(n->n[TERM_BYTES_KV_OWN], caches[c].bytes);
            runner_close(&r);
        }
    }
}

static int argmax(const float *x) {
    int best = 0;
    for (int i = 1; i < V; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

/* "4+26=" to ids; the layout's characters: 0-9 are 3..12, + is 13, = is 14. */
static int question_ids(const char *line, int ids[MOST_IDS]) {
    int n = 0;
    ids[n++] = 1;
    for (const char *p = line; n < MOST_IDS; p++) {
        ids[n++] = *p == '+' ? 13 : *p == '=' ? 14 : *p - '0' + 3;
        if (*p == '=') return n;
    }
    fail_msg("%s has no =", line);
    return 0;
}

/* Greedy answers, as digits. */
static void answer(runner *r, const char *line, char out[MOST_IDS]) {
    int ids[MOST_IDS], n = question_ids(line, ids), at = 0;
    float logits[V];
    error err = {0};
    prefill(r, ids, n, 1, logits);
    for (int id; n < MOST_IDS && (id = argmax(logits)) != EOS; n++) {
        assert_in_range(id, 3, 12);
        out[at++] = (char)('0' + id - 3);
        if (n < MOST_IDS - 1) assert_int_equal(engine_decode(r->e, &r->s, &id, 1, logits, &err), OK);
    }
    out[at] = '\0';
}

static void the_unseen_sums_are_right_but_for_the_one_that_the_golden_names(void **state) {
    (void)state;
    json_t *g = golden(DATA "golden_model.json");
    FILE *f = fopen(DATA "unseen_sums.txt", "r");
    assert_non_null(f);
    runner r = runner_open("models/level21.pt", DTYPE_F32, DTYPE_F32, "auto", false);
    char line[32], got[MOST_IDS], wrong[64] = "";
    int n = 0, right = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *want = strchr(line, '=');
        assert_non_null(want);
        answer(&r, line, got);
        n++;
        right += strcmp(want + 1, got) == 0;
        if (strcmp(want + 1, got) != 0) snprintf(wrong, sizeof wrong, "%.*s=%s", (int)(want - line), line, got);
    }
    fclose(f);
    assert_int_equal(n, json_integer_value(json_object_get(g, "unseen_problems")));
    assert_int_equal(right, json_integer_value(json_object_get(g, "unseen_right")));
    assert_string_equal(wrong, json_string_value(json_array_get(json_object_get(g, "unseen_wrong"), 0)));
    json_decref(g);
    runner_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_logits_are_within_1e_4_of_float64),
        cmocka_unit_test(fp16_weights_and_cache_are_within_1e_3_of_the_largest_logit),
        cmocka_unit_test(blas_logits_are_within_1e_3),
        cmocka_unit_test(a_decode_step_reads_the_bytes_of_the_answer_key),
        cmocka_unit_test(the_unseen_sums_are_right_but_for_the_one_that_the_golden_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
