/* PyTorch zip files: views, shared storages, records, and archives that are broken. */
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

static void a_transposed_view_reads_as_its_contiguous_copy(void **state) {
    (void)state;
    /* storage 0..5 as [2, 3]; its transpose is [3, 2] with strides 1, 3 */
    bytes b = make_pt(&(made_tensor){.n = 6, .n_dims = 2, .n_strides = 2, .shape = {3, 2}, .stride = {1, 3}}, 6);
    checkpoint *c = opened(&b);
    const double expected[] = {0, 3, 1, 4, 2, 5};
    for (size_t i = 0; i < 6; i++) assert_true(element(c, "w", i) == expected[i]);
    checkpoint_close(c);
    bytes_free(&b);
}

static void a_slice_starts_at_its_storage_offset(void **state) {
    (void)state;
    /* rows 1 and 2, columns 1 to 3 of a [4, 5] */
    bytes b = make_pt(&(made_tensor){.n = 20, .offset = 6, .n_dims = 2, .n_strides = 2, .shape = {2, 3}, .stride = {5, 1}}, 20);
    checkpoint *c = opened(&b);
    const double expected[] = {6, 7, 8, 11, 12, 13};
    for (size_t i = 0; i < 6; i++) assert_true(element(c, "w", i) == expected[i]);
    assert_int_equal(checkpoint_find(c, "w")->n_bytes, 24);
    checkpoint_close(c);
    bytes_free(&b);
}

static void an_expanded_view_and_a_scalar_are_read(void **state) {
    (void)state;
    bytes b = make_pt(&(made_tensor){.n = 2, .offset = 1, .n_dims = 2, .n_strides = 2, .shape = {3, 4}, .stride = {0, 0}}, 2);
    checkpoint *c = opened(&b);
    for (size_t i = 0; i < 12; i++) assert_true(element(c, "w", i) == 1);
    checkpoint_close(c);
    bytes_free(&b);
    b = make_pt(&(made_tensor){.n = 3, .offset = 2}, 3);
    c = opened(&b);
    assert_int_equal(checkpoint_find(c, "w")->n_dims, 0);
    assert_true(element(c, "w", 0) == 2);
    checkpoint_close(c);
    bytes_free(&b);
}

/* {"model": {"a": t0, "b": t1, "tied": t0}, "args": {...}, ...} with one storage for a and b. */
static bytes make_checkpoint(const char *extra_entry, const char *extra_data) {
    made_zip z = {0};
    bytes p = {0}, storage = {0};
    made_tensor a = {.n = 6, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}};
    made_tensor whole = {.n = 6, .n_dims = 2, .n_strides = 2, .shape = {2, 3}, .stride = {3, 1}};
    pickle_start(&p);
    put_text(&p, "}(");
    pickle_text(&p, "model"), put_text(&p, "}(");
    pickle_text(&p, "a"), pickle_tensor(&p, &a), put_text(&p, "q\x07");
    pickle_text(&p, "b"), pickle_tensor(&p, &whole);
    pickle_text(&p, "tied"), put_text(&p, "h\x07");
    put_u8(&p, 'u');
    pickle_text(&p, "model_args"), put_text(&p, "}(");
    pickle_text(&p, "n_layer"), put_text(&p, "K\x02");
    pickle_text(&p, "dropout"), put_text(&p, "G\x3f\xb9\x99\x99\x99\x99\x99\x9a");
    pickle_text(&p, "bias"), put_u8(&p, 0x89);
    pickle_text(&p, "none"), put_u8(&p, 'N');
    pickle_text(&p, "betas"), put_text(&p, "K\x01K\x02\x86");
    put_u8(&p, 'u');
    pickle_int(&p, 7), pickle_text(&p, "seven");
    pickle_text(&p, "lr"), put_text(&p, "G\x7f\xf0");
    put_zeros(&p, 6); /* infinity */
    put_text(&p, "u.");
    for (int i = 0; i < 6; i++) put_f32(&storage, (float)i + 0.5f);
    zip_entry(&z, "x/y/data.pkl", p.data, p.n);
    zip_entry(&z, "x/y/data/0", storage.data, storage.n);
    if (extra_entry != NULL) zip_entry(&z, extra_entry, extra_data, strlen(extra_data));
    bytes_free(&p);
    bytes_free(&storage);
    return zip_done(&z);
}

static void nested_dicts_become_dotted_names_and_metadata(void **state) {
    (void)state;
    bytes b = make_checkpoint("x/y/byteorder", "little");
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_PT_ZIP);
    assert_int_equal(c->n_tensors, 3);
    assert_true(element(c, "model.a", 1) == 1.5 && element(c, "model.b", 5) == 5.5 && element(c, "model.tied", 1) == 1.5);
    const json_t *args = json_object_get(c->meta, "model_args");
    assert_int_equal(json_integer_value(json_object_get(args, "n_layer")), 2);
    assert_true(json_real_value(json_object_get(args, "dropout")) == 0.1);
    assert_true(json_is_false(json_object_get(args, "bias")) && json_is_null(json_object_get(args, "none")));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(args, "betas"), 1)), 2);
    assert_string_equal(json_string_value(json_object_get(c->meta, "7")), "seven");
    assert_string_equal(json_string_value(json_object_get(c->meta, "lr")), "inf");
    assert_null(json_object_get(c->meta, "model")); /* nothing but tensors in it */
    checkpoint_close(c);
    bytes_free(&b);
}

static void a_big_endian_archive_is_refused(void **state) {
    (void)state;
    bytes b = make_checkpoint("x/y/byteorder", "big");
    refused(&b, "byte order \"big\"");
    b = make_checkpoint("x/y/byteorder", "bigger than any order");
    refused(&b, "x/y/byteorder: is no byte order");
}

static void tensors_that_leave_their_storage_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        made_tensor t;
        size_t n;
        const char *why;
    } cases[] = {
        {{.n = 6, .n_dims = 2, .n_strides = 2, .shape = {2, 4}, .stride = {4, 1}},
         6,
         "tensor w: reaches element 0 + 7 of a storage of 6"},
        {{.n = 6, .offset = 1, .n_dims = 1, .n_strides = 1, .shape = {6}, .stride = {1}},
         6,
         "tensor w: reaches element 1 + 5 of a storage of 6"},
        {{.n = 6, .offset = 6, .n_dims = 0}, 6, "tensor w: reaches element 6 + 0"},
        {{.n = 6, .offset = -1, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}},
         6,
         "tensor w: its offset is no integer, or negative"},
        {{.n = 6, .offset = INT64_MAX, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}}, 6, "tensor w: reaches"},
        {{.n = 6, .n_dims = 1, .n_strides = 1, .shape = {-2}, .stride = {1}}, 6, "tensor w: a negative dimension"},
        {{.n = 6, .offset = 5, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {-1}},
         6,
         "tensor w: a negative dimension or stride"},
        {{.n = 6, .n_dims = 2, .n_strides = 1, .shape = {2, 3}, .stride = {1}}, 6, "tensor w: 2 dimensions with 1 strides"},
        {{.n = 6, .n_dims = 9, .n_strides = 9}, 6, "tensor w: its shape or strides are not up to 8 integers"},
        {{.n = 6, .n_dims = 2, .n_strides = 2, .shape = {1ll << 62, 4}, .stride = {4, 1}}, 6, "overflow 64 bits"},
        {{.n = 6, .n_dims = 2, .n_strides = 2, .shape = {1ll << 40, 1ll << 40}, .stride = {0, 0}},
         6,
         "tensor w: the shape overflows 64 bits"},
        {{.n = 6, .n_dims = 1, .n_strides = 1, .shape = {1ll << 40}, .stride = {0}}, 6, "tensor w: claims 4398046511104 bytes"},
        {{.n = 7, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}},
         6,
         "tensor w: its record data/0 has 24 bytes, for 7 elements of 4"},
        {{.n = 1ll << 62, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}}, 6, "tensor w: has a broken storage"},
        {{.n = -1, .n_dims = 1, .n_strides = 1, .shape = {0}, .stride = {1}}, 6, "tensor w: has a broken storage"},
        {{.key = "1", .n = 6, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}},
         6,
         "tensor w: its record data/1 is not in the archive"},
        {{.key = "../0", .n = 6, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {1}}, 6, "is not in the archive"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = make_pt(&cases[i].t, cases[i].n);
        refused(&b, cases[i].why);
    }
    bytes b = make_pt(&(made_tensor){.n = 0, .n_dims = 2, .n_strides = 2, .shape = {0, 1ll << 40}, .stride = {1, 1}}, 0);
    accepted(&b);
}

static void every_cut_of_an_archive_is_refused(void **state) {
    (void)state;
    bytes whole = make_checkpoint(NULL, NULL);
    for (size_t n = 0; n < whole.n; n++) {
        bytes cut = {0};
        put(&cut, whole.data, n);
        refused(&cut, "");
    }
    bytes_free(&whole);
}

static void a_damaged_record_is_found_by_its_checksum(void **state) {
    (void)state;
    bytes b = make_checkpoint(NULL, NULL);
    uint8_t *at = memmem(b.data, b.n, "x/y/data/0", 10);
    at[10 + 5] ^= 1; /* in the elements */
    checkpoint *c = opened(&b);
    tensor_bytes t;
    error e = {0};
    assert_int_equal(tensor_read(c, checkpoint_find(c, "model.b"), &t, &e), ERR_FORMAT);
    assert_null(t.data);
    assert_non_null(strstr(e.message, "made: tensor model.b: zip: x/y/data/0: damaged"));
    checkpoint_close(c);
    bytes_free(&b);
    b = make_checkpoint(NULL, NULL);
    at = memmem(b.data, b.n, "dropout", 7);
    at[0] ^= 1; /* in the pickle */
    refused(&b, "x/y/data.pkl: damaged");
}

/* A deflate stream of stored blocks: one byte that says so, the length twice, the bytes. */
static void deflate_stored(bytes *b, const uint8_t *data, size_t n) {
    put_u8(b, 1);
    put_u16(b, (uint16_t)n);
    put_u16(b, (uint16_t)~n);
    put(b, data, n);
}

static bytes make_deflated(size_t claimed) {
    made_zip z = {0};
    bytes p = {0}, storage = {0}, packed_pickle = {0}, packed = {0};
    made_tensor t = {.n = 6, .offset = 2, .n_dims = 1, .n_strides = 1, .shape = {4}, .stride = {1}};
    pickle_start(&p), put_u8(&p, '}'), pickle_text(&p, "w"), pickle_tensor(&p, &t), put_text(&p, "s.");
    for (int i = 0; i < 6; i++) put_f32(&storage, (float)i);
    deflate_stored(&packed_pickle, p.data, p.n);
    deflate_stored(&packed, storage.data, storage.n);
    zip_entry_deflated(&z, "data.pkl", packed_pickle.data, packed_pickle.n, p.data, claimed > 0 ? claimed : p.n);
    zip_entry_deflated(&z, "data/0", packed.data, packed.n, storage.data, storage.n);
    bytes_free(&p), bytes_free(&storage), bytes_free(&packed_pickle), bytes_free(&packed);
    return zip_done(&z);
}

static void deflated_records_are_read(void **state) {
    (void)state;
    bytes b = make_deflated(0);
    checkpoint *c = opened(&b);
    for (size_t i = 0; i < 4; i++) assert_true(element(c, "w", i) == (double)i + 2);
    checkpoint_close(c);
    bytes_free(&b);
}

static void archives_without_one_pickle_are_refused(void **state) {
    (void)state;
    made_zip z = {0};
    zip_entry(&z, "a/other.pkl", ".", 1);
    zip_entry(&z, "a/notdata.pkl", ".", 1);
    bytes b = zip_done(&z);
    refused(&b, "no data.pkl in it");
    z = (made_zip){0};
    zip_entry(&z, "a/data.pkl", "\x80\x02}.", 4);
    zip_entry(&z, "b/data.pkl", "\x80\x02}.", 4);
    b = zip_done(&z);
    refused(&b, "two entries named data.pkl");
}

static void an_archive_of_very_many_entries_is_refused_before_it_is_read(void **state) {
    (void)state;
    bytes b = make_checkpoint(NULL, NULL);
    /* zip64: the end record says "look there", and there stands 2^40 */
    bytes far = {0};
    put(&far, b.data, b.n - 22);
    size_t record = far.n;
    put_text(&far, "PK\6\6"), put_u64(&far, 44), put_zeros(&far, 12), put_u64(&far, 1ull << 40), put_u64(&far, 1ull << 40),
        put_zeros(&far, 16);
    put_text(&far, "PK\6\7"), put_u32(&far, 0), put_u64(&far, record), put_u32(&far, 1);
    put_text(&far, "PK\5\6"), put_zeros(&far, 4), put_u32(&far, 0xffffffff), put_u64(&far, UINT64_MAX), put_u16(&far, 0);
    refused(&far, "1099511627776 entries");
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transposed_view_reads_as_its_contiguous_copy),
        cmocka_unit_test(a_slice_starts_at_its_storage_offset),
        cmocka_unit_test(an_expanded_view_and_a_scalar_are_read),
        cmocka_unit_test(nested_dicts_become_dotted_names_and_metadata),
        cmocka_unit_test(a_big_endian_archive_is_refused),
        cmocka_unit_test(tensors_that_leave_their_storage_are_refused_by_name),
        cmocka_unit_test(every_cut_of_an_archive_is_refused),
        cmocka_unit_test(a_damaged_record_is_found_by_its_checksum),
        cmocka_unit_test(deflated_records_are_read),
        cmocka_unit_test(archives_without_one_pickle_are_refused),
        cmocka_unit_test(an_archive_of_very_many_entries_is_refused_before_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
