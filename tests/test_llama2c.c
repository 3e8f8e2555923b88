/* llama2.c .bin files of the three versions, written here with numbers that say where they stand. */
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

typedef struct {
    int32_t dim, hidden, layers, heads, kv_heads, vocab, seq;
} numbers;
static const numbers small = {8, 12, 2, 4, 2, 5, 6}; /* head_dim 2, kv_dim 4 */

/* Weight k of the file, in the order of the format, is k: so a tensor's first value says where it was found. */
static void put_counting(bytes *b, size_t n, size_t *k) {
    for (size_t i = 0; i < n; i++) put_f32(b, (float)(*k)++);
}

static bytes version_0(numbers n, bool untied) {
    bytes b = {0};
    size_t k = 0;
    if (untied) n.vocab = -n.vocab;
    put(&b, &n, sizeof n);
    size_t d = 8, L = 2, kv = 4, h = 12, v = 5;
    put_counting(&b, v * d + L * d + L * d * d + 2 * L * kv * d + L * d * d + L * d + 3 * L * h * d + d + 2 * 6 * 1, &k);
    if (untied) put_counting(&b, v * d, &k);
    return b;
}

static void version_0_slices_the_stacked_layers(void **state) {
    (void)state;
    bytes b = version_0(small, false);
    checkpoint *c = opened(&b);
    assert_int_equal(c->kind, CHECKPOINT_LLAMA2C);
    assert_int_equal(c->n_tensors, 2 * 9 + 2);
    /* In order: 40 embeddings, 16 attn norms, 128 wq, 64 wk, 64 wv, 128 wo, 16 ffn norms, 192 w1, 192 w2, 192 w3, 8 norm. */
    static const struct {
        const char *name;
        int rows, cols, first;
    } expected[] = {{"tok_embeddings.weight", 5, 8, 0},
                    {"layers.0.attention_norm.weight", 8, 0, 40},
                    {"layers.1.attention_norm.weight", 8, 0, 48},
                    {"layers.1.attention.wq.weight", 8, 8, 56 + 64},
                    {"layers.0.attention.wk.weight", 4, 8, 184},
                    {"layers.1.attention.wv.weight", 4, 8, 248 + 32},
                    {"layers.1.attention.wo.weight", 8, 8, 312 + 64},
                    {"layers.0.ffn_norm.weight", 8, 0, 440},
                    {"layers.1.feed_forward.w1.weight", 12, 8, 456 + 96},
                    {"layers.0.feed_forward.w2.weight", 8, 12, 648},
                    {"layers.1.feed_forward.w3.weight", 12, 8, 840 + 96},
                    {"norm.weight", 8, 0, 1032}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const tensor *t = checkpoint_find(c, expected[i].name);
        if (t == NULL) fail_msg("no %s", expected[i].name);
        assert_int_equal(t->shape[0], expected[i].rows);
        assert_int_equal(t->n_dims, expected[i].cols > 0 ? 2 : 1);
        if (expected[i].cols > 0) assert_int_equal(t->shape[1], expected[i].cols);
        assert_true(element(c, expected[i].name, 0) == expected[i].first);
        assert_true(element(c, expected[i].name, t->n_elems - 1) == expected[i].first + (double)t->n_elems - 1);
    }
    static const struct {
        const char *key;
        int value;
    } meta[] = {{"dim", 8},        {"hidden_dim", 12}, {"n_layers", 2},    {"n_heads", 4},
                {"n_kv_heads", 2}, {"vocab_size", 5},  {"max_seq_len", 6}, {"version", 0}};
    for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
        assert_int_equal(json_integer_value(json_object_get(c->meta, meta[i].key)), meta[i].value);
    assert_true(json_is_true(json_object_get(c->meta, "shared_classifier")));
    checkpoint_close(c);
    bytes_free(&b);
}

static void a_negative_vocabulary_means_an_untied_head(void **state) {
    (void)state;
    bytes b = version_0(small, true);
    checkpoint *c = opened(&b);
    assert_int_equal(json_integer_value(json_object_get(c->meta, "vocab_size")), 5);
    assert_true(json_is_false(json_object_get(c->meta, "shared_classifier")));
    assert_true(element(c, "output.weight", 0) == 1040 + 12); /* after the rotation table */
    checkpoint_close(c);
    bytes_free(&b);
    b = version_0(small, true);
    b.n -= 5 * 8 * 4;
    refused(&b, "too short: its header asks for");
    b = version_0(small, false);
    put_zeros(&b, 4);
    refused(&b, "too long: its header asks for");
}

static void numbers_that_make_no_model_are_refused(void **state) {
    (void)state;
    static const struct {
        numbers n;
        const char *why;
    } cases[] = {
        {{8, 12, 2, 4, 2, 0, 6}, "vocab_size is 0"},
        {{8, 12, 2, 4, 2, INT32_MIN, 6}, "vocab_size is -2147483648"},
        {{66, 12, 2, 33, 2, 5, 6}, "33 heads do not divide among 2 K/V heads"},
        {{8, 12, 2, 0, 2, 5, 6}, "n_heads is 0"},
        {{8, 12, 2, 4, 0, 5, 6}, "n_kv_heads is 0"},
        {{8, 12, 2, 4, 8, 5, 6}, "4 heads do not divide among 8 K/V heads"},
        {{4096, 11008, 32, 7, 7, 32000, 2048}, "dim 4096 does not divide into 7 heads"},
        {{12, 12, 2, 4, 2, 5, 6}, "a head of 3 elements has no pairs"},
        {{-64, 172, 5, 8, 4, 512, 512}, "dim is -64"},
        {{1 << 30, 1 << 30, 1 << 20, 8, 4, 512, 512}, "too short: its header asks for more than 64 bits"},
        {{65536, 65536, 1024, 8, 4, 512, 512}, "too short: its header asks for"},
    };
    for (size_t version = 1; version <= 2; version++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bytes b = {0};
            put_u32(&b, 0x616b3432), put_u32(&b, (uint32_t)version);
            put(&b, &cases[i].n, sizeof(numbers));
            put_u8(&b, 1), put_u32(&b, 1);
            put_zeros(&b, 4096);
            refused(&b, cases[i].why);
        }
    for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].n.heads <= 0 || cases[i].n.kv_heads <= 0) continue; /* without a magic number, zeros look like nothing */
        bytes b = {0};
        put(&b, &cases[i].n, sizeof(numbers));
        put_zeros(&b, 4096);
        refused(&b, cases[i].why);
    }
}

static void put_header(bytes *b, int version, numbers n, bool tied, int group) {
    put_u32(b, 0x616b3432);
    put_u32(b, (uint32_t)version);
    put(b, &n, sizeof n);
    put_u8(b, tied);
    if (version == 2) put_u32(b, (uint32_t)group);
    put_zeros(b, 256 - b->n);
}

static void version_1_has_the_norms_first(void **state) {
    (void)state;
    bytes b = {0};
    size_t k = 0;
    put_header(&b, 1, small, false, 0);
    put_counting(&b, 16 + 16 + 8 + 40 + 128 + 64 + 64 + 128 + 192 * 3 + 40, &k);
    checkpoint *c = opened(&b);
    assert_true(element(c, "layers.1.attention_norm.weight", 0) == 8);
    assert_true(element(c, "layers.0.ffn_norm.weight", 0) == 16);
    assert_true(element(c, "norm.weight", 0) == 32);
    assert_true(element(c, "tok_embeddings.weight", 0) == 40);
    assert_true(element(c, "layers.0.attention.wq.weight", 0) == 80);
    assert_true(element(c, "layers.1.attention.wk.weight", 0) == 208 + 32);
    assert_true(element(c, "layers.1.feed_forward.w2.weight", 95) == 464 + 192 + 191);
    assert_true(element(c, "output.weight", 0) == 464 + 576);
    checkpoint_close(c);
    bytes_free(&b);
}

/* n int8 elements e, e + 1, ... and then n / group scales s, s + 1, ... */
static void put_quantised(bytes *b, size_t n, size_t group, int e, float s) {
    for (size_t i = 0; i < n; i++) put_u8(b, (uint8_t)(e + (int)(i % 100)));
    for (size_t i = 0; i < n / group; i++) put_f32(b, s + (float)i);
}

static void version_2_has_scales_after_each_tensor(void **state) {
    (void)state;
    bytes b = {0};
    size_t k = 0;
    put_header(&b, 2, small, true, 4);
    put_counting(&b, 16 + 16 + 8, &k);
    static const size_t sizes[] = {40, 64, 64, 32, 32, 32, 32, 64,
                                   64, 96, 96, 96, 96, 96, 96}; /* tok, wq 2x, wk 2x, ... w3 2x */
    for (int i = 0; i < 15; i++) put_quantised(&b, sizes[i], 4, i - 7, (float)(100 * i));
    checkpoint *c = opened(&b);
    const tensor *wv = checkpoint_find(c, "layers.1.attention.wv.weight"); /* number 6 */
    assert_int_equal(wv->type, DTYPE_I8G);
    assert_int_equal(wv->group, 4);
    assert_int_equal(wv->n_bytes, 32 + 8 * 4); /* the scales count */
    tensor_bytes t;
    error e;
    assert_int_equal(tensor_read(c, wv, &t, &e), OK);
    assert_int_equal(((const int8_t *)t.data)[0], -1);
    assert_int_equal(((const int8_t *)t.data)[31], 30);
    float scale;
    memcpy(&scale, (const uint8_t *)t.scales + 7 * 4, 4);
    assert_true(scale == 607);
    tensor_release(&t);
    assert_int_equal(checkpoint_find(c, "norm.weight")->type, DTYPE_F32);
    assert_int_equal(json_integer_value(json_object_get(c->meta, "group_size")), 4);
    checkpoint_close(c);
    for (size_t n = 0; n < b.n; n += 13) {
        bytes cut = {0};
        put(&cut, b.data, n);
        refused(&cut, "");
    }
    bytes_free(&b);
    put_header(&b, 2, small, true, 3), put_zeros(&b, 4000);
    refused(&b, "dim 8 does not divide into groups of 3");
    put_header(&b, 2, small, true, 0), put_zeros(&b, 4000);
    refused(&b, "groups of 0");
    put_header(&b, 3, small, true, 4), put_zeros(&b, 4000);
    refused(&b, "version 3 (0, 1 and 2 are read)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_0_slices_the_stacked_layers),    cmocka_unit_test(a_negative_vocabulary_means_an_untied_head),
        cmocka_unit_test(numbers_that_make_no_model_are_refused), cmocka_unit_test(version_1_has_the_norms_first),
        cmocka_unit_test(version_2_has_scales_after_each_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
