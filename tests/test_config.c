/* The model configuration: from JSON, checked, counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/cost_shapes.h"

static const char plain[] =
    "{\"n_layers\": 2, \"d_model\": 64, \"n_heads\": 4, \"d_ff\": 256, \"n_vocab\": 15, \"n_ctx\": 11%s}";

static status parse(model_config *c, const char *more, error *e) {
    char text[1024];
    const char *at = strstr(plain, "%s");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - plain), plain, more, at + 2);
    return config_from_json(c, text, e);
}

static void absent_keys_follow_from_others(void **state) {
    (void)state;
    model_config c;
    error e;
    assert_int_equal(parse(&c, "", &e), OK);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.rope_dim, 16);
    assert_true(c.attn_scale == 0.25f);
    assert_true(c.gated && c.attn_pre_norm && c.final_norm && !c.tied);
    assert_int_equal(parse(&c, ", \"head_dim\": 10, \"rope_dim\": 4, \"attn_scale\": 1, \"n_kv_heads\": 2", &e), OK);
    assert_int_equal(config_q_dim(&c), 40);
    assert_int_equal(config_kv_dim(&c), 20);
    assert_int_equal(c.rope_dim, 4);
    assert_true(c.attn_scale == 1.0f);
}

static void names_and_lists_are_read(void **state) {
    (void)state;
    model_config c;
    error e;
    status s = parse(&c,
                     ", \"norm\": \"layer\", \"norm_bias\": true, \"position\": \"alibi\", \"activation\": \"gelu_tanh\", "
                     "\"gated\": false, \"qk_norm\": \"width\", \"window\": 5, \"window_layers\": [1], \"_note\": 1, "
                     "\"source\": \"here\", \"name\": \"x\", \"family\": \"test\"",
                     &e);
    assert_int_equal(s, OK);
    assert_int_equal(c.norm, NORM_LAYER);
    assert_int_equal(c.position, POSITION_ALIBI);
    assert_int_equal(c.activation, ACTIVATION_GELU_TANH);
    assert_int_equal(c.qk_norm, QK_NORM_WIDTH);
    assert_int_equal(c.layer_windowed[0], 0);
    assert_int_equal(c.layer_windowed[1], 1);
    assert_string_equal(c.family, "test");
    assert_int_equal(parse(&c, ", \"window\": 5, \"window_layers\": \"even\"", &e), OK);
    assert_int_equal(c.layer_windowed[0], 1);
    assert_int_equal(c.layer_windowed[1], 0);
}

static void bad_shapes_are_refused_by_name(void **state) {
    (void)state;
    const struct {
        const char *more, *word;
    } cases[] = {
        {", \"n_layers\": 3", "duplicate"},
        {", \"colour\": 3", "colour"},
        {", \"n_kv_heads\": 3", "n_kv_heads"},
        {", \"n_kv_heads\": 0", "n_kv_heads"},
        {", \"n_kv_heads\": -4", "n_kv_heads"},
        {", \"head_dim\": 2147483647", "head_dim"},
        {", \"head_dim\": 99999999999", "head_dim"},
        {", \"rope_dim\": 7", "rope_dim"},
        {", \"rope_dim\": 18", "rope_dim"},
        {", \"rope_base\": 0", "rope_base"},
        {", \"rope_scaling\": \"llama3\"", "rope_original_ctx"},
        {", \"rope_scaling\": \"factors\"", "rope_factors"},
        {", \"rope_scaling\": \"sideways\"", "rope_scaling"},
        {", \"norm\": 1", "norm"},
        {", \"norm\": \"rms \"", "norm"},
        {", \"norm_bias\": true", "norm_bias"},
        {", \"parallel_residual\": true, \"attn_residual_norm\": true", "attn_residual_norm"},
        {", \"parallel_residual\": true, \"attn_pre_norm\": false, \"ffn_pre_norm\": false", "attn_pre_norm"},
        {", \"norm_eps\": -1", "norm_eps"},
        {", \"gated\": 1", "gated"},
        {", \"attn_scale\": 0", "attn_scale"},
        {", \"attn_scale\": \"a\"", "attn_scale"},
        {", \"window\": 4", "window_layers"},
        {", \"window\": 4, \"window_layers\": [2]", "window_layers"},
        {", \"window\": 4, \"window_layers\": \"some\"", "window_layers"},
        {", \"window\": -1, \"window_layers\": \"all\"", "window"},
        {", \"window_layers\": \"all\"", "window is 0"},
        {", ", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config c;
        error e = {OK, ""};
        assert_int_not_equal(parse(&c, cases[i].more, &e), OK);
        if (strstr(e.message, cases[i].word) == NULL) fail_msg("%s: %s", cases[i].more, e.message);
        assert_int_equal(c.n_layers, 0);
    }
}

static void missing_dimensions_are_refused(void **state) {
    (void)state;
    model_config c;
    error e;
    assert_int_not_equal(config_from_json(&c, "{}", &e), OK);
    assert_int_not_equal(config_from_json(&c, "[]", &e), OK);
    assert_int_not_equal(config_from_json(&c, "{\"n_layers\": 1, \"d_model\": 8, \"n_heads\": 2}", &e), OK);
    assert_non_null(strstr(e.message, "d_ff"));
}

static void dimensions_that_overflow_are_refused(void **state) {
    (void)state;
    model_config c = shape_level21();
    error e;
    assert_int_equal(config_check(&c, &e), OK);
    c.d_ff = c.n_vocab = c.n_ctx = 1 << 24;
    c.d_model = 1 << 24;
    assert_int_not_equal(config_check(&c, &e), OK);
    assert_non_null(strstr(e.message, "parameters"));
    c = shape_level21();
    c.n_layers = CONFIG_MAX_LAYERS + 1;
    assert_int_not_equal(config_check(&c, &e), OK);
    c = shape_level21();
    c.logit_scale = NAN;
    assert_int_not_equal(config_check(&c, &e), OK);
}

static void heads_must_divide(void **state) {
    (void)state;
    error e;
    model_config c = shape_level21();
    c.n_heads = 33, c.n_kv_heads = 2;
    assert_int_not_equal(config_check(&c, &e), OK);
    c.n_heads = 0;
    assert_int_not_equal(config_check(&c, &e), OK);
}

static void level21_parameters_by_kind(void **state) {
    (void)state;
    model_config c = shape_level21();
    param_counts p = config_params(&c);
    assert_int_equal(p.matrices, 99264);
    assert_int_equal(p.biases, 1167);
    assert_int_equal(p.norms, 320);
    assert_int_equal(p.embedding, 960);
    assert_int_equal(p.positions, 704);
    assert_int_equal(p.total, 102415);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_follow_from_others),       cmocka_unit_test(names_and_lists_are_read),
        cmocka_unit_test(bad_shapes_are_refused_by_name),       cmocka_unit_test(missing_dimensions_are_refused),
        cmocka_unit_test(dimensions_that_overflow_are_refused), cmocka_unit_test(heads_must_divide),
        cmocka_unit_test(level21_parameters_by_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
