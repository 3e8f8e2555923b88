/* JSON weights: nested lists of numbers by name; what is no tensor is metadata. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/made_files.h"

static void json_refused(const char *text, const char *why) {
    bytes b = {0};
    put_text(&b, text);
    refused(&b, why);
}

static void lists_of_numbers_are_tensors_in_float64(void **state) {
    (void)state;
    bytes b = {0};
    put_text(&b, " {\"tok.weight\": [[1, -2.5e-3, 0], [0.1 ,1E2,-0]], \"bias\":[3],\n\"empty\":[], \"d\":64, "
                 "\"cube\":[[[1],[2]],[[3],[4]]],"
                 "\"config\":{\"heads\":4, \"betas\":[0.9,0.95]}, \"words\":[\"a\",1],\"state\":{\"w\":[7,8],\"none\":null}, "
                 "\"only\":{\"x\":[5]}}\n");
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_JSON);
    assert_int_equal(c->n_tensors, 6);
    const tensor *t = checkpoint_find(c, "tok.weight");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->type, DTYPE_F64);
    const double expected[] = {1, -0.0025, 0, 0.1, 100, 0};
    for (size_t i = 0; i < 6; i++) assert_true(element(c, "tok.weight", i) == expected[i]);
    assert_true(element(c, "cube", 3) == 4);
    assert_int_equal(checkpoint_find(c, "empty")->n_elems, 0);
    assert_true(element(c, "state.w", 1) == 8);
    assert_int_equal(json_integer_value(json_object_get(c->meta, "d")), 64);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(c->meta, "config"), "heads")), 4);
    assert_true(json_number_value(json_array_get(json_object_get(json_object_get(c->meta, "config"), "betas"), 1)) == 0.95);
    assert_int_equal(json_array_size(json_object_get(c->meta, "words")), 2);
    assert_true(json_is_null(json_object_get(json_object_get(c->meta, "state"), "none")));
    assert_null(json_object_get(c->meta, "only")); /* it holds nothing but tensors */
    checkpoint_close(c);
    bytes_free(&b);
}

static void rows_that_do_not_agree_are_refused_by_name(void **state) {
    (void)state;
    json_refused("{\"w\":[[1,2],[3]]}", "w: rows of different lengths");
    json_refused("{\"w\":[[1,2],3]}", "w: rows of different depth");
    json_refused("{\"w\":[1,[2]]}", "w: a list among numbers");
    json_refused("{\"w\":[[],1]}", "w: ");
    json_refused("{\"a\":{\"w\":[[1],[]]}}", "a.w: rows of different lengths");
    json_refused("{\"w\":[[[[[[[[[1]]]]]]]]]}", "w: more than 8 dimensions");
}

static void text_that_is_no_json_is_refused(void **state) {
    (void)state;
    json_refused("{\"w\":[1,2}", "w: ");
    json_refused("{\"w\":[1,]}", "w: bad JSON");
    json_refused("{\"w\":[01]}", "w: bad JSON");
    json_refused("{\"w\":[1.]}", "w: bad JSON");
    json_refused("{\"w\":[NaN]}", "w: bad JSON");
    json_refused("{\"w\":[0x10]}", "w: bad JSON");
    json_refused("{\"w\":[1 2]}", "w: bad JSON");
    json_refused("{\"w\":tru}", "w: bad JSON");
    json_refused("{\"w\":[1],}", "JSON: a member without a name");
    json_refused("{\"w\"[1]}", "a name without a value");
    json_refused("{\"w\":[1]", "is the file cut off?");
    json_refused("{\"w\":[1]} x", "text after the end");
    json_refused("{\"\\ud800\":[1]}", "a name is no text");
    json_refused("{\"w\":{\"v\":", "w.v: is no JSON value");
}

static void a_name_twice_is_refused(void **state) {
    (void)state;
    json_refused("{\"w\":[1],\"w\":[2]}", "tensor w: is there twice");
    json_refused("{\"d\":1,\"d\":2}", "d: is there twice");
    json_refused("{\"a\":{\"b\":[1]},\"a.b\":[1]}", "tensor a.b: is there twice");
    json_refused("{\"a\":{\"b\":1},\"a\":{\"b\":2}}", "a: is there twice");
}

static void every_cut_is_refused(void **state) {
    (void)state;
    static const char text[] = "{\"w\":[[1.5,2],[3,4]],\"c\":{\"x\":[\"}\",\"\\\"\"]},\"b\":[-1e5]}";
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        bytes b = {0};
        put(&b, text, n);
        refused(&b, "");
    }
}

static void deep_nesting_and_huge_numbers_do_no_harm(void **state) {
    (void)state;
    bytes b = {0};
    put_text(&b, "{\"w\":");
    for (int i = 0; i < 100000; i++) put_u8(&b, '[');
    refused(&b, "w: more than 8 dimensions");
    for (int i = 0; i < 100000; i++) put_text(&b, "{\"w\":");
    refused(&b, "");
    put_text(&b, "{\"w\":[1e400]}");
    checkpoint *c = opened(&b);
    tensor_bytes t;
    error e = {0};
    assert_int_equal(tensor_read(c, checkpoint_find(c, "w"), &t, &e), ERR_FORMAT);
    assert_non_null(strstr(e.message, "made: tensor w: number 0 is beyond float64"));
    checkpoint_close(c);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_numbers_are_tensors_in_float64),
        cmocka_unit_test(rows_that_do_not_agree_are_refused_by_name),
        cmocka_unit_test(text_that_is_no_json_is_refused),
        cmocka_unit_test(a_name_twice_is_refused),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(deep_nesting_and_huge_numbers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
