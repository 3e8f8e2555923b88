/* GGUF: every kind of value, tensors, and counts and lengths that no file can hold. */
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

static void put_key(bytes *b, const char *key, uint32_t type) {
    gguf_text_bytes(b, key);
    put_u32(b, type);
}

static void every_kind_of_value_is_read(void **state) {
    (void)state;
    bytes b = {0};
    const double d = 0.1;
    gguf_start(&b, 3, 0, 15);
    put_key(&b, "u8", 0), put_u8(&b, 200);
    put_key(&b, "i8", 1), put_u8(&b, 200);
    put_key(&b, "u16", 2), put_u16(&b, 60000);
    put_key(&b, "i16", 3), put_u16(&b, 60000);
    put_key(&b, "u32", 4), put_u32(&b, 4000000000u);
    put_key(&b, "i32", 5), put_u32(&b, 4000000000u);
    put_key(&b, "f32", 6), put_f32(&b, 0.1f);
    put_key(&b, "bool", 7), put_u8(&b, 1);
    put_key(&b, "text", 8), put_u64(&b, 3), put(&b, "a\0\xff", 3);
    put_key(&b, "u64", 10), put_u64(&b, UINT64_MAX);
    put_key(&b, "i64", 11), put_u64(&b, (uint64_t)-5);
    put_key(&b, "f64", 12), put(&b, &d, 8);
    put_key(&b, "texts", 9), put_u32(&b, 8), put_u64(&b, 2), gguf_text_bytes(&b, ""), gguf_text_bytes(&b, "x");
    put_key(&b, "numbers", 9), put_u32(&b, 5), put_u64(&b, 3), put_u32(&b, 7), put_u32(&b, (uint32_t)-7), put_u32(&b, 7);
    put_key(&b, "nothing", 9), put_u32(&b, 6), put_u64(&b, 0);
    checkpoint *c = opened(&b);
    const json_t *m = c->meta;
    assert_int_equal(json_integer_value(json_object_get(m, "u8")), 200);
    assert_int_equal(json_integer_value(json_object_get(m, "i8")), -56);
    assert_int_equal(json_integer_value(json_object_get(m, "u16")), 60000);
    assert_int_equal(json_integer_value(json_object_get(m, "i16")), -5536);
    assert_int_equal(json_integer_value(json_object_get(m, "u32")), 4000000000);
    assert_int_equal(json_integer_value(json_object_get(m, "i32")), -294967296);
    assert_true(json_real_value(json_object_get(m, "f32")) == (double)0.1f);
    assert_true(json_is_true(json_object_get(m, "bool")));
    assert_int_equal(json_string_length(json_object_get(m, "text")), 3);
    assert_memory_equal(json_string_value(json_object_get(m, "text")), "a\0\xff", 3);
    assert_true(json_number_value(json_object_get(m, "u64")) == 18446744073709551616.0);
    assert_int_equal(json_integer_value(json_object_get(m, "i64")), -5);
    assert_true(json_real_value(json_object_get(m, "f64")) == 0.1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(m, "texts"), 1)), "x");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(m, "numbers"), 1)), -7);
    assert_int_equal(json_array_size(json_object_get(m, "nothing")), 0);
    assert_int_equal(json_object_size(m), 15);
    checkpoint_close(c);
    bytes_free(&b);
}

static void numbers_that_json_lacks_are_kept_as_text(void **state) {
    (void)state;
    bytes b = {0};
    gguf_start(&b, 3, 0, 1);
    put_key(&b, "f", 9), put_u32(&b, 6), put_u64(&b, 3), put_f32(&b, INFINITY), put_f32(&b, -INFINITY), put_f32(&b, NAN);
    checkpoint *c = opened(&b);
    static const char *const words[] = {"inf", "-inf", "nan"};
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(c->meta, "f"), i)), words[i]);
    checkpoint_close(c);
    bytes_free(&b);
}

static void lengths_and_counts_that_no_file_holds_are_refused_at_once(void **state) {
    (void)state;
    bytes b = {0};
    gguf_start(&b, 3, 0, 1), put_u64(&b, 1ull << 48); /* 32 bytes */
    refused(&b, "a key of 281474976710656 bytes, 0 are left");
    gguf_start(&b, 3, 0, 1), put_u64(&b, UINT64_MAX);
    refused(&b, "a key of 18446744073709551615 bytes");
    gguf_start(&b, 3, 0, 1ull << 63), put_zeros(&b, 100);
    refused(&b, "9223372036854775808 keys");
    gguf_start(&b, 3, 1ull << 63, 0), put_zeros(&b, 100);
    refused(&b, "9223372036854775808 tensors");
    gguf_start(&b, 3, 0, 1), put_key(&b, "a", 9), put_u32(&b, 4), put_u64(&b, 1ull << 63), put_zeros(&b, 100);
    refused(&b, "key a: GGUF, byte 49: an array of 9223372036854775808 values");
    gguf_start(&b, 3, 0, 1), put_key(&b, "a", 9), put_u32(&b, 8), put_u64(&b, 14), put_zeros(&b, 100);
    refused(&b, "an array of 14 values");
    gguf_start(&b, 3, 0, 1), put_key(&b, "t", 8), put_u64(&b, 9), put_zeros(&b, 8);
    refused(&b, "key t: GGUF, byte 45: a text of 9 bytes, 8 are left");
}

static void nested_arrays_are_refused_without_following_them(void **state) {
    (void)state;
    bytes b = {0};
    gguf_start(&b, 3, 0, 1);
    put_key(&b, "deep", 9);
    for (int i = 0; i < 10000; i++) put_u32(&b, 9), put_u64(&b, 1);
    put_u32(&b, 0), put_u64(&b, 1), put_u8(&b, 0);
    refused(&b, "key deep: GGUF, byte 52: an array of arrays");
}

static void keys_of_wrong_type_or_twice_are_refused(void **state) {
    (void)state;
    bytes b = {0};
    gguf_start(&b, 3, 0, 1), put_key(&b, "k", 13), put_u64(&b, 0);
    refused(&b, "key k: has type 13");
    gguf_start(&b, 3, 0, 1), put_key(&b, "k", 9), put_u32(&b, 13), put_u64(&b, 0);
    refused(&b, "an array of type 13");
    gguf_start(&b, 3, 0, 1), put_key(&b, "k", 7), put_u8(&b, 2), put_zeros(&b, 8);
    refused(&b, "key k: GGUF, byte 38: a bool that is neither 0 nor 1");
    gguf_start(&b, 3, 0, 2), put_key(&b, "k", 0), put_u8(&b, 1), put_key(&b, "k", 0), put_u8(&b, 1);
    refused(&b, "key k: is there twice");
}

/* One f32 tensor [2, 3] of given type and offset after `keys`. */
static void put_tensor_file(bytes *b, uint32_t alignment, uint64_t offset, uint32_t type) {
    const uint64_t extents[2] = {3, 2};
    gguf_start(b, 3, 1, 1);
    put_key(b, "general.alignment", 4), put_u32(b, alignment);
    gguf_tensor(b, "x", 2, extents, type, offset);
    put_padding(b, alignment > 0 ? alignment : 32);
    for (int i = 0; i < 6; i++) put_f32(b, (float)i);
}

static void tensors_are_read_from_aligned_offsets(void **state) {
    (void)state;
    for (uint32_t alignment = 8; alignment <= 256; alignment *= 2) {
        bytes b = {0};
        put_tensor_file(&b, alignment, 0, 0);
        checkpoint *c = opened(&b);
        assert_int_equal(checkpoint_find(c, "x")->shape[0], 2);
        for (size_t i = 0; i < 6; i++) assert_true(element(c, "x", i) == (double)i);
        checkpoint_close(c);
        bytes_free(&b);
    }
    bytes b = {0};
    put_tensor_file(&b, 3, 0, 0);
    refused(&b, "key general.alignment: is no power of two");
    put_tensor_file(&b, 0, 0, 0);
    refused(&b, "key general.alignment: is no power of two");
    put_tensor_file(&b, 32, 4, 0);
    refused(&b, "tensor x: its offset 4 is no multiple of 32");
    put_tensor_file(&b, 32, 32, 0);
    refused(&b, "tensor x: 24 bytes from byte 32 of the data, which has 24");
    put_tensor_file(&b, 32, 1ull << 63, 0);
    refused(&b, "tensor x: 24 bytes from byte 9223372036854775808");
    put_tensor_file(&b, 32, 0xffffffffffffffe0, 0);
    refused(&b, "tensor x:");
}

static void every_cut_of_a_file_is_refused(void **state) {
    (void)state;
    bytes whole = {0};
    put_tensor_file(&whole, 32, 0, 0);
    for (size_t n = 0; n < whole.n; n++) {
        bytes cut = {0};
        put(&cut, whole.data, n);
        refused(&cut, "");
    }
    accepted(&whole);
}

static void types_that_are_unknown_or_gone_are_refused(void **state) {
    (void)state;
    static const uint32_t gone[] = {4, 5, 31, 33, 36, 38, 40, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        bytes b = {0};
        char why[32];
        snprintf(why, sizeof why, "tensor x: has type %u", gone[i]);
        put_tensor_file(&b, 32, 0, gone[i]);
        refused(&b, why);
    }
    bytes b = {0};
    put_tensor_file(&b, 32, 0, 8);
    refused(&b, "tensor x: rows of 3 elements are not whole blocks of 32 (Q8_0)");
}

static void dimensions_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const uint32_t counts[] = {5, 9, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        bytes b = {0};
        gguf_start(&b, 3, 1, 0), gguf_text_bytes(&b, "x"), put_u32(&b, counts[i]), put_zeros(&b, 200);
        refused(&b, "dimensions, more than 4");
    }
    static const uint64_t shapes[][4] = {
        {1ull << 63, 1, 1, 1}, {1ull << 32, 1ull << 32, 1, 1}, {1ull << 40, 1ull << 20, 1, 4}, {1ull << 62, 2, 0, 1}};
    for (size_t i = 0; i < 4; i++) {
        bytes b = {0};
        gguf_start(&b, 3, 1, 0), gguf_tensor(&b, "x", 4, shapes[i], 0, 0), put_zeros(&b, 100);
        refused(&b, "tensor x: ");
    }
}

static void one_bad_tensor_of_two_fails_the_whole_file(void **state) {
    (void)state;
    const uint64_t extents[1] = {8};
    bytes b = {0};
    gguf_start(&b, 3, 2, 0);
    gguf_tensor(&b, "good", 1, extents, 0, 0);
    gguf_tensor(&b, "bad", 1, extents, 0, 32);
    put_padding(&b, 32);
    put_zeros(&b, 63); /* a byte is missing */
    refused(&b, "tensor bad: 32 bytes from byte 32");
    gguf_start(&b, 3, 2, 0);
    gguf_tensor(&b, "one", 1, extents, 0, 0);
    gguf_tensor(&b, "two", 1, extents, 0, 0);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    refused(&b, "tensor two: lies on tensor one");
    gguf_start(&b, 3, 2, 0);
    gguf_tensor(&b, "one", 1, extents, 0, 0);
    gguf_tensor(&b, "one", 1, extents, 0, 32);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    refused(&b, "tensor one: is there twice");
}

static void q8_0_rows_are_34_bytes_for_32_elements(void **state) {
    (void)state;
    const uint64_t extents[2] = {32, 2};
    bytes b = {0};
    gguf_start(&b, 2, 1, 0);
    gguf_tensor(&b, "q", 2, extents, 8, 0);
    put_padding(&b, 32);
    for (int row = 0; row < 2; row++) put_u16(&b, 0x3800), put_u8(&b, 0x80), put_u8(&b, 127), put_zeros(&b, 30);
    checkpoint *c = opened(&b);
    const tensor *t = checkpoint_find(c, "q");
    error e;
    tensor_bytes data;
    float row[32];
    assert_int_equal(t->n_bytes, 68);
    assert_int_equal(tensor_read(c, t, &data, &e), OK);
    dtype_info(t->type)->decode(row, (const uint8_t *)data.data + 34, 32);
    assert_true(row[0] == -64 && row[1] == 63.5f && row[2] == 0);
    tensor_release(&data);
    checkpoint_close(c);
    bytes_free(&b);
}

static void types_that_are_not_decoded_are_listed(void **state) {
    (void)state;
    const uint64_t extents[1] = {256};
    bytes b = {0};
    gguf_start(&b, 3, 1, 0);
    gguf_tensor(&b, "iq", 1, extents, 23, 0); /* IQ4_XS: 136 bytes */
    put_padding(&b, 32);
    put_zeros(&b, 136);
    checkpoint *c = opened(&b);
    assert_int_equal(c->tensors[0].type, DTYPE_OTHER);
    assert_string_equal(c->tensors[0].type_name, "IQ4_XS");
    assert_int_equal(c->tensors[0].n_bytes, 136);
    checkpoint_close(c);
    bytes_free(&b);
}

static void other_versions_and_byte_orders_are_refused(void **state) {
    (void)state;
    bytes b = {0};
    gguf_start(&b, 1, 0, 0);
    refused(&b, "GGUF version 1 (2 and 3 are read)");
    gguf_start(&b, 0x03000000, 0, 0);
    refused(&b, "big-endian");
    put_text(&b, "FUGG"), put_zeros(&b, 20);
    refused(&b, "big-endian");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(numbers_that_json_lacks_are_kept_as_text),
        cmocka_unit_test(lengths_and_counts_that_no_file_holds_are_refused_at_once),
        cmocka_unit_test(nested_arrays_are_refused_without_following_them),
        cmocka_unit_test(keys_of_wrong_type_or_twice_are_refused),
        cmocka_unit_test(tensors_are_read_from_aligned_offsets),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(types_that_are_unknown_or_gone_are_refused),
        cmocka_unit_test(dimensions_that_cannot_be_are_refused),
        cmocka_unit_test(one_bad_tensor_of_two_fails_the_whole_file),
        cmocka_unit_test(q8_0_rows_are_34_bytes_for_32_elements),
        cmocka_unit_test(types_that_are_not_decoded_are_listed),
        cmocka_unit_test(other_versions_and_byte_orders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
