/* The models that tutorials build: small checkpoints in their names must compute what the reference makes of the same numbers, and what names
 * cannot tell is asked for. */
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

static char *given_folder, given_path[512];

static model_options given(const char *config) {
    model_options o = made_options();
    given_folder = folder_make();
    folder_put(given_folder, "given.json", config, strlen(config));
    snprintf(given_path, sizeof given_path, "%s/given.json", given_folder);
    o.config_file = given_path;
    return o;
}

static model_config learned_gpt(void) {
    model_config c = made_config();
    c.n_kv_heads = 4, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)), c.rope_dim = 0, c.position = POSITION_LEARNED;
    c.norm = NORM_LAYER, c.norm_bias = true, c.gated = false, c.activation = ACTIVATION_RELU, c.o_bias = c.ffn_bias = true;
    return c;
}

static void a_module_for_each_head_asks_how_attention_is_scaled(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "token_embedding_table.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "position_embedding_table.weight", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "blocks.%d.ln1.weight", NULL},
                                  {ROLE_Q, EACH_HEAD, "blocks.%d.sa.heads.%d.query.weight", NULL},
                                  {ROLE_K, EACH_HEAD, "blocks.%d.sa.heads.%d.key.weight", NULL},
                                  {ROLE_V, EACH_HEAD, "blocks.%d.sa.heads.%d.value.weight", NULL},
                                  {ROLE_O, PLAIN, "blocks.%d.sa.proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "blocks.%d.ln2.weight", NULL},
                                  {ROLE_UP, PLAIN, "blocks.%d.ffwd.net.0.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "blocks.%d.ffwd.net.2.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "ln_f.weight", NULL},
                                  {ROLE_HEAD, PLAIN, "lm_head.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    c.head_bias = true;
    model_options o = given("{\"attn_scale_by\": \"head_dim\"}"), bare = made_options();
    computes_the_same(&c, names, NULL, &o, "lecture-gpt");
    folder_remove(given_folder);
    c.attn_scale = (float)(1 / sqrt(24));
    o = given("{\"attn_scale_by\": \"d_model\"}");
    computes_the_same(&c, names, NULL, &o, "lecture-gpt");
    model *m = made_random(&c);
    char *folder = family_folder(m, names, NULL);
    made_refused(folder, &bare, "attention scale: by head_dim, or by d_model");
    folder_remove(given_folder), folder_remove(folder), model_free(m);
}

static void the_book_s_gpt_has_scale_and_shift(void **state) {
    (void)state;
#define TRF "trf_blocks.%d."
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "tok_emb.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "pos_emb.weight", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, TRF "norm1.scale", TRF "norm1.shift"},
                                  {ROLE_Q, PLAIN, TRF "att.W_query.weight", NULL},
                                  {ROLE_K, PLAIN, TRF "att.W_key.weight", NULL},
                                  {ROLE_V, PLAIN, TRF "att.W_value.weight", NULL},
                                  {ROLE_O, PLAIN, TRF "att.out_proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, TRF "norm2.scale", TRF "norm2.shift"},
                                  {ROLE_UP, PLAIN, TRF "ff.layers.0.weight", NULL},
                                  {ROLE_DOWN, PLAIN, TRF "ff.layers.2.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "final_norm.scale", "final_norm.shift"},
                                  {ROLE_HEAD, PLAIN, "out_head.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    model_options o = made_options();
    c.activation = ACTIVATION_GELU_TANH, o.n_heads = 4;
    computes_the_same(&c, names, NULL, &o, "llms-from-scratch");
    c.q_bias = c.kv_bias = true;
    computes_the_same(&c, names, NULL, &o, "llms-from-scratch");
}

static void mingpt_of_2020_has_positions_as_a_parameter(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "tok_emb.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "pos_emb", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "blocks.%d.ln1.weight", NULL},
                                  {ROLE_Q, PLAIN, "blocks.%d.attn.query.weight", NULL},
                                  {ROLE_K, PLAIN, "blocks.%d.attn.key.weight", NULL},
                                  {ROLE_V, PLAIN, "blocks.%d.attn.value.weight", NULL},
                                  {ROLE_O, PLAIN, "blocks.%d.attn.proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "blocks.%d.ln2.weight", NULL},
                                  {ROLE_UP, PLAIN, "blocks.%d.mlp.0.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "blocks.%d.mlp.2.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "ln_f.weight", NULL},
                                  {ROLE_HEAD, PLAIN, "head.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    model_options o = made_options();
    c.activation = ACTIVATION_GELU_ERF, c.q_bias = c.kv_bias = true, o.n_heads = 4;
    computes_the_same(&c, names, NULL, &o, "mingpt-2020");
}

static void transformer_lens_has_a_dim_for_the_heads(void **state) {
    (void)state;
#define LENS "blocks.%d."
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "embed.W_E", ""},
                                  {ROLE_POSITIONS, PLAIN, "pos_embed.W_pos", ""},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, LENS "ln1.w", LENS "ln1.b"},
                                  {ROLE_Q, HEAD_DIM, LENS "attn.W_Q", LENS "attn.b_Q"},
                                  {ROLE_K, HEAD_DIM, LENS "attn.W_K", LENS "attn.b_K"},
                                  {ROLE_V, HEAD_DIM, LENS "attn.W_V", LENS "attn.b_V"},
                                  {ROLE_O, HEAD_DIM, LENS "attn.W_O", LENS "attn.b_O"},
                                  {ROLE_FFN_PRE_NORM, PLAIN, LENS "ln2.w", LENS "ln2.b"},
                                  {ROLE_UP, TRANSPOSED, LENS "mlp.W_in", LENS "mlp.b_in"},
                                  {ROLE_DOWN, TRANSPOSED, LENS "mlp.W_out", LENS "mlp.b_out"},
                                  {ROLE_FINAL_NORM, PLAIN, "ln_final.w", "ln_final.b"},
                                  {ROLE_HEAD, TRANSPOSED, "unembed.W_U", "unembed.b_U"},
                                  END};
    model_config c = learned_gpt();
    model_options o = made_options();
    c.activation = ACTIVATION_GELU_TANH, c.q_bias = c.kv_bias = c.head_bias = true;
    c.head_dim = 10, c.attn_scale = (float)(1 / sqrt(10)); /* nothing is said, all is measured */
    computes_the_same(&c, names, NULL, &o, "transformer-lens");
}

#define ENCODER(L)                                                                                                             \
    {ROLE_Q, FUSED, L "self_attn.in_proj_weight", L "self_attn.in_proj_bias"},                                                 \
        {ROLE_O, PLAIN, L "self_attn.out_proj.weight", NULL}, {ROLE_ATTN_PRE_NORM, PLAIN, L "norm1.weight", NULL},             \
        {ROLE_ATTN_RESIDUAL_NORM, PLAIN, L "norm1.weight", NULL}, {ROLE_FFN_PRE_NORM, PLAIN, L "norm2.weight", NULL},          \
        {ROLE_FFN_RESIDUAL_NORM, PLAIN, L "norm2.weight", NULL}, {ROLE_UP, PLAIN, L "linear1.weight", NULL}, {                 \
        ROLE_DOWN, PLAIN, L "linear2.weight", NULL                                                                             \
    }

static void encoder_layers_ask_where_the_norms_stand(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "token_embedding.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "pos_embedding.weight", NULL},
                                  ENCODER("transformer.layers.%d."),
                                  {ROLE_FINAL_NORM, PLAIN, "ln_f.weight", NULL},
                                  {ROLE_HEAD, PLAIN, "lm_head.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    c.q_bias = c.kv_bias = c.head_bias = true;
    model_options o = given("{\"norm_first\": true, \"activation\": \"gelu_erf\"}"), bare = made_options();
    o.n_heads = bare.n_heads = 4, c.activation = ACTIVATION_GELU_ERF;
    computes_the_same(&c, names, NULL, &o, "encoder-layers");
    folder_remove(given_folder);
    c.attn_pre_norm = c.ffn_pre_norm = false, c.attn_residual_norm = c.ffn_residual_norm = true, c.activation = ACTIVATION_RELU;
    o = given("{\"norm_first\": false}"), o.n_heads = 4;
    computes_the_same(&c, names, NULL, &o, "encoder-layers");
    model *m = made_random(&c);
    char *folder = family_folder(m, names, NULL);
    made_refused(folder, &bare, "norm_first: do the norms stand before");
    folder_remove(given_folder), folder_remove(folder), model_free(m);
}

/* Post-norm, embeddings times sqrt(d_model), sinusoidal positions: stored with the shape [n, 1, d], or not stored. */
static void pytorch_s_tutorial_is_known_whole(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "encoder.weight", NULL},
                                  ENCODER("transformer_encoder.layers.%d."),
                                  {ROLE_HEAD, PLAIN, "decoder.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    c.q_bias = c.kv_bias = c.head_bias = true, c.embedding_scale = (float)sqrt(24), c.final_norm = false;
    c.attn_pre_norm = c.ffn_pre_norm = false, c.attn_residual_norm = c.ffn_residual_norm = true;
    model *m = made_random(&c);
    tensor_file f = {0};
    for (const entry *t = names; t->weight != NULL; t++)
        for (int il = role_in_layers(t->role) ? 0 : -1; il < (role_in_layers(t->role) ? 3 : 0); il++)
            file_add_entry(&f, m, t, il);
    block positions = block_of(m, ROLE_POSITIONS, -1, false);
    file_add_dims(&f, "pos_encoder.pe", &positions, 3, (int[]){64, 1, 24});
    char *folder = file_folder(&f, NULL);
    model_options o = made_options();
    o.n_heads = 4;
    model *loaded = made_load(folder, &o);
    assert_string_equal(loaded->layout, "pytorch-tutorial");
    assert_true(made_difference(m, loaded, 14) < 1e-6);
    block_free(&positions), model_free(loaded), model_free(m), folder_remove(folder);
}

static void multihead_attention_in_blocks_of_one_s_own(void **state) {
    (void)state;
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "tok_emb.weight", NULL},
                                  {ROLE_POSITIONS, PLAIN, "pos_emb.weight", NULL},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "blocks.%d.ln1.weight", NULL},
                                  {ROLE_Q, FUSED, "blocks.%d.attn.in_proj_weight", "blocks.%d.attn.in_proj_bias"},
                                  {ROLE_O, PLAIN, "blocks.%d.attn.out_proj.weight", NULL},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "blocks.%d.ln2.weight", NULL},
                                  {ROLE_UP, PLAIN, "blocks.%d.mlp.0.weight", NULL},
                                  {ROLE_DOWN, PLAIN, "blocks.%d.mlp.2.weight", NULL},
                                  {ROLE_FINAL_NORM, PLAIN, "ln_f.weight", NULL},
                                  {ROLE_HEAD, PLAIN, "head.weight", NULL},
                                  END};
    model_config c = learned_gpt();
    c.q_bias = c.kv_bias = true, c.activation = ACTIVATION_GELU_ERF;
    model_options o = given("{\"norm_first\": true, \"activation\": \"gelu_erf\"}");
    o.n_heads = 4;
    computes_the_same(&c, names, NULL, &o, "mha-blocks");
    folder_remove(given_folder);
    o = given("{\"norm_first\": true}"), o.n_heads = 4;
    model *m = made_random(&c);
    char *folder = family_folder(m, names, NULL);
    made_refused(folder, &o, "activation: which? Give --config FILE.json");
    folder_remove(given_folder), folder_remove(folder), model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_for_each_head_asks_how_attention_is_scaled),
        cmocka_unit_test(the_book_s_gpt_has_scale_and_shift),
        cmocka_unit_test(mingpt_of_2020_has_positions_as_a_parameter),
        cmocka_unit_test(transformer_lens_has_a_dim_for_the_heads),
        cmocka_unit_test(encoder_layers_ask_where_the_norms_stand),
        cmocka_unit_test(pytorch_s_tutorial_is_known_whole),
        cmocka_unit_test(multihead_attention_in_blocks_of_one_s_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
