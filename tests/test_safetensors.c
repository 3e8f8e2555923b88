/* safetensors: what is read, and everything that a hostile header may try. */
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

static void refused_header(const char *header, size_t n_data, const char *why) {
    bytes b = make_safetensors(header, n_data);
    refused(&b, why);
}

static void header_lengths_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1ull << 63, 0xfffffffffffffffe, UINT64_MAX, 100000001, 5000, 3};
    static const char *const why[] = {"9223372036854775808 bytes", "18446744073709551614 bytes", "18446744073709551615 bytes",
                                      "100000001 bytes",           "5000 bytes in a file of 10", "3 bytes in a file of 10"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bytes b = {0};
        put_u64(&b, lengths[i]);
        put_text(&b, "{}");
        refused(&b, why[i]);
    }
    bytes zero = {0};
    put_u64(&zero, 0);
    refused(&zero, "no JSON object");
    bytes seven = {0};
    put_zeros(&seven, 7);
    refused(&seven, "only 7 bytes");
    bytes empty = {0};
    refused(&empty, "is empty");
}

static void offsets_that_cannot_be_are_refused_by_name(void **state) {
    (void)state;
#define ONE(offsets) "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" offsets "}}"
    refused_header(ONE("[]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[0]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[0,2,4]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[8,4]"), 8, "tensor t: it ends at 4, before it starts at 8");
    refused_header(ONE("[-4,0]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[0.5,4]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[\"0\",4]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("[18446744073709551608,18446744073709551612]"), 4, "tensor t: \"data_offsets\"");
    refused_header(ONE("4"), 4, "tensor t: \"data_offsets\"");
    refused_header("{\"t\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[18446744073709551608,4]}}", 4,
                   "tensor t: unknown dtype \"F99\"");
    refused_header("{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor t: no \"dtype\"");
    refused_header("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor t: no list \"shape\"");
    refused_header("{\"t\":7}", 0, "tensor t: no \"dtype\"");
#undef ONE
}

static void shapes_that_do_not_fit_their_bytes_are_refused(void **state) {
    (void)state;
    refused_header("{\"big\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4,
                   "tensor big: F32 of its shape takes 4000000 bytes, not the 4");
    refused_header("{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
                   "tensor t: the shape overflows");
    refused_header("{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
                   "tensor t: dimension 0");
    refused_header("{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "tensor t: dimension 0");
    refused_header("{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "no whole number of bytes");
    refused_header("{\"t\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
                   "tensor t: 9 dimensions");
}

#define TWO                                                                                                                    \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" \
    "8,12]}}"

static void a_file_cut_by_a_byte_or_a_page_is_refused(void **state) {
    (void)state;
    bytes whole = make_safetensors(TWO, 12);
    for (size_t n = 0; n < whole.n; n++) {
        bytes cut = {0};
        put(&cut, whole.data, n);
        refused(&cut, "");
    }
    accepted(&whole);
    bytes page = make_safetensors("{\"big\":{\"dtype\":\"F32\",\"shape\":[4,1024],\"data_offsets\":[0,16384]}}", 16384);
    page.n -= 4096;
    refused(&page, "tensor big: ends at byte 16384 of 12288");
}

static void tensors_must_tile_the_data(void **state) {
    (void)state;
    refused_header(TWO, 13, "1 bytes that belong to no tensor");
    refused_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
                   "\"data_offsets\":[6,10]}}",
                   10, "tensor b: starts at byte 6, the one before ends at 4");
    refused_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
                   "\"data_offsets\":[2,6]}}",
                   6, "tensor b: starts at byte 2");
}

static void a_name_twice_is_refused(void **state) {
    (void)state;
    refused_header("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"w\":{\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[1,2]}}",
                   2, "duplicate object key near '\"w\"'");
}

static void headers_that_are_no_object_are_refused(void **state) {
    (void)state;
    refused_header("[]", 0, "no JSON object");
    refused_header("{", 0, "bad JSON");
    refused_header("{\"a\":}", 0, "bad JSON");
    refused_header("{\"\xff\":1}", 0, "bad JSON");
    refused_header("{\"__metadata__\":{\"x\":1}}", 0, "__metadata__\": x is no text");
    refused_header("{\"__metadata__\":[]}", 0, "__metadata__\" is no object");
}

static void values_names_and_metadata_are_read(void **state) {
    (void)state;
    bytes b = make_safetensors("{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b \\u00e9\\\"\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[8,14]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                               "\"scalar\":{\"dtype\":\"U16\",\"shape\":[],\"data_offsets\":[14,16]},"
                               "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,4],\"data_offsets\":[16,16]},"
                               "\"eight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[16,20]}} ",
                               20);
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_SAFETENSORS);
    assert_int_equal(c->n_tensors, 5);
    assert_string_equal(c->tensors[0].name, "b \xc3\xa9\""); /* the file's order */
    for (size_t i = 0; i < 6; i++) assert_true(element(c, "b \xc3\xa9\"", i) == 8.0 + (double)i);
    float first;
    memcpy(&first, "\0\1\2\3", 4);
    assert_true(element(c, "a", 0) == (double)first);
    assert_int_equal(checkpoint_find(c, "scalar")->n_elems, 1);
    assert_int_equal(checkpoint_find(c, "none")->n_elems, 0);
    assert_int_equal(checkpoint_find(c, "eight")->type, DTYPE_OTHER);
    assert_string_equal(checkpoint_find(c, "eight")->type_name, "F8_E4M3");
    assert_int_equal(checkpoint_find(c, "eight")->n_bytes, 4);
    assert_null(checkpoint_find(c, "c"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(c->meta, "__metadata__"), "format")), "pt");
    tensor_bytes t;
    error e;
    assert_int_equal(tensor_read(c, checkpoint_find(c, "a"), &t, &e), OK);
    assert_true(t.in_place);
    tensor_release(&t);
    checkpoint_close(c);
    bytes_free(&b);
}

static void an_empty_header_is_a_checkpoint_without_tensors(void **state) {
    (void)state;
    bytes b = make_safetensors("{}", 0);
    accepted(&b);
}

static void a_nonsquare_f16_tensor_is_equal_from_gguf_and_safetensors(void **state) {
    (void)state;
    bytes s = make_safetensors("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}", 0), g = {0};
    const uint64_t extents[2] = {3, 2}; /* innermost first */
    gguf_start(&g, 3, 1, 0);
    gguf_tensor(&g, "w", 2, extents, 1, 0);
    put_padding(&g, 32);
    for (int i = 0; i < 6; i++) {
        put_u16(&s, f32_to_f16((float)i - 2.5f));
        put_u16(&g, f32_to_f16((float)i - 2.5f));
    }
    checkpoint *a = opened(&s), *b = opened(&g);
    const tensor *x = checkpoint_find(a, "w"), *y = checkpoint_find(b, "w");
    assert_int_equal(x->shape[0], 2);
    assert_int_equal(y->shape[0], 2);
    assert_int_equal(y->shape[1], 3);
    for (size_t i = 0; i < 6; i++) {
        assert_true(element(a, "w", i) == (double)i - 2.5);
        assert_true(element(b, "w", i) == (double)i - 2.5);
    }
    checkpoint_close(a);
    checkpoint_close(b);
    bytes_free(&s);
    bytes_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_lengths_that_cannot_be_are_refused),
        cmocka_unit_test(offsets_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(shapes_that_do_not_fit_their_bytes_are_refused),
        cmocka_unit_test(a_file_cut_by_a_byte_or_a_page_is_refused),
        cmocka_unit_test(tensors_must_tile_the_data),
        cmocka_unit_test(a_name_twice_is_refused),
        cmocka_unit_test(headers_that_are_no_object_are_refused),
        cmocka_unit_test(values_names_and_metadata_are_read),
        cmocka_unit_test(an_empty_header_is_a_checkpoint_without_tensors),
        cmocka_unit_test(a_nonsquare_f16_tensor_is_equal_from_gguf_and_safetensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
