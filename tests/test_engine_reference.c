/* test_engine_reference.c - the engine's logits against the double-precision reference: every feature of the block, every instruction set, and
 * every checkpoint at hand (whose reference logits are the original library's: test_goldens.c). */
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
#include "engine/engine.h"
#include "tests/reference.h"

static const char *const sets[] = {"portable", "avx2", "avx512"};

static void compare_counts(void *user, const step_report *r) {
    term_counts predicted;
    cost_predict(&predicted, user, r->plan);
    for (int i = 0; i < N_TERMS; i++) {
        if (predicted.n[i] != r->counted.n[i]) {
            fail_msg("%s: predicted %llu, counted %llu", term_table[i].key, (unsigned long long)predicted.n[i],
                     (unsigned long long)r->counted.n[i]);
        }
    }
}

/* The engine's logits of all rows, taken in chunks of 5, are within tolerance x max(1, largest |logit|) of the reference's. */
static void assert_agrees(const char *what, model *m, const int *ids, int n, const char *isa, bool blas, double tolerance) {
    engine_options o;
    engine *e;
    error err = {0};
    engine_options_init(&o);
    o.kv_type = DTYPE_F32;
    o.n_threads = 2;
    o.prefill_chunk = blas ? 512 : 5;
    o.isa = isa;
    o.blas = blas;
    o.int8_activations = false;
    if (engine_create(&e, m, &o, &err) != OK) fail_msg("%s: %s", what, err.message);
    engine_observe(e, compare_counts, &m->config);
    kv_sequence *s;
    size_t V = (size_t)m->config.n_vocab;
    float *logits = malloc((size_t)n * V * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(kv_sequence_create(&s, engine_cache(e), engine_n_ctx(e), &err), OK);
    if (engine_prefill(e, s, ids, n, n, logits, &err) != OK) fail_msg("%s: %s", what, err.message);
    double *expected = reference_logits(m, ids, n), largest = 1, worst = 0;
    for (size_t i = 0; i < (size_t)n * V; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = fmax(worst, fabs(expected[i] - (double)logits[i]));
    }
    if (!(worst <= tolerance * largest)) fail_msg("%s, %s: off by %g (largest logit %g)", what, isa, worst, largest);
    free(expected);
    free(logits);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
}

static bool has_set(const char *isa) {
    return kernel_set_choose(isa) != NULL;
}

static void random_agrees(const char *what, const model_config *c, dtype weights) {
    model_options mo;
    model *m;
    error err = {0};
    model_options_init(&mo);
    mo.weights = (int)weights;
    if (config_check(c, &err) != OK || model_random(&m, c, 9, &mo, &err) != OK) fail_msg("%s: %s", what, err.message);
    int ids[40];
    for (int i = 0; i < 40; i++) ids[i] = (i * 29 + 3) % c->n_vocab;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        if (has_set(sets[k])) assert_agrees(what, m, ids, 40, sets[k], false, 1e-4);
    }
    assert_agrees(what, m, ids, 40, "auto", true, 1e-3);
    model_free(m);
}

static model_config base(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 44, c.n_heads = 8, c.n_kv_heads = 8, c.head_dim = 10, c.d_ff = 53, c.n_vocab = 71, c.n_ctx = 64;
    c.rope_dim = 10, c.rope_base = 10000, c.attn_scale = 0.31f;
    return c;
}

static void any_number_of_kv_heads_agrees_and_takes_its_bytes(void **state) {
    (void)state;
    for (int n = 8; n >= 1; n /= 2) {
        model_config c = base();
        c.n_kv_heads = n;
        random_agrees("grouped queries", &c, DTYPE_F32);
        assert_int_equal(cost_kv_bytes_per_token(&c, DTYPE_F16), 2 * 3 * n * 10 * 2);
        assert_int_equal(cost_kv_bytes_per_token(&c, DTYPE_F32), 2 * 3 * n * 10 * 4);
    }
}

static void every_place_of_a_norm_agrees(void **state) {
    (void)state;
    model_config c = base();
    c.attn_post_norm = c.ffn_post_norm = true;
    c.qk_norm = QK_NORM_HEAD;
    random_agrees("four norms, q and k norms", &c, DTYPE_F32);
    c = base();
    c.attn_pre_norm = c.ffn_pre_norm = false;
    c.attn_post_norm = c.ffn_post_norm = true;
    c.qk_norm = QK_NORM_WIDTH;
    random_agrees("norms after, q and k over the width", &c, DTYPE_F32);
    c = base();
    c.attn_pre_norm = c.ffn_pre_norm = c.final_norm = false;
    c.attn_residual_norm = c.ffn_residual_norm = true;
    c.norm = NORM_LAYER, c.norm_bias = true, c.norm_eps = 1e-5f;
    c.embedding_norm = true;
    random_agrees("norms on the residual, no final one", &c, DTYPE_F32);
    c = base();
    c.parallel_residual = true;
    c.norm = NORM_LAYER, c.norm_bias = true;
    random_agrees("parallel", &c, DTYPE_F32);
    c.ffn_pre_norm = false;
    random_agrees("parallel, one norm for both", &c, DTYPE_F32);
}

static void every_kind_of_position_agrees(void **state) {
    (void)state;
    model_config c = base();
    c.position = POSITION_LEARNED;
    random_agrees("learned", &c, DTYPE_F16);
    c.position = POSITION_ALIBI;
    c.n_heads = 6, c.n_kv_heads = 6;
    random_agrees("ALiBi, heads not a power of two", &c, DTYPE_F32);
    c.position = POSITION_NONE;
    random_agrees("none", &c, DTYPE_F32);
    c = base();
    c.rope = ROPE_PAIRS, c.rope_dim = 6;
    random_agrees("part of a head, pairs", &c, DTYPE_F32);
    c.rope_scaling = ROPE_SCALING_LLAMA3, c.rope_factor = 8, c.rope_low_freq_factor = 1, c.rope_high_freq_factor = 4;
    c.rope_original_ctx = 16;
    random_agrees("llama3", &c, DTYPE_F32);
}

static void windows_caps_and_multipliers_agree(void **state) {
    (void)state;
    model_config c = base();
    c.window = 7;
    c.layer_windowed[0] = c.layer_windowed[2] = 1;
    c.attn_softcap = 5, c.final_softcap = 3;
    random_agrees("windows and caps", &c, DTYPE_F32);
    c.embedding_scale = 6.5f, c.residual_scale = 0.22f, c.logit_scale = 0.125f;
    random_agrees("multipliers", &c, DTYPE_F32);
    c.attn_post_norm = true;
    random_agrees("multipliers after a norm", &c, DTYPE_F32);
}

static void every_activation_agrees_gated_or_not_with_biases_tied_or_not(void **state) {
    (void)state;
    for (int a = ACTIVATION_RELU; a <= ACTIVATION_GELU_QUICK; a++) {
        model_config c = base();
        c.activation = (activation_kind)a;
        c.gated = a % 2 == 0;
        c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = a % 3 == 0;
        c.tied = a % 2 == 1;
        c.head_bias = a == ACTIVATION_SILU;
        random_agrees("activation", &c, a == ACTIVATION_RELU ? DTYPE_Q8_0 : DTYPE_F32);
    }
}

static void every_checkpoint_at_hand_agrees(void **state) {
    (void)state;
    static const char *const paths[] = {"hf-tiny/gpt2-tiny",
                                        "hf-tiny/llama-tiny-gqa",
                                        "hf-tiny/llama3-rope",
                                        "hf-tiny/mistral-window",
                                        "hf-tiny/neox-parallel",
                                        "hf-tiny/qwen3-tiny",
                                        "tiny-gpt2-hf",
                                        "pico/gpt2",
                                        "pico/llama",
                                        "pico/mistral",
                                        "pico/qwen2",
                                        "pico/gptneox",
                                        "pico/gptneox_seq",
                                        "pico/llama-sharded",
                                        "pico/gpt2-bin",
                                        "pico/gpt2-bin-sharded",
                                        "pico/llama-gguf/tiny_llama_f32.gguf",
                                        "stories260K/stories260K.bin",
                                        "stories260K/stories260K.gguf",
                                        "stories260K/stories260K-F16.gguf",
                                        "stories260K/stories260K_q80_gs4.bin",
                                        "level21/model.pt"};
    if (access("../shared/checkpoints", R_OK) != 0) {
        print_message("SKIP: ../shared/checkpoints is not here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char path[128];
        snprintf(path, sizeof path, "../shared/checkpoints/%s", paths[i]);
        model_options mo;
        model *m;
        error err = {0};
        model_options_init(&mo);
        if (model_load(&m, path, &mo, NULL, &err) != OK) fail_msg("%s", err.message);
        int n = m->config.n_ctx < 24 ? m->config.n_ctx : 24, ids[24];
        for (int k = 0; k < n; k++) ids[k] = (k * 13 + 1) % m->config.n_vocab;
        for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
            if (has_set(sets[k])) assert_agrees(path, m, ids, n, sets[k], false, 1e-4);
        }
        model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_kv_heads_agrees_and_takes_its_bytes),
        cmocka_unit_test(every_place_of_a_norm_agrees),
        cmocka_unit_test(every_kind_of_position_agrees),
        cmocka_unit_test(windows_caps_and_multipliers_agree),
        cmocka_unit_test(every_activation_agrees_gated_or_not_with_biases_tied_or_not),
        cmocka_unit_test(every_checkpoint_at_hand_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
