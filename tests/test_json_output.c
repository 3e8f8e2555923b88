/* test_json_output.c - what the binary prints with --json: it parses, and has the numbers of the cost model's answer key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#define MODEL "-m models/level21.pt "

/* What the command prints, parsed. TALLY: the binary (tests/run.sh sets it). */
static json_t *tally(const char *arguments) {
    const char *binary = getenv("TALLY");
    char line[1024];
    json_error_t e;
    if (binary == NULL) {
        printf("SKIP: TALLY does not name the binary\n");
        skip();
    }
    snprintf(line, sizeof line, "'%s' %s", binary, arguments);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    json_t *j = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
    int rc = pclose(f);
    if (j == NULL) fail_msg("%s: line %d: %s", arguments, e.line, e.text);
    assert_int_equal(WEXITSTATUS(rc), 0);
    return j;
}

static json_int_t sum(const json_t *terms, const char *const *keys) {
    json_int_t total = 0;
    for (; *keys != NULL; keys++) {
        const json_t *n = json_object_get(terms, *keys);
        if (!json_is_integer(n)) fail_msg("%s is not a whole number", *keys);
        total += json_integer_value(n);
    }
    return total;
}

static const char *const matmul[] = {"flops_q", "flops_kv", "flops_o", "flops_ffn", "flops_head", NULL};
static const char *const attention[] = {"flops_scores", "flops_values", NULL};
static const char *const other[] = {"flops_bias",     "flops_norm",       "flops_position", "flops_softmax", "flops_activation",
                                    "flops_residual", "flops_multiplier", "flops_quantise", "flops_merge",   NULL};
static const char *const weight_bytes[] = {"bytes_q",    "bytes_kv",   "bytes_o",         "bytes_ffn",      "bytes_head",
                                           "bytes_bias", "bytes_norm", "bytes_embedding", "bytes_position", NULL};

/* A step of the JSON, predicted and counted alike. */
static void assert_step(const json_t *step, json_int_t linear, json_int_t attended, json_int_t rest) {
    static const char *const sides[] = {"predicted", "counted"};
    for (int i = 0; i < 2; i++) {
        const json_t *terms = json_object_get(step, sides[i]);
        assert_int_equal(sum(terms, matmul), linear);
        assert_int_equal(sum(terms, attention), attended);
        assert_int_equal(sum(terms, other), rest);
    }
    assert_true(json_is_true(json_object_get(step, "agrees")));
}

static void decode_steps_of_level_21_have_the_numbers_of_the_answer_key(void **state) {
    (void)state;
    json_t *j = tally("check " MODEL "-p 23+58= --steps 8 --json"), *step;
    const json_t *steps = json_object_get(j, "steps");
    size_t i;
    assert_true(json_is_true(json_object_get(j, "agrees")));
    assert_int_equal(json_array_size(steps), 5); /* a prompt of 7, and 4 of the 11 positions left */
    json_array_foreach(steps, i, step) {
        if (i == 0) continue;
        json_int_t L = json_integer_value(json_object_get(step, "n_visible"));
        const json_t *counted = json_object_get(step, "counted");
        assert_int_equal(L, 7 + (json_int_t)i);
        assert_step(step, 198528, 512 * L, 3299 + 48 * L);
        assert_int_equal(sum(counted, weight_bytes), 403516);
        assert_int_equal(json_integer_value(json_object_get(counted, "bytes_kv_written")), 512);
        assert_int_equal(json_integer_value(json_object_get(counted, "bytes_kv_cached")), 512 * (L - 1));
        assert_int_equal(json_integer_value(json_object_get(counted, "bytes_kv_own")), 512);
        assert_true(json_real_value(json_object_get(step, "seconds")) > 0);
    }
    json_decref(j);
}

static void a_prefill_of_10_has_the_numbers_of_the_answer_key_with_one_row_of_logits_and_with_all(void **state) {
    (void)state;
    json_t *last = tally("check " MODEL "--ids 1,5,6,13,8,11,14,11,4,2 --steps 1 --json");
    json_t *all = tally("run " MODEL "--ids 1,5,6,13,8,11,14,11,4,2 -n 0 --logit-rows all --json");
    assert_step(json_array_get(json_object_get(last, "steps"), 0), 1968000, 28160, 33155);
    assert_step(json_array_get(json_object_get(json_object_get(all, "cost"), "steps"), 0), 1985280, 28160, 35630);
    json_decref(last);
    json_decref(all);
}

static void every_storage_reads_the_bytes_of_the_answer_key(void **state) {
    (void)state;
    static const struct {
        const char *options;
        json_int_t weights, token;
    } cases[] = {{"--weights f16 --kv-type f16", 204732, 512}, {"--weights int8 --kv-type int8", 111740, 288}};
    for (int i = 0; i < 2; i++) {
        char line[256];
        snprintf(line, sizeof line, "check " MODEL "-p 23+58= --steps 1 --json %s", cases[i].options);
        json_t *j = tally(line);
        const json_t *counted = json_object_get(json_array_get(json_object_get(j, "steps"), 1), "counted");
        assert_int_equal(sum(counted, weight_bytes), cases[i].weights);
        assert_int_equal(json_integer_value(json_object_get(counted, "bytes_kv_written")), cases[i].token);
        json_decref(j);
    }
}

static void a_run_says_what_it_completed_and_why_it_ended(void **state) {
    (void)state;
    json_t *j = tally("run " MODEL "-p 23+58= --json");
    const json_t *sample = json_array_get(json_object_get(j, "samples"), 0), *ids = json_object_get(sample, "ids");
    assert_string_equal(json_string_value(json_object_get(sample, "text")), "81");
    assert_string_equal(json_string_value(json_object_get(sample, "finish_reason")), "end token");
    assert_int_equal(json_array_size(ids), 2);
    assert_int_equal(json_integer_value(json_array_get(ids, 0)), 11);
    assert_int_equal(json_integer_value(json_array_get(ids, 1)), 4);
    assert_int_equal(json_integer_value(json_object_get(j, "n_prompt")), 7);
    assert_true(json_is_true(json_object_get(json_object_get(j, "cost"), "agrees")));
    json_decref(j);
}

/* Token by token: n keys computed with the cache, n(n+1)/2 without, in each of 2 layers. */
static void a_trace_counts_the_keys_with_the_cache_and_without(void **state) {
    (void)state;
    json_t *j = tally("trace " MODEL "-p 23+58= --no-cache --json"), *step;
    const json_t *cached = json_object_get(j, "steps"), *again = json_object_get(json_object_get(j, "no_cache"), "steps");
    json_int_t with = 0, without = 0;
    size_t i;
    json_array_foreach(cached, i, step) {
        with += json_integer_value(json_object_get(json_object_get(step, "counted"), "keys_computed"));
        assert_int_equal(json_integer_value(json_object_get(step, "n_cached")), i);
    }
    assert_int_equal(with, 2 * 9);
    json_array_foreach(again, i, step) {
        without += json_integer_value(json_object_get(json_object_get(step, "counted"), "keys_computed"));
    }
    assert_int_equal(without, 2 * 45);
    assert_int_equal(json_array_size(cached), 9);
    assert_int_equal(json_array_size(again), 9);
    assert_true(json_is_true(json_object_get(j, "same_logits")));
    json_decref(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_steps_of_level_21_have_the_numbers_of_the_answer_key),
        cmocka_unit_test(a_prefill_of_10_has_the_numbers_of_the_answer_key_with_one_row_of_logits_and_with_all),
        cmocka_unit_test(every_storage_reads_the_bytes_of_the_answer_key),
        cmocka_unit_test(a_run_says_what_it_completed_and_why_it_ended),
        cmocka_unit_test(a_trace_counts_the_keys_with_the_cache_and_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
