/* Families without files of other programs at hand: small checkpoints in their names and config.json keys,
 * as the original code defines them, must compute what the reference (written from the papers) makes of the same numbers. The GGUF names of
 * these families are compared with llama.cpp by tools/check_llama_cpp.sh. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/made_family.h"

/* Hugging Face's names that most families share. */
#define LLAMA_ATTENTION(gain)                                                                                                  \
    {ROLE_EMBEDDING, PLAIN, "model.embed_tokens.weight", NULL}, {ROLE_FINAL_NORM, gain, "model.norm.weight", NULL},            \
        {ROLE_HEAD, PLAIN, "lm_head.weight", NULL},                                                                            \
        {ROLE_ATTN_PRE_NORM, gain, "model.layers.%d.input_layernorm.weight", NULL}, {                                          \
        ROLE_O, PLAIN, "model.layers.%d.self_attn.o_proj.weight", NULL                                                         \
    }
#define LLAMA_QKV                                                                                                              \
    {ROLE_Q, PLAIN, "model.layers.%d.self_attn.q_proj.weight", NULL},                                                          \
        {ROLE_K, PLAIN, "model.layers.%d.self_attn.k_proj.weight", NULL}, {                                                    \
        ROLE_V, PLAIN, "model.layers.%d.self_attn.v_proj.weight", NULL                                                         \
    }
#define LLAMA_FFN                                                                                                              \
    {ROLE_GATE, PLAIN, "model.layers.%d.mlp.gate_proj.weight", NULL},                                                          \
        {ROLE_UP, PLAIN, "model.layers.%d.mlp.up_proj.weight", NULL}, {                                                        \
        ROLE_DOWN, PLAIN, "model.layers.%d.mlp.down_proj.weight", NULL                                                         \
    }

#define COMMON                                                                                                                 \
    "\"num_attention_heads\": 4, \"num_hidden_layers\": 3, \"hidden_size\": 24, \"vocab_size\": 31, "                          \
    "\"max_position_embeddings\": 64"

static void gemma_adds_one_to_gains_and_scales_embeddings(void **state) {
    (void)state;
    static const entry names[] = {LLAMA_ATTENTION(LESS_ONE),
                                  LLAMA_QKV,
                                  LLAMA_FFN,
                                  {ROLE_FFN_PRE_NORM, LESS_ONE, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.tied = true, c.activation = ACTIVATION_GELU_TANH, c.embedding_scale = (float)sqrt(24), c.norm_eps = 1e-6f;
    computes_the_same(&c, names,
                      "{\"model_type\": \"gemma\", " COMMON
                      ", \"num_key_value_heads\": 2, \"head_dim\": 10, \"rms_norm_eps\": 1e-6, "
                      "\"hidden_act\": \"gelu\", \"rope_theta\": 10000.0}",
                      &o, "gemma");
}

static void gemma3_has_two_rotary_bases_and_a_full_layer_after_every_five(void **state) {
    (void)state;
    static const entry names[] = {LLAMA_ATTENTION(LESS_ONE),
                                  LLAMA_QKV,
                                  LLAMA_FFN,
                                  {ROLE_ATTN_POST_NORM, LESS_ONE, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, LESS_ONE, "model.layers.%d.pre_feedforward_layernorm.weight", NULL},
                                  {ROLE_FFN_POST_NORM, LESS_ONE, "model.layers.%d.post_feedforward_layernorm.weight", NULL},
                                  {ROLE_Q_NORM, LESS_ONE, "model.layers.%d.self_attn.q_norm.weight", NULL},
                                  {ROLE_K_NORM, LESS_ONE, "model.layers.%d.self_attn.k_norm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.n_layers = 7, c.tied = true, c.activation = ACTIVATION_GELU_TANH, c.embedding_scale = (float)sqrt(24), c.norm_eps = 1e-6f;
    c.attn_post_norm = c.ffn_post_norm = true, c.qk_norm = QK_NORM_HEAD, c.attn_scale = 0.25f;
    c.rope_base = 1e6, c.rope_local_base = 1e4, c.window = 5;
    for (int il = 0; il < 7; il++) c.layer_windowed[il] = il != 5;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"gemma3_text\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "
        "\"rms_norm_eps\": "
        "1e-6, \"hidden_activation\": \"gelu_pytorch_tanh\", \"query_pre_attn_scalar\": 16, \"rope_theta\": 1000000.0, "
        "\"rope_local_base_freq\": 10000.0, \"sliding_window\": 5, \"sliding_window_pattern\": 6, \"attn_logit_softcapping\": "
        "null, "
        "\"final_logit_softcapping\": null, \"max_position_embeddings\": 64}",
        &o, "gemma3");
    computes_the_same(
        &c, names,
        "{\"model_type\": \"gemma3_text\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "
        "\"rms_norm_eps\": "
        "1e-6, \"query_pre_attn_scalar\": 16, \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1000000.0}, "
        "\"sliding_attention\": {\"rope_theta\": 10000.0}}, \"sliding_window\": 5, \"layer_types\": [\"sliding_attention\", "
        "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"full_attention\", "
        "\"sliding_attention\"], \"max_position_embeddings\": 64}",
        &o, "gemma3");
}

static void phi3_has_fused_matrices_and_longrope(void **state) {
    (void)state;
    static const entry names[] = {LLAMA_ATTENTION(PLAIN),
                                  {ROLE_Q, FUSED, "model.layers.%d.self_attn.qkv_proj.weight", NULL},
                                  {ROLE_UP, GATE_UP, "model.layers.%d.mlp.gate_up_proj.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "model.layers.%d.mlp.down_proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.d_model = 40; /* head_dim is d_model / heads in this family */
    c.window = 6, c.layer_windowed[0] = c.layer_windowed[1] = c.layer_windowed[2] = 1;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"phi3\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64, "
        "\"original_max_position_embeddings\": 64, \"rope_scaling\": null, \"sliding_window\": 6, \"hidden_act\": \"silu\", "
        "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}",
        &o, "phi3");
    c.rope_scaling = ROPE_SCALING_FACTORS, c.rope_factor = 8, c.rope_original_ctx = 64;
    for (int i = 0; i < 5; i++) c.rope_factors[i] = 1 + (float)i / 4;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"phi3\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, "
        "\"original_max_position_embeddings\": 64, \"sliding_window\": 6, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, "
        "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1.0, 1.25, 1.5, 1.75, 2.0], "
        "\"long_factor\": [1.0, 2.0, 3.0, 4.0, 5.0]}, \"tie_word_embeddings\": false}",
        &o, "phi3");
}

static void gptj_turns_pairs_in_part_of_a_head(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "transformer.wte.weight", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "transformer.h.%d.ln_1.weight", NULL},
                                  {ROLE_Q, PLAIN, "transformer.h.%d.attn.q_proj.weight", NULL},
                                  {ROLE_K, PLAIN, "transformer.h.%d.attn.k_proj.weight", NULL},
                                  {ROLE_V, PLAIN, "transformer.h.%d.attn.v_proj.weight", NULL},
                                  {ROLE_O, PLAIN, "transformer.h.%d.attn.out_proj.weight", NULL},
                                  {ROLE_UP, PLAIN, "transformer.h.%d.mlp.fc_in.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "transformer.h.%d.mlp.fc_out.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "transformer.ln_f.weight", NULL},
                                  {ROLE_HEAD, PLAIN, "lm_head.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.n_kv_heads = 4, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.rope_dim = 4, c.rope = ROPE_PAIRS;
    c.norm = NORM_LAYER, c.norm_bias = true, c.gated = false, c.activation = ACTIVATION_GELU_TANH,
    c.ffn_bias = c.head_bias = true;
    c.parallel_residual = true, c.ffn_pre_norm = false;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"gptj\", \"n_head\": 4, \"n_layer\": 3, \"n_embd\": 24, \"n_inner\": 28, \"n_positions\": 64, "
        "\"rotary_dim\": 4, \"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\", "
        "\"tie_word_embeddings\": false}",
        &o, "gptj");
}

static void gpt_bigcode_has_one_kv_head(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "transformer.wte.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "transformer.wpe.weight", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "transformer.h.%d.ln_1.weight", NULL},
                                  {ROLE_Q, FUSED, "transformer.h.%d.attn.c_attn.weight", NULL},
                                  {ROLE_O, PLAIN, "transformer.h.%d.attn.c_proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "transformer.h.%d.ln_2.weight", NULL},
                                  {ROLE_UP, PLAIN, "transformer.h.%d.mlp.c_fc.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "transformer.h.%d.mlp.c_proj.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "transformer.ln_f.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.n_kv_heads = 1, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.rope_dim = 0, c.position = POSITION_LEARNED;
    c.norm = NORM_LAYER, c.norm_bias = true, c.gated = false, c.activation = ACTIVATION_GELU_TANH;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.tied = true;
    computes_the_same(&c, names,
                      "{\"model_type\": \"gpt_bigcode\", \"n_head\": 4, \"n_layer\": 3, \"n_embd\": 24, \"n_inner\": 28, "
                      "\"n_positions\": 64, "
                      "\"multi_query\": true, \"activation_function\": \"gelu_pytorch_tanh\"}",
                      &o, "gpt_bigcode");
}

static void granite_multiplies_embeddings_branches_scores_and_logits(void **state) {
    (void)state;
    static const entry names[] = {LLAMA_ATTENTION(PLAIN),
                                  LLAMA_QKV,
                                  LLAMA_FFN,
                                  {ROLE_FFN_PRE_NORM, PLAIN, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.embedding_scale = 12, c.residual_scale = 0.22f, c.logit_scale = 0.125f, c.attn_scale = 0.015625f;
    computes_the_same(&c, names,
                      "{\"model_type\": \"granite\", " COMMON
                      ", \"num_key_value_heads\": 2, \"head_dim\": 10, \"hidden_act\": \"silu\", "
                      "\"attention_multiplier\": 0.015625, \"embedding_multiplier\": 12.0, \"residual_multiplier\": 0.22, "
                      "\"logits_scaling\": 8.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}",
                      &o, "granite");
}

static void stablelm_has_layer_norm_and_partial_rotary(void **state) {
    (void)state;
    static const entry names[] = {LLAMA_ATTENTION(PLAIN),
                                  LLAMA_QKV,
                                  LLAMA_FFN,
                                  {ROLE_FFN_PRE_NORM, PLAIN, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.d_model = 40, c.norm = NORM_LAYER, c.norm_bias = true, c.rope_dim = 4, c.q_bias = c.kv_bias = true;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"stablelm\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": "
        "64, "
        "\"partial_rotary_factor\": 0.4, \"layer_norm_eps\": 1e-5, \"hidden_act\": \"silu\", \"use_qkv_bias\": true, "
        "\"use_parallel_residual\": false, \"tie_word_embeddings\": false}",
        &o, "stablelm");
    c.parallel_residual = true, c.ffn_pre_norm = false;
    computes_the_same(
        &c, names,
        "{\"model_type\": \"stablelm\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": "
        "64, "
        "\"partial_rotary_factor\": 0.4, \"layer_norm_eps\": 1e-5, \"hidden_act\": \"silu\", \"use_qkv_bias\": true, "
        "\"use_parallel_residual\": true, \"tie_word_embeddings\": false}",
        &o, "stablelm");
}

static void falcon_shares_one_norm_or_has_two_and_groups_its_heads(void **state) {
    (void)state;
    static const entry one[] = {{ROLE_EMBEDDING, PLAIN, "transformer.word_embeddings.weight", NULL},
                                {ROLE_ATTN_PRE_NORM, PLAIN, "transformer.h.%d.input_layernorm.weight", NULL},
                                {ROLE_Q, BY_GROUP, "transformer.h.%d.self_attention.query_key_value.weight", NULL},
                                {ROLE_O, PLAIN, "transformer.h.%d.self_attention.dense.weight", NULL},
                                {ROLE_UP, PLAIN, "transformer.h.%d.mlp.dense_h_to_4h.weight", NULL},
                                {ROLE_DOWN, PLAIN, "transformer.h.%d.mlp.dense_4h_to_h.weight", NULL},
                                {ROLE_FINAL_NORM, PLAIN, "transformer.ln_f.weight", NULL},
                                END};
    entry two[sizeof one / sizeof *one + 1];
    memcpy(two, one, sizeof one);
    two[1].weight = "transformer.h.%d.ln_attn.weight";
    two[7] = (entry){ROLE_FFN_PRE_NORM, PLAIN, "transformer.h.%d.ln_mlp.weight", NULL}, two[8] = (entry)END;
    model_config c = made_config();
    model_options o = made_options();
    c.n_kv_heads = 1, c.head_dim = 6, c.rope_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.norm = NORM_LAYER,
    c.norm_bias = true;
    c.gated = false, c.activation = ACTIVATION_GELU_ERF, c.parallel_residual = true, c.ffn_pre_norm = false, c.tied = true;
    computes_the_same(
        &c, one,
        "{\"model_type\": \"falcon\", \"num_attention_heads\": 4, \"num_hidden_layers\": 3, \"multi_query\": true, "
        "\"parallel_attn\": "
        "true, \"new_decoder_architecture\": false, \"alibi\": false, \"bias\": false, \"layer_norm_epsilon\": 1e-5}",
        &o, "falcon");
    c.n_kv_heads = 2, c.ffn_pre_norm = true;
    computes_the_same(
        &c, two,
        "{\"model_type\": \"falcon\", \"num_attention_heads\": 4, \"num_kv_heads\": 2, \"new_decoder_architecture\": true, "
        "\"alibi\": false, \"bias\": false, \"layer_norm_epsilon\": 1e-5}",
        &o, "falcon");
    c.n_kv_heads = 4, c.ffn_pre_norm = true, c.parallel_residual = false, c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = true;
    two[1].weight = "transformer.h.%d.input_layernorm.weight",
    two[7].weight = "transformer.h.%d.post_attention_layernorm.weight";
    computes_the_same(&c, two,
                      "{\"model_type\": \"falcon\", \"num_attention_heads\": 4, \"multi_query\": false, \"parallel_attn\": "
                      "false, \"bias\": true, "
                      "\"layer_norm_epsilon\": 1e-5}",
                      &o, "falcon");
}

static void opt_350m_has_its_norms_after_the_addition(void **state) {
    (void)state;
#define OPT "model.decoder.layers.%d."
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "model.decoder.embed_tokens.weight", NULL},
                                  {ROLE_Q, PLAIN, OPT "self_attn.q_proj.weight", NULL},
                                  {ROLE_K, PLAIN, OPT "self_attn.k_proj.weight", NULL},
                                  {ROLE_V, PLAIN, OPT "self_attn.v_proj.weight", NULL},
                                  {ROLE_O, PLAIN, OPT "self_attn.out_proj.weight", NULL},
                                  {ROLE_ATTN_RESIDUAL_NORM, PLAIN, OPT "self_attn_layer_norm.weight", NULL},
                                  {ROLE_UP, PLAIN, OPT "fc1.weight", NULL},
                                  {ROLE_DOWN, PLAIN, OPT "fc2.weight", NULL},
                                  {ROLE_FFN_RESIDUAL_NORM, PLAIN, OPT "final_layer_norm.weight", NULL},
                                  END};
    model_config c = made_config();
    c.n_kv_heads = 4, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.rope_dim = 0, c.position = POSITION_LEARNED;
    c.norm = NORM_LAYER, c.norm_bias = true, c.gated = false, c.activation = ACTIVATION_RELU;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.tied = true;
    c.attn_pre_norm = c.ffn_pre_norm = c.final_norm = false, c.attn_residual_norm = c.ffn_residual_norm = true;
    model *m = made_random(&c);
    tensor_file f = {0};
    for (const entry *t = names; t->weight != NULL; t++)
        for (int il = role_in_layers(t->role) ? 0 : -1; il < (role_in_layers(t->role) ? 3 : 0); il++)
            file_add_entry(&f, m, t, il);
    block positions = block_of(m, ROLE_POSITIONS, -1, false),
          shifted = block_rows(&positions, 0, 2); /* two rows that are never read */
    block_append(&shifted, &positions);
    file_add(&f, "model.decoder.embed_positions.weight", &shifted);
    char *folder = file_folder(&f, "{\"model_type\": \"opt\", \"num_attention_heads\": 4, \"do_layer_norm_before\": false, "
                                   "\"max_position_embeddings\": 64, "
                                   "\"ffn_dim\": 28, \"activation_function\": \"relu\"}");
    model_options o = made_options();
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 14) < 1e-6);
    block_free(&positions), block_free(&shifted);
    model_free(loaded), model_free(m), folder_remove(folder);
}

static void cerebras_gpt_and_smollm_are_known_by_another_s_name(void **state) {
    (void)state;
    static const entry gpt2[] = {{ROLE_EMBEDDING, PLAIN, "transformer.wte.weight", NULL},
                                 {ROLE_POSITIONS, PLAIN, "transformer.wpe.weight", NULL},
                                 {ROLE_ATTN_PRE_NORM, PLAIN, "transformer.h.%d.ln_1.weight", NULL},
                                 {ROLE_O, TRANSPOSED, "transformer.h.%d.attn.c_proj.weight", NULL},
                                 {ROLE_FFN_PRE_NORM, PLAIN, "transformer.h.%d.ln_2.weight", NULL},
                                 {ROLE_UP, TRANSPOSED, "transformer.h.%d.mlp.c_fc.weight", NULL},
                                 {ROLE_DOWN, TRANSPOSED, "transformer.h.%d.mlp.c_proj.weight", NULL},
                                 {ROLE_FINAL_NORM, PLAIN, "transformer.ln_f.weight", NULL},
                                 END};
    static const entry llama[] = {LLAMA_ATTENTION(PLAIN),
                                  LLAMA_QKV,
                                  LLAMA_FFN,
                                  {ROLE_FFN_PRE_NORM, PLAIN, "model.layers.%d.post_attention_layernorm.weight", NULL},
                                  END};
    model_config c = made_config();
    model_options o = made_options();
    c.tied = true;
    computes_the_same(&c, llama,
                      "{\"model_type\": \"llama\", " COMMON
                      ", \"num_key_value_heads\": 2, \"head_dim\": 10, \"hidden_act\": \"silu\", "
                      "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true, \"rope_interleaved\": false}",
                      &o, "llama");
    /* Cerebras-GPT: GPT-2 with the exact GELU. */
    c.n_kv_heads = 4, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.rope_dim = 0, c.position = POSITION_LEARNED;
    c.norm = NORM_LAYER, c.norm_bias = true, c.gated = false, c.activation = ACTIVATION_GELU_ERF;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = true;
    model *m = made_random(&c);
    tensor_file f = {0};
    for (const entry *t = gpt2; t->weight != NULL; t++)
        for (int il = role_in_layers(t->role) ? 0 : -1; il < (role_in_layers(t->role) ? 3 : 0); il++)
            file_add_entry(&f, m, t, il);
    for (int il = 0; il < 3; il++)
        for (int bias = 0; bias < 2; bias++) {
            entry t = {ROLE_Q, FUSED, "", NULL};
            block b = entry_arranged(m, &t, il, bias, 0), turned = bias ? block_rows(&b, 0, b.n_rows) : block_transposed(&b);
            char name[128];
            snprintf(name, sizeof name, "transformer.h.%d.attn.c_attn.%s", il, bias ? "bias" : "weight");
            file_add(&f, name, &turned);
            block_free(&b), block_free(&turned);
        }
    char *folder = file_folder(
        &f, "{\"model_type\": \"gpt2\", \"n_head\": 4, \"n_layer\": 3, \"n_embd\": 24, \"n_inner\": 28, \"n_positions\": 64, "
            "\"activation_function\": \"gelu\", \"scale_attn_weights\": true}");
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 14) < 1e-6);
    model_free(loaded), model_free(m), folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma_adds_one_to_gains_and_scales_embeddings),
        cmocka_unit_test(gemma3_has_two_rotary_bases_and_a_full_layer_after_every_five),
        cmocka_unit_test(phi3_has_fused_matrices_and_longrope),
        cmocka_unit_test(gptj_turns_pairs_in_part_of_a_head),
        cmocka_unit_test(gpt_bigcode_has_one_kv_head),
        cmocka_unit_test(granite_multiplies_embeddings_branches_scores_and_logits),
        cmocka_unit_test(stablelm_has_layer_norm_and_partial_rotary),
        cmocka_unit_test(falcon_shares_one_norm_or_has_two_and_groups_its_heads),
        cmocka_unit_test(opt_350m_has_its_norms_after_the_addition),
        cmocka_unit_test(cerebras_gpt_and_smollm_are_known_by_another_s_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
