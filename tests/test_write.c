/* Writing: what is written reads back as the same numbers and the same function, in the family that fits, or in Tally's own form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/made_model.h"
#include "weights/save.h"
#include "weights/write.h"

static char path[512];

static model *random_of(const model_config *c, int weights) {
    model_options o = made_options();
    o.weights = weights;
    model *m = NULL;
    error e;
    if (model_random(&m, c, 9, &o, &e) != OK) fail_msg("%s", e.message);
    return m;
}

/* Writes, loads, compares; the layout that was used must be `layout`. */
static void gguf_round_trip(const model_config *c, const char *layout) {
    char *folder = folder_make();
    model *m = random_of(c, DTYPE_F32);
    write_options w = {.weights = -1};
    error e = {0};
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    if (write_gguf(m, path, &w, &e) != OK) fail_msg("%s", e.message);
    if (strcmp(w.layout, layout) != 0) fail_msg("written as %s, expected %s", w.layout, layout);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, w.bytes);
    model_options o = made_options();
    model *again = made_load(path, &o);
    const char *why = "";
    model_config meant = *c;
    if (c->position == POSITION_ROPE) meant.rope = again->config.rope;
    if (!config_same_function(&meant, &again->config, &why)) fail_msg("%s: %s differs", layout, why);
    double difference = made_difference(m, again, 12);
    if (!(difference <= 1e-5)) fail_msg("%s: logits differ by %g", layout, difference);
    model_free(again), model_free(m), folder_remove(folder);
}

static model_config family(const char *name) {
    model_config c = made_config();
    snprintf(c.family, sizeof c.family, "%s", name);
    return c;
}

static model_config layer_norm_family(const char *name) {
    model_config c = family(name);
    c.norm = NORM_LAYER, c.norm_bias = c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = true, c.gated = false;
    return c;
}

static void a_llama_becomes_a_llama(void **state) {
    (void)state;
    model_config c = family("llama");
    gguf_round_trip(&c, "llama-gguf");
    c.tied = true, c.q_bias = c.kv_bias = true;
    gguf_round_trip(&c, "llama-gguf");
    c.rope_scaling = ROPE_SCALING_LINEAR, c.rope_factor = 4;
    gguf_round_trip(&c, "llama-gguf");
    c.rope_scaling = ROPE_SCALING_LLAMA3, c.rope_factor = 8, c.rope_low_freq_factor = 1, c.rope_high_freq_factor = 4,
    c.rope_original_ctx = 16;
    gguf_round_trip(&c, "llama-gguf");
    c.rope_scaling = ROPE_SCALING_YARN, c.rope_beta_fast = 32, c.rope_beta_slow = 1;
    gguf_round_trip(&c, "llama-gguf");
}

static void families_of_their_own_become_themselves(void **state) {
    (void)state;
    model_config c = family("qwen2");
    c.q_bias = c.kv_bias = true;
    gguf_round_trip(&c, "qwen2-gguf");
    c = family("qwen3"), c.qk_norm = QK_NORM_HEAD;
    gguf_round_trip(&c, "qwen3-gguf");
    c = family("olmo2"), c.attn_pre_norm = c.ffn_pre_norm = false, c.attn_post_norm = c.ffn_post_norm = true,
    c.qk_norm = QK_NORM_WIDTH;
    gguf_round_trip(&c, "olmo2-gguf");
    c = family("granite"), c.embedding_scale = 12, c.residual_scale = 0.22f, c.logit_scale = 1 / 8.0f,
    c.attn_scale = 0.0078125f;
    gguf_round_trip(&c, "granite-gguf");
    c = family("gemma"), c.activation = ACTIVATION_GELU_TANH, c.embedding_scale = (float)sqrt(24), c.tied = true;
    gguf_round_trip(&c, "gemma-gguf");
    c = family("gemma2"), c.activation = ACTIVATION_GELU_TANH, c.embedding_scale = (float)sqrt(24), c.tied = true;
    c.attn_post_norm = c.ffn_post_norm = true, c.attn_softcap = 50, c.final_softcap = 30, c.window = 8;
    c.layer_windowed[0] = c.layer_windowed[2] = 1;
    gguf_round_trip(&c, "gemma2-gguf");
}

static void families_with_layer_norm_become_themselves(void **state) {
    (void)state;
    model_config c = layer_norm_family("gpt2");
    c.position = POSITION_LEARNED, c.rope_dim = 0, c.tied = true, c.activation = ACTIVATION_GELU_TANH, c.n_kv_heads = 4;
    gguf_round_trip(&c, "gpt2-gguf");
    c = layer_norm_family("gpt_neox"), c.activation = ACTIVATION_GELU_ERF, c.n_kv_heads = 4, c.rope_dim = 4,
    c.parallel_residual = true;
    gguf_round_trip(&c, "gptneox-gguf");
    c.parallel_residual = false;
    gguf_round_trip(&c, "gptneox-gguf");
    c = layer_norm_family("starcoder2"), c.activation = ACTIVATION_GELU_TANH;
    gguf_round_trip(&c, "starcoder2-gguf");
    c = layer_norm_family("bloom"), c.activation = ACTIVATION_GELU_TANH, c.position = POSITION_ALIBI, c.rope_dim = 0,
    c.embedding_norm = true;
    c.n_kv_heads = 4, c.tied = true;
    gguf_round_trip(&c, "bloom-gguf");
    c = layer_norm_family("phi"), c.activation = ACTIVATION_GELU_TANH, c.parallel_residual = true, c.ffn_pre_norm = false,
    c.head_bias = true;
    c.rope_dim = 4;
    gguf_round_trip(&c, "phi2-gguf");
    c = layer_norm_family("falcon"), c.activation = ACTIVATION_GELU_ERF, c.parallel_residual = true, c.ffn_pre_norm = false,
    c.n_kv_heads = 1;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = false;
    gguf_round_trip(&c, "falcon-gguf");
    c.ffn_pre_norm = true, c.n_kv_heads = 2;
    gguf_round_trip(&c, "falcon40-gguf");
}

static void what_no_family_computes_is_written_in_tally_s_own_form(void **state) {
    (void)state;
    model_config c = family("mine");
    c.norm = NORM_LAYER, c.norm_bias = true, c.position = POSITION_LEARNED, c.rope_dim = 0, c.activation = ACTIVATION_RELU2;
    c.attn_post_norm = c.ffn_post_norm = c.attn_residual_norm = c.ffn_residual_norm = c.embedding_norm = true;
    c.qk_norm = QK_NORM_WIDTH, c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.head_bias = true;
    c.window = 5, c.layer_windowed[1] = 1, c.attn_softcap = 7, c.residual_scale = 0.3f, c.n_kv_heads = 1;
    gguf_round_trip(&c, "tally-gguf");
    c.position = POSITION_ROPE, c.rope_dim = 6, c.rope_local_base = 77, c.rope_scaling = ROPE_SCALING_FACTORS, c.tied = true;
    c.rope_factors[0] = 1, c.rope_factors[1] = 1.5f, c.rope_factors[2] = 3.25f;
    gguf_round_trip(&c, "tally-gguf");
}

/* Llama without its window computes the same up to that many tokens. */
static void a_window_becomes_a_shorter_context_where_the_family_has_none(void **state) {
    (void)state;
    model_config c = family("mistral");
    c.window = 12, c.layer_windowed[0] = c.layer_windowed[1] = c.layer_windowed[2] = 1;
    gguf_round_trip(&c, "llama-gguf");
}

static void types_are_written_as_asked_and_int8_bytes_are_kept(void **state) {
    (void)state;
    static const int types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    model_config c = family("llama");
    c.d_model = 64, c.n_heads = 4, c.head_dim = 16, c.rope_dim = 16, c.d_ff = 100; /* rows of 100 are no whole blocks of 32 */
    for (int i = 0; i < 3; i++) {
        char *folder = folder_make();
        model *m = random_of(&c, types[i]);
        write_options w = {.weights = -1};
        error e = {0};
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        if (write_gguf(m, path, &w, &e) != OK) fail_msg("%s", e.message);
        model_options o = made_options();
        model *again = made_load(path, &o);
        assert_int_equal(again->layers[0].w_up.type, types[i]);
        assert_int_equal(again->layers[0].w_down.type, types[i] == DTYPE_Q8_0 ? DTYPE_F16 : types[i]);
        unsigned char a[512], b[512];
        for (int r = 0; r < 100; r++) { /* w_up is not permuted: the same bytes */
            matrix_row_raw(a, &m->layers[1].w_up, r), matrix_row_raw(b, &again->layers[1].w_up, r);
            assert_memory_equal(a, b, m->layers[1].w_up.row_bytes);
        }
        model_free(m), model_free(again), folder_remove(folder);
    }
}

/* K/V head j of the file is the mean of heads 2j and 2j + 1. */
static void kv_heads_are_merged_by_averaging(void **state) {
    (void)state;
    model_config c = family("llama");
    c.n_kv_heads = 4, c.kv_bias = c.q_bias = true;
    char *folder = folder_make();
    model *m = random_of(&c, DTYPE_F32);
    write_options w = {.weights = -1, .n_kv_heads = 2};
    error e = {0};
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    if (write_gguf(m, path, &w, &e) != OK) fail_msg("%s", e.message);
    model_options o = made_options();
    model *again = made_load(path, &o);
    assert_int_equal(again->config.n_kv_heads, 2);
    block k = block_of(m, ROLE_K, 1, false), merged = block_of(again, ROLE_K, 1, false), v = block_of(m, ROLE_V, 1, true);
    block pairs = block_to_pairs(&k, 10), v_merged = block_of(again, ROLE_V, 1, true);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 10; i++) {
            for (int d = 0; d < 24; d++) {
                float mean = pairs.x[(20 * j + i) * 24 + d] / 2 + pairs.x[(20 * j + 10 + i) * 24 + d] / 2;
                assert_true(fabsf(merged.x[(10 * j + i) * 24 + d] - mean) < 1e-6f);
            }
            assert_true(fabsf(v_merged.x[10 * j + i] - (v.x[20 * j + i] + v.x[20 * j + 10 + i]) / 2) < 1e-6f);
        }
    block_free(&k), block_free(&merged), block_free(&v), block_free(&pairs), block_free(&v_merged);
    model_free(again);
    w.n_kv_heads = 3;
    assert_int_equal(write_gguf(m, path, &w, &e), ERR_ARGUMENT);
    assert_non_null(strstr(e.message, "4 K/V heads cannot be averaged into 3"));
    model_free(m), folder_remove(folder);
}

static void safetensors_folders_read_back(void **state) {
    (void)state;
    model_config c = family("mine");
    c.activation = ACTIVATION_RELU2, c.position = POSITION_LEARNED, c.rope_dim = 0;
    char *folder = folder_make();
    model *m = random_of(&c, DTYPE_F32);
    m->n_eos = 2, m->eos_ids[0] = 3, m->eos_ids[1] = 5, m->bos_id = 1;
    write_options w = {.weights = -1};
    error e = {0};
    if (write_safetensors(m, folder, &w, &e) != OK) fail_msg("%s", e.message);
    assert_string_equal(w.layout, "tally-safetensors");
    model_options o = made_options();
    model *again = made_load(folder, &o);
    assert_true(made_difference(m, again, 12) == 0);
    assert_int_equal(again->n_eos, 2);
    assert_int_equal(again->eos_ids[1], 5);
    assert_int_equal(again->bos_id, 1);
    w.weights = DTYPE_Q8_0;
    assert_int_equal(write_safetensors(m, folder, &w, &e), ERR_ARGUMENT);
    model_free(m), model_free(again), folder_remove(folder);
}

/* From a Hugging Face folder to another, through the family's own names: transposed and fused as they were. */
static void a_hugging_face_family_keeps_its_names(void **state) {
    (void)state;
    static const struct {
        const char *layout, *config;
        bool layer_norm;
    } cases[] = {
        {"llama",
         "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "
         "\"max_position_embeddings\": 64, \"tie_word_embeddings\": false}",
         false},
        {"gpt2",
         "{\"model_type\": \"gpt2\", \"n_head\": 4, \"n_positions\": 64, \"activation_function\": \"gelu_new\", "
         "\"tie_word_embeddings\": false}",
         true},
        {"gpt_neox",
         "{\"model_type\": \"gpt_neox\", \"num_attention_heads\": 4, \"rotary_pct\": 0.4, \"max_position_embeddings\": 64, "
         "\"hidden_act\": \"gelu\", \"tie_word_embeddings\": false}",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config c = cases[i].layer_norm ? layer_norm_family("x") : family("x");
        if (i > 0) c.n_kv_heads = 4;
        if (i == 1) c.position = POSITION_LEARNED, c.rope_dim = 0, c.activation = ACTIVATION_GELU_TANH;
        if (i == 2) c.rope_dim = 4, c.activation = ACTIVATION_GELU_ERF, c.parallel_residual = true;
        char *folder = folder_make();
        model *m = random_of(&c, DTYPE_F32);
        snprintf(m->layout, sizeof m->layout, "%s", cases[i].layout);
        json_t *config = json_loads(cases[i].config, 0, NULL);
        write_options w = {.weights = -1, .source = config};
        error e = {0};
        if (write_safetensors(m, folder, &w, &e) != OK) fail_msg("%s", e.message);
        assert_string_equal(w.layout, cases[i].layout);
        model_options o = made_options();
        model *again = made_load(folder, &o);
        assert_string_equal(again->layout, cases[i].layout);
        assert_true(made_difference(m, again, 12) == 0);
        json_decref(config), model_free(m), model_free(again), folder_remove(folder);
    }
}

static void nothing_is_left_behind_by_a_failure(void **state) {
    (void)state;
    model_config c = family("llama");
    char *folder = folder_make(), partial[600];
    model *m = random_of(&c, DTYPE_F32);
    ((float *)m->layers[2].w_down.data)[0] = 1e6f; /* the last tensor but two: the file is well under way by then */
    write_options w = {.weights = DTYPE_F16};
    error e = {0};
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    folder_put(folder, "m.gguf", "old", 3);
    assert_int_not_equal(write_gguf(m, path, &w, &e), OK);
    assert_non_null(strstr(e.message, "1 weights are too large for fp16"));
    snprintf(partial, sizeof partial, "%s.partial", path);
    assert_int_not_equal(access(partial, F_OK), 0);
    FILE *f = fopen(path, "rb");
    char old[8] = {0};
    assert_int_equal(fread(old, 1, 8, f), 3);
    assert_string_equal(old, "old");
    fclose(f);
    assert_int_equal(write_gguf(m, folder, &w, &e), ERR_IO); /* a folder of that name */
    assert_int_equal(write_gguf(m, "/nowhere/at/all.gguf", &w, &e), ERR_IO);
    model_free(m), folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_becomes_a_llama),
        cmocka_unit_test(families_of_their_own_become_themselves),
        cmocka_unit_test(families_with_layer_norm_become_themselves),
        cmocka_unit_test(what_no_family_computes_is_written_in_tally_s_own_form),
        cmocka_unit_test(a_window_becomes_a_shorter_context_where_the_family_has_none),
        cmocka_unit_test(types_are_written_as_asked_and_int8_bytes_are_kept),
        cmocka_unit_test(kv_heads_are_merged_by_averaging),
        cmocka_unit_test(safetensors_folders_read_back),
        cmocka_unit_test(a_hugging_face_family_keeps_its_names),
        cmocka_unit_test(nothing_is_left_behind_by_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
