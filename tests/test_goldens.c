/* The double-precision reference over loaded models, against logits of other implementations: the loader and the layouts are right
 * before any engine is asked. Needs ../shared. */
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

#include <jansson.h>

#include "tests/reference.h"

#define SHARED "../shared/checkpoints/"

enum { MAX_IDS = 512 };

static void need_shared(void) {
    if (access(SHARED "level21", F_OK) == 0) return;
    print_message("SKIP: ../shared is not there\n");
    skip();
}

static const char *layout_file; /* for the next load; NULL: recognised */

static model *load_as(const char *path, int weights, int n_heads) {
    char full[512];
    snprintf(full, sizeof full, SHARED "%s", path);
    model_options o;
    model_options_init(&o);
    o.weights = weights, o.n_heads = n_heads, o.layout_file = layout_file;
    model *m = NULL;
    error e;
    if (model_load(&m, full, &o, NULL, &e) != OK) fail_msg("%s", e.message);
    return m;
}

static json_t *read_json(const char *path) {
    char full[512];
    snprintf(full, sizeof full, SHARED "%s", path);
    json_t *root = json_load_file(full, 0, NULL);
    if (root == NULL) fail_msg("%s cannot be read", full);
    return root;
}

static int read_ids(const json_t *list, int *ids) {
    size_t n = json_array_size(list);
    assert_in_range(n, 1, MAX_IDS);
    for (size_t i = 0; i < n; i++) ids[i] = (int)json_integer_value(json_array_get(list, i));
    return (int)n;
}

/* Compares a row with a list that may hold only its beginning. */
static void same_row(const char *what, const double *row, const json_t *expected, double tolerance) {
    assert_true(json_array_size(expected) > 0);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        double want = json_number_value(json_array_get(expected, i));
        if (!(fabs(row[i] - want) <= tolerance)) fail_msg("%s: logit %zu is %.7g, expected %.7g", what, i, row[i], want);
    }
}

static int argmax(const double *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* The first tokens that greedy decoding gives, by full recomputation. */
static void same_greedy(const char *what, const model *m, const int *prompt, int n, const json_t *greedy, int most) {
    int ids[MAX_IDS];
    memcpy(ids, prompt, (size_t)n * sizeof *ids);
    for (int i = 0; i < most && i < (int)json_array_size(greedy) && n < m->config.n_ctx && n < MAX_IDS; i++) {
        double *logits = reference_logits(m, ids, n);
        ids[n] = argmax(logits + (size_t)(n - 1) * (size_t)m->config.n_vocab, m->config.n_vocab);
        free(logits);
        int want = (int)json_integer_value(json_array_get(greedy, (size_t)i));
        if (ids[n] != want) fail_msg("%s: greedy token %d is %d, expected %d", what, i, ids[n], want);
        n++;
    }
}

/* {"sequences": [[ids]], "logits": [[[row]]]} */
static void same_as_sequences(const char *path, const char *golden_path, double tolerance) {
    model *m = load_as(path, DTYPE_F32, 0);
    json_t *golden = read_json(golden_path), *sequences = json_object_get(golden, "sequences");
    assert_true(json_array_size(sequences) > 0);
    for (size_t s = 0; s < json_array_size(sequences); s++) {
        int ids[MAX_IDS], n = read_ids(json_array_get(sequences, s), ids);
        const json_t *rows = json_array_get(json_object_get(golden, "logits"), s);
        double *logits = reference_logits(m, ids, n);
        assert_int_equal(json_array_size(rows), n);
        for (int t = 0; t < n; t++)
            same_row(path, logits + (size_t)t * (size_t)m->config.n_vocab, json_array_get(rows, (size_t)t), tolerance);
        free(logits);
    }
    json_decref(golden);
    model_free(m);
}

/* {"prompt_ids", "first_logits", "last_logits", "logsumexp_all", "greedy"} */
static void same_as_prompt(const char *path) {
    char golden_path[512];
    snprintf(golden_path, sizeof golden_path, "%s/golden.json", path);
    model *m = load_as(path, DTYPE_F32, 0);
    json_t *golden = read_json(golden_path), *sums = json_object_get(golden, "logsumexp_all");
    int ids[MAX_IDS], n = read_ids(json_object_get(golden, "prompt_ids"), ids);
    double *logits = reference_logits(m, ids, n);
    size_t v = (size_t)m->config.n_vocab;
    same_row(path, logits, json_object_get(golden, "first_logits"), 1e-4);
    same_row(path, logits + (size_t)(n - 1) * v, json_object_get(golden, "last_logits"), 1e-4);
    assert_int_equal(json_array_size(sums), n);
    for (size_t t = 0; t < (size_t)n; t++) {
        double sum = 0, want = json_number_value(json_array_get(sums, t));
        for (size_t i = 0; i < v; i++) sum += exp(logits[t * v + i]);
        if (!(fabs(log(sum) - want) < 1e-4))
            fail_msg("%s: row %zu's log of the sum is %g, expected %g", path, t, log(sum), want);
    }
    same_greedy(path, m, ids, n, json_object_get(golden, "greedy"), 8);
    free(logits);
    json_decref(golden);
    model_free(m);
}

/* {"prompts": [{"ids", "last_logits_first16", "argmax", "greedy"}]} */
static void same_as_prompts(const char *path, int weights, const char *golden_path, double tolerance) {
    model *m = load_as(path, weights, 0);
    json_t *golden = read_json(golden_path), *prompts = json_object_get(golden, "prompts"), *p;
    size_t i;
    assert_true(json_array_size(prompts) > 0);
    json_array_foreach(prompts, i, p) {
        int ids[MAX_IDS], n = read_ids(json_object_get(p, "ids"), ids);
        double *logits = reference_logits(m, ids, n), *last = logits + (size_t)(n - 1) * (size_t)m->config.n_vocab;
        same_row(path, last, json_object_get(p, "last_logits_first16"), tolerance);
        assert_int_equal(argmax(last, m->config.n_vocab), json_integer_value(json_object_get(p, "argmax")));
        same_greedy(path, m, ids, n, json_object_get(p, "greedy"), 8);
        free(logits);
    }
    json_decref(golden);
    model_free(m);
}

static void level_21_check_weights_give_the_lesson_s_logits(void **state) {
    (void)state;
    need_shared();
    model *m = load_as("level21/check_weights.json", -1, 4);
    json_t *golden = read_json("level21/golden_check.json");
    int ids[MAX_IDS], n = read_ids(json_object_get(golden, "input_ids"), ids);
    double *logits = reference_logits(m, ids, n);
    for (int t = 0; t < n; t++)
        same_row("level21", logits + (size_t)t * 15, json_array_get(json_object_get(golden, "logits"), (size_t)t), 1e-5);
    free(logits);
    json_decref(golden);
    model_free(m);
}

static void level_21_answers_as_it_was_trained_to(void **state) {
    (void)state;
    need_shared();
    model *m = load_as("level21/model.pt", -1, 0);
    json_t *golden = read_json("level21/golden_model.json"), *example;
    size_t i;
    assert_int_equal(config_params(&m->config).total, 102415);
    json_array_foreach(json_object_get(golden, "examples"), i, example) {
        const json_t *steps = json_object_get(example, "logits");
        int ids[MAX_IDS], n = read_ids(json_object_get(example, "ids"), ids), first = n - (int)json_array_size(steps);
        double *logits = reference_logits(m, ids, n);
        for (int t = first; t < n; t++) /* row t-? is the one that gave the id after it */
            same_row("level21", logits + (size_t)(t - 1) * 15, json_array_get(steps, (size_t)(t - first)), 1e-4);
        free(logits);
    }
    json_decref(golden);
    model_free(m);
}

static void hugging_face_folders_give_the_original_logits(void **state) {
    (void)state;
    need_shared();
    static const char *const folders[] = {"hf-tiny/gpt2-tiny",      "hf-tiny/llama-tiny-gqa", "hf-tiny/llama3-rope",
                                          "hf-tiny/mistral-window", "hf-tiny/qwen3-tiny",     "hf-tiny/neox-parallel"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) same_as_prompt(folders[i]);
    same_as_prompts("tiny-gpt2-hf", DTYPE_F32, "tiny-gpt2-hf/golden.json", 1e-4);
}

static void small_folders_of_every_family_give_the_original_logits(void **state) {
    (void)state;
    need_shared();
    static const char *const families[] = {"gpt2",   "llama", "mistral", "qwen2", "gptneox",    "gptneox_seq", "phi",
                                           "gemma2", "opt",   "gptneo",  "olmo2", "starcoder2", "bloom"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[128], golden[128];
        snprintf(path, sizeof path, "pico/%s", families[i]);
        snprintf(golden, sizeof golden, "pico/%s/logits.json", families[i]);
        same_as_sequences(path, golden, 1e-4);
    }
}

static void the_same_weights_in_other_containers_give_the_same_logits(void **state) {
    (void)state;
    need_shared();
    same_as_sequences("pico/gpt2-bin", "pico/gpt2/logits.json", 1e-4);
    same_as_sequences("pico/gpt2-bin-sharded", "pico/gpt2/logits.json", 1e-4);
    same_as_sequences("pico/llama-sharded", "pico/llama/logits.json", 1e-4);
    same_as_sequences("pico/llama-gguf/tiny_llama_f32.gguf", "pico/llama/logits.json", 1e-4);
    same_as_sequences("pico/llama-gguf/tiny_llama_f16.gguf", "pico/llama/logits.json", 2e-2);
}

static void stories260K_gives_the_original_logits_from_every_file(void **state) {
    (void)state;
    need_shared();
    same_as_prompts("stories260K/stories260K.bin", DTYPE_F32, "stories260K/golden.json", 1e-4);
    same_as_prompts("stories260K/stories260K.gguf", DTYPE_F32, "stories260K/golden.json", 1e-4);
    same_as_prompts("stories260K/stories260K-F16.gguf", -1, "stories260K/golden.json", 1e-2);
    same_as_prompts("stories260K/stories260K_q80_gs4.bin", -1, "stories260K/golden_q80.json", 1e-4);
    same_as_prompts("stories260K/stories260K_q80_gs4.bin", DTYPE_F32, "stories260K/golden_q80.json", 1e-4);
}

static void peoples_own_models_load_through_the_example_layouts(void **state) {
    (void)state;
    need_shared();
    layout_file = "docs/layouts/slm4096.json";
    same_as_prompts("slm4096/ckpt.pt", -1, "slm4096/golden.json", 1e-4);
    model *m = load_as("slm4096/ckpt.pt", -1, 0);
    assert_int_equal(json_array_size(m->vocabulary), 54);
    assert_string_equal(json_string_value(json_array_get(m->vocabulary, 0)), "\n");
    assert_string_equal(json_string_value(json_array_get(m->vocabulary, 28)), "a");
    model_free(m);
    layout_file = "docs/layouts/gpt_by_hand.json";
    same_as_prompts("gpt_by_hand/ckpt.pt", -1, "gpt_by_hand/golden.json", 1e-4);
    layout_file = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level_21_check_weights_give_the_lesson_s_logits),
        cmocka_unit_test(level_21_answers_as_it_was_trained_to),
        cmocka_unit_test(hugging_face_folders_give_the_original_logits),
        cmocka_unit_test(small_folders_of_every_family_give_the_original_logits),
        cmocka_unit_test(the_same_weights_in_other_containers_give_the_same_logits),
        cmocka_unit_test(stories260K_gives_the_original_logits_from_every_file),
        cmocka_unit_test(peoples_own_models_load_through_the_example_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
