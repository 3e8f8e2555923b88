/* Loading: what is missing, extra, misshapen, tied or not, wrapped, in another type, mapped. Files are made here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/made_model.h"

/* A llama folder of m with the config's usual keys and `extra`. */
static char *llama_folder(const model *m, const char *extra) {
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    char *config = llama_config(&m->config, extra), *folder = file_folder(&f, config);
    free(config);
    return folder;
}

static bool assumes(const model *m, const char *words) {
    for (size_t i = 0; i < json_array_size(m->assumptions); i++)
        if (strstr(json_string_value(json_array_get(m->assumptions, i)), words) != NULL) return true;
    return false;
}

static void a_folder_gives_back_the_model_that_was_written(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    char *folder = llama_folder(m, NULL);
    model_options o = made_options();
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 41) == 0);
    assert_int_equal(loaded->weight_bytes, m->weight_bytes);
    assert_int_equal(loaded->vector_bytes, m->vector_bytes);
    assert_string_equal(loaded->layout, "llama");
    assert_int_equal(json_array_size(loaded->assumptions), 0);
    model_free(loaded), model_free(m);
    folder_remove(folder);
}

static void a_tensor_that_is_missing_is_named(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    char *at =
        strstr((char *)f.header.data, "layers.2.mlp.up_proj"); /* in the last layer: it is missed, not taken for the end */
    assert_non_null(at);
    at[0] = 'X';
    char *folder = file_folder(&f, "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"max_position_embeddings\": 64}");
    model_options o = made_options();
    made_refused(folder, &o, "tensor 'model.layers.2.mlp.up_proj.weight' is missing");
    folder_remove(folder), model_free(m);
}

static void a_tensor_that_is_too_many_is_named(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    block b = block_of(m, ROLE_Q, 0, false);
    file_add(&f, "model.layers.0.self_attn.extra.weight", &b);
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    made_refused(folder, &o, "tensor 'model.layers.0.self_attn.extra.weight' [40, 24] has no place");
    block_free(&b), free(config), folder_remove(folder), model_free(m);
}

static void a_layer_more_than_the_configuration_says_is_too_many(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    c.n_layers = 2;
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    made_refused(folder, &o, "tensor 'model.layers.2.input_layernorm.weight' [24] has no place");
    free(config), folder_remove(folder), model_free(m);
}

static void a_tensor_of_another_shape_is_named_with_both(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    c.d_ff = 32;
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    made_refused(folder, &o,
                 "tensor 'model.layers.0.mlp.gate_proj.weight' has shape [28, 24], but the configuration asks for [32, 24]");
    free(config), folder_remove(folder), model_free(m);
}

static void head_counts_that_cannot_be_are_refused(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    static const struct {
        const char *heads, *why;
    } cases[] = {
        {"\"num_attention_heads\": 33, \"num_key_value_heads\": 2, \"head_dim\": 10", "33 heads cannot share 2 K/V heads"},
        {"\"num_attention_heads\": 0, \"head_dim\": 10", "n_heads is 0"},
        {"\"num_attention_heads\": -4, \"head_dim\": 10", "n_heads is -4"},
        {"\"num_attention_heads\": 7", "40 rows, which 7 heads cannot share"},
        {"\"num_attention_heads\": \"4\"", "n_heads must be a whole number"},
        {"\"num_attention_heads\": 4294967300", "40 rows, which 4294967300 heads cannot share"},
        {"\"num_attention_heads\": 4, \"num_key_value_heads\": 3", "4 heads cannot share 3 K/V heads"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_file f = {0};
        file_add_llama(&f, m, "");
        char config[256];
        snprintf(config, sizeof config, "{\"model_type\": \"llama\", %s, \"max_position_embeddings\": 64}", cases[i].heads);
        char *folder = file_folder(&f, config);
        model_options o = made_options();
        made_refused(folder, &o, cases[i].why);
        folder_remove(folder);
    }
    model_free(m);
}

/* What cases.md asks: a defined result or an error for every combination, never a head that is not there. */
static void tied_or_not_with_head_or_table_or_both(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++)
        for (int has = 1; has < 4; has++) { /* 1: the table, 2: the head, 3: both */
            model_config c = made_config();
            c.tied = tied;
            model *m = made_random(&c);
            tensor_file f = {0};
            file_add_llama_body(&f, m, "");
            block table = block_of(m, ROLE_EMBEDDING, -1, false), head = block_of(m, ROLE_HEAD, -1, false);
            if (has & 1) file_add(&f, "model.embed_tokens.weight", &table);
            if (has & 2) file_add(&f, "lm_head.weight", &head);
            char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
            model_options o = made_options();
            if (!tied && has == 1) {
                made_refused(folder, &o, "tensor 'lm_head.weight' is missing");
            } else if (!tied && has == 2) {
                made_refused(folder, &o, "tensor 'model.embed_tokens.weight' is missing");
            } else {
                model *loaded = made_load(folder, &o);
                assert_int_equal(loaded->config.tied, tied);
                assert_true(made_difference(m, loaded, 5) == 0);
                model_free(loaded);
            }
            block_free(&table), block_free(&head);
            free(config), folder_remove(folder), model_free(m);
        }
}

static void tied_with_both_and_different_takes_the_table_and_says_so(void **state) {
    (void)state;
    model_config c = made_config();
    c.tied = true;
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    block head = block_of(m, ROLE_EMBEDDING, -1, false);
    head.x[5] += 1;
    file_add(&f, "lm_head.weight", &head);
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 5) == 0);
    assert_true(assumes(loaded, "a head that differs: the table is used"));
    block_free(&head), model_free(loaded), model_free(m);
    free(config), folder_remove(folder);
}

/* Nothing says whether the head is the table: the numbers do. */
static void without_a_word_on_tying_equal_tables_are_tied(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        model_config c = made_config();
        c.tied = tied;
        model *m = made_random(&c);
        tensor_file f = {0};
        file_add_llama_body(&f, m, "");
        block table = block_of(m, ROLE_EMBEDDING, -1, false), head = block_of(m, ROLE_HEAD, -1, false);
        file_add(&f, "model.embed_tokens.weight", &table), file_add(&f, "lm_head.weight", &head);
        char *folder = file_folder(&f, "{\"max_position_embeddings\": 64}");
        model_options o = made_options();
        o.n_heads = 4;
        model *loaded = made_load(folder, &o);
        assert_int_equal(loaded->config.tied, tied);
        assert_true(made_difference(m, loaded, 5) == 0);
        assert_true(assumes(loaded, "by the names of its tensors alone"));
        block_free(&table), block_free(&head);
        model_free(loaded), model_free(m), folder_remove(folder);
    }
}

static void prefixes_of_wrappers_are_dropped(void **state) {
    (void)state;
    static const char *const prefixes[] = {"_orig_mod.", "module.", "state_dict.", "model.", "module._orig_mod.", "a.b.c."};
    model_config c = made_config();
    model *m = made_random(&c);
    char *config = llama_config(&c, NULL);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        tensor_file f = {0};
        file_add_llama(&f, m, prefixes[i]);
        char *folder = file_folder(&f, config);
        model_options o = made_options();
        model *loaded = made_load(folder, &o);
        assert_true(made_difference(m, loaded, 3) == 0);
        model_free(loaded), folder_remove(folder);
    }
    free(config), model_free(m);
}

static void what_training_saves_beside_the_model_is_ignored(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    block b = block_of(m, ROLE_Q, 0, false);
    file_add(&f, "optimizer.state.0.exp_avg", &b);
    file_add_llama(&f, m, "state.");
    file_add(&f, "state.model.layers.0.self_attn.rotary_emb.inv_freq", &b);
    file_add(&f, "state.model.layers.1.self_attn.mask", &b);
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 3) == 0);
    block_free(&b), model_free(loaded), model_free(m);
    free(config), folder_remove(folder);
}

/* A tree beside the model's that is none of training's is not dropped in silence. */
static void a_second_tree_of_weights_is_refused(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    block b = block_of(m, ROLE_Q, 0, false);
    file_add_llama(&f, m, "state.");
    file_add(&f, "adapter.layers.0.q.weight", &b);
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    made_refused(folder, &o, "tensor 'adapter.layers.0.q.weight' [40, 24] has no place");
    block_free(&b), model_free(m), free(config), folder_remove(folder);
}

static void two_models_in_a_file_are_said(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "state.");
    file_add_llama(&f, m, "ema.");
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    model_options o = made_options();
    model *loaded = made_load(folder, &o);
    assert_true(assumes(loaded, "'state.' is used, not 'ema.'"));
    model_free(loaded), model_free(m), free(config), folder_remove(folder);
}

/* Writes m with its embedding table in a type of its own, the first numbers of which are given. */
static char *folder_with_numbers(const model *m, const char *type, const float *numbers, int n) {
    tensor_file f = {0};
    file_add_llama_body(&f, m, "");
    block table = block_of(m, ROLE_EMBEDDING, -1, false), head = block_of(m, ROLE_HEAD, -1, false);
    memcpy(table.x, numbers, (size_t)n * sizeof *numbers);
    file_add_as(&f, "model.embed_tokens.weight", &table, type), file_add(&f, "lm_head.weight", &head);
    char *config = llama_config(&m->config, NULL), *folder = file_folder(&f, config);
    block_free(&table), block_free(&head), free(config);
    return folder;
}

static void bf16_beyond_fp16_is_exact_in_fp32_and_refused_in_fp16(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    const float numbers[] = {70144.0f, 0x1.2cp126f, 0x1p-130f, 1.5f}; /* bf16 holds each of them */
    char *folder = folder_with_numbers(m, "BF16", numbers, 4);
    model_options o = made_options();
    made_refused(folder, &o,
                 "2 weights are too large for fp16, the first in tensor 'model.embed_tokens.weight' (use --weights f32)");
    o.weights = DTYPE_F32;
    model *loaded = made_load(folder, &o);
    float row[24];
    matrix_row_f32(row, &loaded->embedding, 0);
    assert_memory_equal(row, numbers, sizeof numbers);
    model_free(loaded), folder_remove(folder);

    const float fitting[] = {65504.0f - 992.0f, -0.5f, 0x1p-130f, 0x1p-24f};
    folder = folder_with_numbers(m, "BF16", fitting, 4);
    o.weights = -1;
    loaded = made_load(folder, &o);
    assert_int_equal(loaded->embedding.type, DTYPE_F16);
    assert_int_equal(loaded->head.type, DTYPE_F32);
    matrix_row_f32(row, &loaded->embedding, 0);
    assert_true(row[0] == fitting[0] && row[1] == fitting[1] && row[2] == 0 && row[3] == fitting[3]);
    assert_true(assumes(loaded, "1 weights too small for fp16 became 0"));
    model_free(loaded), folder_remove(folder), model_free(m);
}

static void fp32_beyond_fp16_is_refused_when_fp16_is_asked_for(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    const float numbers[] = {65520.0f, 65519.0f}; /* the first rounds to infinity */
    char *folder = folder_with_numbers(m, "F32", numbers, 2);
    model_options o = made_options();
    o.weights = DTYPE_F16;
    made_refused(folder, &o, "1 weight is too large for fp16, the first in tensor 'model.embed_tokens.weight'");
    o.weights = DTYPE_Q8_0;
    model_free(made_load(folder, &o));
    folder_remove(folder);
    const float huge[] = {1e8f};
    folder = folder_with_numbers(m, "F32", huge, 1);
    made_refused(folder, &o, "too large for an int8 block with an fp16 scale");
    folder_remove(folder), model_free(m);
}

static void storage_is_as_the_file_has_it_or_as_asked(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama_body(&f, m, "");
    block table = block_of(m, ROLE_EMBEDDING, -1, false), head = block_of(m, ROLE_HEAD, -1, false);
    file_add_as(&f, "model.embed_tokens.weight", &table, "F16"), file_add_as(&f, "lm_head.weight", &head, "BF16");
    char *config = llama_config(&c, NULL), *folder = file_folder(&f, config);
    static const int asked[] = {-1, DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    static const dtype tables[] = {DTYPE_F16, DTYPE_F32, DTYPE_F16, DTYPE_Q8_0},
                       matrices[] = {DTYPE_F32, DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    for (int i = 0; i < 4; i++) {
        model_options o = made_options();
        o.weights = asked[i];
        model *loaded = made_load(folder, &o);
        assert_int_equal(loaded->embedding.type, tables[i]);
        assert_int_equal(loaded->head.type, tables[i]);
        assert_int_equal(loaded->layers[1].w_down.type, matrices[i]);
        assert_true(made_difference(m, loaded, 5) < 0.3);
        model_free(loaded);
    }
    block_free(&table), block_free(&head);
    free(config), folder_remove(folder), model_free(m);
}

static void mapped_matrices_give_the_same_numbers(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    for (int pad = 0; pad < 4; pad++) { /* the data then begins at any address */
        char extra[] = "\"pad\": \"xxxx\"";
        tensor_file f = {0};
        file_add_llama(&f, m, "");
        for (int i = 0; i < pad; i++) put_text(&f.header, " ");
        char *config = llama_config(&c, extra), *folder = file_folder(&f, config);
        model_options o = made_options();
        o.mmap = 1;
        model *mapped = made_load(folder, &o);
        o.mmap = 0;
        model *copied = made_load(folder, &o);
        assert_true(made_difference(m, mapped, 5) == 0);
        assert_true(made_difference(m, copied, 5) == 0);
        assert_int_equal(copied->mapped_bytes, 0);
        assert_int_equal(mapped->weight_bytes, copied->weight_bytes);
        assert_true(mapped->mapped_bytes == mapped->weight_bytes || mapped->mapped_bytes == 0);
        assert_int_equal(mapped->layers[0].wq.packed, mapped->mapped_bytes == 0);
        model_free(mapped), model_free(copied);
        free(config), folder_remove(folder);
    }
    model_free(m);
}

static void a_family_that_is_not_known_is_refused_with_advice(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    char *folder =
        file_folder(&f, "{\"model_type\": \"llamoid\", \"num_attention_heads\": 4, \"max_position_embeddings\": 64}");
    model_options o = made_options();
    made_refused(folder, &o,
                 "model_type 'llamoid' is not a family that Tally knows; its tensors are named like those of 'llama'");
    o.layout_file = "llama";
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 5) == 0);
    model_free(loaded), model_free(m), folder_remove(folder);
}

static void names_that_no_layout_knows_are_refused_with_advice(void **state) {
    (void)state;
    tensor_file f = {0};
    block b = {.x = (float[]){1, 2, 3, 4}, .n_rows = 2, .n_cols = 2};
    file_add(&f, "conv1.weight", &b);
    char *folder = file_folder(&f, NULL);
    model_options o = made_options();
    made_refused(folder, &o,
                 "no layout fits its 1 tensors (the first is 'conv1.weight'): describe them with --layout FILE.json");
    folder_remove(folder);
}

static void what_the_file_does_not_say_can_be_given(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    char *folder = file_folder(&f, NULL), *config = folder_make(), path[512];
    model_options o = made_options();
    made_refused(folder, &o, "n_heads: the file does not say (give --heads N)");
    o.n_heads = 4;
    made_refused(folder, &o, "n_ctx: the file does not say (give --config");
    static const char given[] = "{\"n_ctx\": 64, \"attn_scale\": 0.5, \"rope_theta\": 500.0}";
    folder_put(config, "c.json", given, strlen(given));
    snprintf(path, sizeof path, "%s/c.json", config);
    o.config_file = path;
    model *loaded = made_load(folder, &o);
    assert_int_equal(loaded->config.n_ctx, 64);
    assert_true(loaded->config.attn_scale == 0.5f); /* a field of ours */
    assert_true(loaded->config.rope_base == 500.0); /* a key of the family's */
    folder_put(config, "c.json", "{\"n_ctx\": 64,", 13);
    made_refused(folder, &o, "c.json: line 1");
    model_free(loaded), model_free(m), folder_remove(folder), folder_remove(config);
}

static void what_a_family_s_metadata_asks_for_and_tally_does_not_do_is_refused(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    static const char *const cases[][2] = {
        {"\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}",
         "rope_scaling.rope_type is dynamic (not one that Tally knows)"},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}", "rope_factor is 0"},
        {"\"rope_theta\": 0", "rope_base is 0"},
        {"\"rope_theta\": \"big\"", "rope_base must be a number"},
        {"\"num_hidden_layers\": 2000000000", "n_layers is 2000000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_file f = {0};
        file_add_llama(&f, m, "");
        char config[512];
        snprintf(config, sizeof config,
                 "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"max_position_embeddings\": 64, %s}", cases[i][0]);
        char *folder = file_folder(&f, config);
        model_options o = made_options();
        made_refused(folder, &o, cases[i][1]);
        folder_remove(folder);
    }
    model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_gives_back_the_model_that_was_written),
        cmocka_unit_test(a_tensor_that_is_missing_is_named),
        cmocka_unit_test(a_tensor_that_is_too_many_is_named),
        cmocka_unit_test(a_layer_more_than_the_configuration_says_is_too_many),
        cmocka_unit_test(a_tensor_of_another_shape_is_named_with_both),
        cmocka_unit_test(head_counts_that_cannot_be_are_refused),
        cmocka_unit_test(tied_or_not_with_head_or_table_or_both),
        cmocka_unit_test(tied_with_both_and_different_takes_the_table_and_says_so),
        cmocka_unit_test(without_a_word_on_tying_equal_tables_are_tied),
        cmocka_unit_test(prefixes_of_wrappers_are_dropped),
        cmocka_unit_test(what_training_saves_beside_the_model_is_ignored),
        cmocka_unit_test(a_second_tree_of_weights_is_refused),
        cmocka_unit_test(two_models_in_a_file_are_said),
        cmocka_unit_test(bf16_beyond_fp16_is_exact_in_fp32_and_refused_in_fp16),
        cmocka_unit_test(fp32_beyond_fp16_is_refused_when_fp16_is_asked_for),
        cmocka_unit_test(storage_is_as_the_file_has_it_or_as_asked),
        cmocka_unit_test(mapped_matrices_give_the_same_numbers),
        cmocka_unit_test(a_family_that_is_not_known_is_refused_with_advice),
        cmocka_unit_test(names_that_no_layout_knows_are_refused_with_advice),
        cmocka_unit_test(what_the_file_does_not_say_can_be_given),
        cmocka_unit_test(what_a_family_s_metadata_asks_for_and_tally_does_not_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
