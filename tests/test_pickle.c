/* Pickles: what they may ask for, and what none may; and the legacy format around them. */
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

/* A bare pickle of these bytes. */
static bytes bare(const char *text, size_t n) {
    bytes b = {0};
    put(&b, text, n);
    return b;
}
#define BARE(text) bare(text, sizeof text - 1)
#define REFUSED(text, why)                                                                                                     \
    do {                                                                                                                       \
        bytes made_ = BARE(text);                                                                                              \
        refused(&made_, why);                                                                                                  \
    } while (0)

static void names_that_are_not_known_are_refused_and_printed(void **state) {
    (void)state;
    remove("/tmp/tally-pwned");
    REFUSED("\x80\x02"
            "cos\nsystem\nX\x16\0\0\0touch /tmp/tally-pwned\x85R.",
            "asks for os.system, which is not run");
    REFUSED("\x80\x02"
            "cposix\nsystem\n.",
            "asks for posix.system");
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.", "asks for os.system");
    REFUSED("\x80\x02"
            "cbuiltins\neval\nX\x01\0\0\0x\x85R.",
            "asks for builtins.eval");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2x\n.",
            "asks for torch._utils._rebuild_tensor_v2x");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_tensor\n)R.",
            "tensor (the whole file): has no storage");
    REFUSED("\x80\x02"
            "ctorch\nload\n.",
            "asks for torch.load");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\x00\n.",
            "asks for collections.OrderedDict");
    REFUSED("\x80\x02"
            "c\n\n.",
            "asks for .");
    REFUSED("\x80\x02(cos\nsystem\nX\x01\0\0\0xo.", "asks for os.system");
    REFUSED("\x80\x02(X\x01\0\0\0xios\nsystem\n.", "instruction 0x69");
    REFUSED("\x80\x02\x82\x01.", "instruction 0x82"); /* EXT1 */
    assert_int_not_equal(remove("/tmp/tally-pwned"), 0);
}

static void calls_of_known_names_build_data_only(void **state) {
    (void)state;
    REFUSED("\x80\x02X\x01\0\0\0x)R.", "it calls what is no name");
    REFUSED("\x80\x02"
            "ccollections\nOrderedDict\nN"
            "R.",
            "it calls what is no name, or not with a tuple");
    REFUSED("\x80\x02"
            "ctorch\nFloatStorage\n)R.",
            "it calls a type of storage");
    REFUSED("\x80\x02"
            "ctorch._utils\n_rebuild_parameter\n)R.",
            "a wrong argument of a known name");
    REFUSED("\x80\x02]N"
            "b.",
            "gives attributes to what can have none");
    bytes b = BARE("\x80\x02}(X\x04\0\0\0args"
                   "cargparse\nNamespace\n)\x81}(X\x02\0\0\0lrK\x05ubX\x01\0\0\0t"
                   "ctorch\nfloat16\nX\x01\0\0\0s"
                   "ctorch\nSize\n(K\x02K\x03t\x85RX\x01\0\0\0o"
                   "ccollections\nOrderedDict\n)R(X\x01\0\0\0kK\x01u}"
                   "X\x09\0\0\0_metadata}sbX\x03\0\0\0old"
                   "ccollections\nOrderedDict\n](](X\x01\0\0\0pK\x09"
                   "ee\x85Ru.");
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_PICKLE);
    const json_t *m = c->meta;
    assert_int_equal(json_integer_value(json_object_get(json_object_get(m, "args"), "lr")), 5);
    assert_string_equal(json_string_value(json_object_get(m, "t")), "torch.float16");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(m, "s"), 1)), 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(m, "o"), "k")), 1);
    assert_null(json_object_get(json_object_get(m, "o"), "_metadata"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(m, "old"), "p")), 9);
    checkpoint_close(c);
    bytes_free(&b);
}

static void a_training_scripts_configuration_is_a_dict(void **state) {
    (void)state;
    bytes b = BARE("\x80\x02}X\x06\0\0\0config"
                   "c__main__\nGPTConfig\n)\x81}(X\x07\0\0\0n_layerK\x0cX\x04\0\0\0bias\x88ubs.");
    checkpoint *c = opened(&b);
    const json_t *config = json_object_get(c->meta, "config");
    assert_int_equal(json_integer_value(json_object_get(config, "n_layer")), 12);
    assert_true(json_is_true(json_object_get(config, "bias")));
    checkpoint_close(c);
    bytes_free(&b);
    REFUSED("\x80\x02"
            "c__main__\nGPT\n)\x81}b.",
            "asks for __main__.GPT, which is not run");
}

static void stacks_and_memos_that_do_not_hold_what_is_taken_are_refused(void **state) {
    (void)state;
    static const char *const programs[] = {"\x80\x02.",
                                           "\x80\x02R.",
                                           "\x80\x02K\x01R.",
                                           "\x80\x02(.",
                                           "\x80\x02K\x01(.",
                                           "\x80\x02t.",
                                           "\x80\x02K\x01\x86.",
                                           "\x80\x02K\x01(K\x02\x86.",
                                           "\x80\x02"
                                           "a.",
                                           "\x80\x02]a.",
                                           "\x80\x02]K\x01(a.",
                                           "\x80\x02}K\x01s.",
                                           "\x80\x02(u.",
                                           "\x80\x02K\x01(u.",
                                           "\x80\x02u.",
                                           "\x80\x02"
                                           "0.",
                                           "\x80\x02"
                                           "1.",
                                           "\x80\x02"
                                           "2.",
                                           "\x80\x02Q.",
                                           "\x80\x02K\x01Q.",
                                           "\x80\x02"
                                           "b.",
                                           "\x80\x02}b.",
                                           "\x80\x02h\x05.",
                                           "\x80\x02q\x01.",
                                           "\x80\x02\x93.",
                                           "\x80\x04K\x01K\x02\x93.",
                                           "\x80\x04\x94.",
                                           "\x80\x02]K\x01s.",
                                           "\x80\x02}(K\x01u.",
                                           "\x80\x02(K\x01"
                                           "d.",
                                           "\x80\x02(]K\x01(e"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        bytes b = {0};
        put_text(&b, programs[i]);
        refused(&b, "pickle, byte");
    }
    REFUSED("\x80\x02j\xff\xff\xff\xff.", "recalls what it did not store");
    REFUSED("\x80\x02Nr\xff\xff\xff\xff.", "a memo number beyond the pickle's size");
    REFUSED("\x80\x06N.", "its protocol is newer than 5");
}

static void lengths_beyond_the_pickle_are_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02X\xff\xff\xff\x7f"
            "abc.",
            "a text is longer than the pickle");
    REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "a text is longer than the pickle");
    REFUSED("\x80\x04\x8c\x09"
            "abc.",
            "a text is longer than the pickle");
    REFUSED("\x80\x03"
            "C\x09"
            "abc.",
            "a text is longer than the pickle");
    REFUSED("\x80\x02\x8b\xff\xff\xff\x7f.", "a text is longer than the pickle");
    REFUSED("\x80\x02G\x01.", "in the middle of an instruction");
    REFUSED("\x80\x02"
            "cos",
            "a name without an end");
    REFUSED("\x80\x02K\x01", "without a STOP");
}

static void numbers_of_every_width_are_read(void **state) {
    (void)state;
    bytes b = BARE(
        "\x80\x04](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x00\x8a\x01\xff\x8a\x02\xff\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
        "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"
        "\x88\x89NG\xc0\x04\0\0\0\0\0\0e.");
    checkpoint *c = opened(&b);
    const json_t *v = json_object_get(c->meta, "value");
    const json_int_t expected[] = {255, 65535, -1, 0, -1, 255, INT64_MIN};
    for (size_t i = 0; i < 7; i++) assert_int_equal(json_integer_value(json_array_get(v, i)), expected[i]);
    assert_string_equal(json_string_value(json_array_get(v, 7)), "integer of 9 bytes");
    assert_true(json_is_true(json_array_get(v, 8)) && json_is_false(json_array_get(v, 9)) &&
                json_is_null(json_array_get(v, 10)));
    assert_true(json_real_value(json_array_get(v, 11)) == -2.5);
    checkpoint_close(c);
    bytes_free(&b);
}

static void a_vocabulary_pickle_becomes_metadata(void **state) {
    (void)state;
    /* {"stoi": {"a": 0, "é": 1}, "itos": {0: "a", 1: "é"}}, protocol 4 as nanoGPT writes it */
    bytes b = BARE("\x80\x04\x95\x30\0\0\0\0\0\0\0}\x94(\x8c\x04stoi\x94}\x94(\x8c\x01"
                   "a\x94K\x00\x8c\x02\xc3\xa9\x94K\x01u\x8c\x04itos\x94}\x94(K\x00h\x03K\x01h\x04uu.");
    checkpoint *c = opened(&b);
    assert_int_equal(c->n_tensors, 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(c->meta, "stoi"), "\xc3\xa9")), 1);
    assert_string_equal(json_string_value(json_object_get(json_object_get(c->meta, "itos"), "1")), "\xc3\xa9");
    assert_string_equal(json_string_value(json_object_get(json_object_get(c->meta, "itos"), "0")), "a");
    checkpoint_close(c);
    bytes_free(&b);
}

static void what_contains_itself_or_is_nested_without_end_is_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02}q\x00X\x01\0\0\0ah\x00s.", "contains itself");
    REFUSED("\x80\x02]q\x00h\x00"
            "ah\x00"
            "a.",
            "contains itself");
    bytes b = BARE("\x80\x02");
    for (int i = 0; i < 100000; i++) put_u8(&b, ']');
    for (int i = 1; i < 100000; i++) put_u8(&b, 'a');
    put_u8(&b, '.');
    refused(&b, "nested more than 64 deep");
}

/* l0 = [], l1 = [l0, l0, ...], ... each ten times the one before: 10^40 items when written out. */
static void shared_values_do_not_multiply(void **state) {
    (void)state;
    bytes b = BARE("\x80\x02]q\x00");
    for (uint8_t i = 1; i <= 40; i++) {
        put_text(&b, "](");
        for (int k = 0; k < 10; k++) put_u8(&b, 'h'), put_u8(&b, (uint8_t)(i - 1));
        put_u8(&b, 'e'), put_u8(&b, 'q'), put_u8(&b, i);
    }
    put_u8(&b, '.');
    refused(&b, "more memory than the file's size");
}

static void the_state_of_an_optimizer_may_be_of_any_size(void **state) {
    (void)state;
    bytes p = {0};
    made_zip z = {0};
    made_tensor t = {.n = 1, .n_dims = 1, .n_strides = 1, .shape = {1}, .stride = {1}};
    pickle_start(&p);
    put_text(&p, "}(");
    pickle_text(&p, "optimizer"), put_text(&p, "}(");
    pickle_text(&p, "exp_avg"), pickle_tensor(&p, &t);
    pickle_text(&p, "history"), put_text(&p, "](N2"); /* a shared list within a list, far beyond any memory */
    for (int i = 0; i < 2000; i++) put_u8(&p, '2');
    put_text(&p, "eq\x01");
    for (int i = 2; i < 8; i++) {
        put_text(&p, "0](");
        for (int k = 0; k < 100; k++) put_u8(&p, 'h'), put_u8(&p, (uint8_t)(i - 1));
        put_u8(&p, 'e'), put_u8(&p, 'q'), put_u8(&p, (uint8_t)i);
    }
    put_u8(&p, 'u');
    pickle_text(&p, "model"), put_u8(&p, '}'), pickle_text(&p, "w"), pickle_tensor(&p, &t), put_u8(&p, 's');
    pickle_text(&p, "step"), put_text(&p, "K\x09u.");
    zip_entry(&z, "data.pkl", p.data, p.n);
    zip_entry(&z, "data/0", "\0\0\x80\x3f", 4);
    bytes_free(&p);
    bytes b = zip_done(&z);
    checkpoint *c = opened(&b);
    assert_true(element(c, "model.w", 0) == 1);
    assert_non_null(checkpoint_find(c, "optimizer.exp_avg"));
    assert_int_equal(json_integer_value(json_object_get(c->meta, "step")), 9);
    assert_null(json_object_get(c->meta, "optimizer"));
    checkpoint_close(c);
    bytes_free(&b);
}

/* The legacy format: magic, protocol, system, data, keys, storages. */
static bytes legacy(bool little, bool view, const char *key) {
    bytes b = {0};
    put(&b,
        "\x80\x02\x8a\x0al\xfc\x9c"
        "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}(X\x0d\0\0\0little_endian",
        14 + 6 + 4 + 5 + 13 + 1);
    put_u8(&b, little ? 0x88 : 0x89);
    put_text(&b, "u.");
    pickle_start(&b);
    put_u8(&b, '}');
    pickle_text(&b, "w");
    made_tensor t = {.key = "77", .n = 6, .offset = 1, .n_dims = 1, .n_strides = 1, .shape = {2}, .stride = {2}};
    pickle_global(&b, "torch._utils", "_rebuild_tensor_v2");
    put_text(&b, "((");
    pickle_text(&b, "storage"), pickle_global(&b, "torch", "FloatStorage"), pickle_text(&b, "77"), pickle_text(&b, "cpu");
    pickle_int(&b, (int32_t)t.n);
    if (view)
        put(&b, "X\x01\0\0\0vK\x02K\x04\x87", 11); /* elements 2 to 5 */
    else
        put_u8(&b, 'N');
    put_text(&b, "tQK\x01K\x02\x85K\x02\x85\x89");
    pickle_global(&b, "collections", "OrderedDict");
    put_text(&b, ")RtRs.");
    pickle_start(&b);
    put_u8(&b, ']');
    pickle_text(&b, key);
    put_text(&b, "a.");
    put_u64(&b, 6);
    for (int i = 0; i < 6; i++) put_f32(&b, (float)i);
    return b;
}

static void the_legacy_format_is_read(void **state) {
    (void)state;
    bytes b = legacy(true, false, "77");
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_PT_LEGACY);
    assert_true(element(c, "w", 0) == 1 && element(c, "w", 1) == 3);
    checkpoint_close(c);
    bytes_free(&b);
    b = legacy(true, true, "77");
    c = opened(&b);
    assert_true(element(c, "w", 0) == 3 && element(c, "w", 1) == 5);
    checkpoint_close(c);
    for (size_t n = 0; n < b.n; n++) {
        bytes cut = {0};
        put(&cut, b.data, n);
        refused(&cut, "");
    }
    bytes_free(&b);
}

static void legacy_files_that_do_not_add_up_are_refused(void **state) {
    (void)state;
    bytes b = legacy(false, false, "77");
    refused(&b, "legacy: big-endian");
    b = legacy(true, false, "78");
    refused(&b, "storage 78 belongs to no tensor");
    b = legacy(true, false, "77");
    put_u8(&b, 0);
    refused(&b, "1 bytes after the last storage");
    b = legacy(true, false, "77");
    b.data[b.n - 32] = 5;
    refused(&b, "storage 77: two numbers of elements");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_not_known_are_refused_and_printed),
        cmocka_unit_test(calls_of_known_names_build_data_only),
        cmocka_unit_test(a_training_scripts_configuration_is_a_dict),
        cmocka_unit_test(stacks_and_memos_that_do_not_hold_what_is_taken_are_refused),
        cmocka_unit_test(lengths_beyond_the_pickle_are_refused),
        cmocka_unit_test(numbers_of_every_width_are_read),
        cmocka_unit_test(a_vocabulary_pickle_becomes_metadata),
        cmocka_unit_test(what_contains_itself_or_is_nested_without_end_is_refused),
        cmocka_unit_test(shared_values_do_not_multiply),
        cmocka_unit_test(the_state_of_an_optimizer_may_be_of_any_size),
        cmocka_unit_test(the_legacy_format_is_read),
        cmocka_unit_test(legacy_files_that_do_not_add_up_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
