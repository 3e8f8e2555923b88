/* Files that other programs wrote, and files broken on purpose: each is opened or refused as its expected.json says, and where it
 * is opened, types, shapes and every byte agree with what PyTorch read. Skipped where ../shared is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/made_files.h"
#include "tests/sha256.h"
#include "weights/container.h"

#define SHARED "../shared"

static json_t *load_expected(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, SHARED "/%s/expected.json", folder);
    return json_load_file(path, 0, NULL);
}

static bool absent(json_t *expected, const char *folder) {
    if (expected != NULL) return false;
    printf("SKIP: " SHARED "/%s is not here\n", folder);
    return true;
}

static bytes read_file(const char *path) {
    bytes b = {0};
    uint8_t part[4096];
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("%s: not there", path);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) put(&b, part, n);
    fclose(f);
    return b;
}

/* From memory of the exact size, for a sanitizer's sake. The verdict must be the file's. */
static status open_as_bytes(const char *path, error *e) {
    bytes b = read_file(path);
    void *exact = malloc(b.n > 0 ? b.n : 1);
    if (exact == NULL) abort();
    if (b.n > 0) memcpy(exact, b.data, b.n);
    checkpoint *c;
    status s = checkpoint_open_bytes(&c, "bytes", exact, b.n, e);
    checkpoint_close(c);
    free(exact);
    bytes_free(&b);
    return s;
}

static void verdict_is(const char *path, const char *verdict, const char *why) {
    error e = {0}, ignored;
    checkpoint *c;
    status s = checkpoint_open(&c, path, &e);
    checkpoint_close(c);
    if (strcmp(verdict, "accept") == 0 && s != OK) fail_msg("should open (%s): %s", why, e.message);
    if (strcmp(verdict, "reject") == 0 && s == OK) fail_msg("should be refused: %s: %s", path, why);
    if (s != OK && strncmp(e.message, path, strlen(path)) != 0) fail_msg("the file is not named: %s", e.message);
    if (s != OK && strlen(e.message) < strlen(path) + 6) fail_msg("no fault is named: %s", e.message);
    assert_int_equal(open_as_bytes(path, &ignored), s);
}

static void every_malformed_file_is_treated_as_expected(void **state) {
    (void)state;
    json_t *expected = load_expected("malformed"), *entry;
    if (absent(expected, "malformed")) skip();
    size_t i, n = 0;
    json_array_foreach(expected, i, entry) {
        char path[256];
        const char *file = json_string_value(json_object_get(entry, "file"));
        if (strncmp(file, "tok_", 4) == 0) continue; /* tokenizers: tests of their own */
        snprintf(path, sizeof path, SHARED "/malformed/%s", file);
        verdict_is(path, json_string_value(json_object_get(entry, "expect")), json_string_value(json_object_get(entry, "why")));
        n++;
    }
    assert_true(n >= 80);
    json_decref(expected);
}

/* "a/b" of expected.json is "a.b" here. */
static void dotted(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s", name);
    for (char *p = out; *p != '\0'; p++)
        if (*p == '/') *p = '.';
}

static size_t element_bytes(const char *torch_type) {
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"complex128", 16}, {"complex64", 8}, {"float64", 8}, {"int64", 8}, {"float32", 4}, {"int32", 4},
                 {"float16", 2},     {"bfloat16", 2},  {"int16", 2},   {"int8", 1},  {"uint8", 1},   {"bool", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(sizes[i].name, torch_type) == 0) return sizes[i].bytes;
    fail_msg("type %s", torch_type);
    return 0;
}

static void tensor_is(checkpoint *c, const char *name, json_t *want) {
    const tensor *t = checkpoint_find(c, name);
    if (t == NULL) fail_msg("%s: tensor %s is missing", c->path, name);
    const char *type = json_string_value(json_object_get(want, "dtype"));
    json_t *shape = json_object_get(want, "shape"), *stride = json_object_get(want, "stride");
    assert_string_equal(t->type_name, type);
    assert_int_equal(t->n_dims, json_array_size(shape));
    for (int d = 0; d < t->n_dims; d++) {
        assert_int_equal(t->shape[d], json_integer_value(json_array_get(shape, (size_t)d)));
        assert_int_equal(t->stride[d], json_integer_value(json_array_get(stride, (size_t)d)));
    }
    size_t n;
    uint8_t *data = contiguous(c, t, element_bytes(type), &n);
    char digest[65];
    assert_int_equal(n, t->n_bytes);
    sha256_hex(digest, data, n);
    free(data);
    if (strcmp(digest, json_string_value(json_object_get(want, "sha256_contiguous_le"))) != 0)
        fail_msg("%s: bytes of %s", c->path, name);
}

/* A value of the metadata, by its path "a/b/0". */
static const json_t *meta_at(const json_t *meta, const char *path) {
    char part[256];
    while (*path != '\0' && meta != NULL) {
        size_t n = strcspn(path, "/");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        meta = json_is_array(meta) ? json_array_get(meta, (size_t)atoi(part)) : json_object_get(meta, part);
        path += n + (path[n] == '/');
    }
    return meta;
}

static void value_is(const checkpoint *c, const char *name, json_t *want) {
    const json_t *value = json_object_get(want, "value"), *got = meta_at(c->meta, name);
    if (got == NULL) fail_msg("%s: value %s is missing", c->path, name);
    if (!json_equal(value, got)) fail_msg("%s: value %s differs", c->path, name);
}

static size_t contents_are(checkpoint *c, json_t *tensors) {
    const char *name;
    json_t *want;
    size_t n_tensors = 0;
    json_object_foreach(tensors, name, want) {
        char here[512];
        dotted(here, sizeof here, name);
        if (json_object_get(want, "scalar") != NULL) {
            value_is(c, name, want);
        } else {
            tensor_is(c, here, want);
            n_tensors++;
        }
    }
    assert_int_equal(c->n_tensors, n_tensors);
    return n_tensors;
}

static void every_pt_file_reads_as_pytorch_reads_it(void **state) {
    (void)state;
    json_t *expected = load_expected("formats/pt"), *want;
    if (absent(expected, "formats/pt")) skip();
    const char *file;
    size_t n = 0;
    json_object_foreach(expected, file, want) {
        char path[256];
        snprintf(path, sizeof path, SHARED "/formats/pt/%s", file);
        bool ok = json_is_true(json_object_get(want, "ok"));
        verdict_is(path, ok ? "accept" : "reject", "as PyTorch does");
        if (!ok) continue;
        checkpoint *c;
        error e;
        assert_int_equal(checkpoint_open(&c, path, &e), OK);
        bool legacy = strcmp(json_string_value(json_object_get(want, "format")), "legacy") == 0;
        assert_int_equal(c->kind, legacy ? CHECKPOINT_PT_LEGACY : CHECKPOINT_PT_ZIP);
        n += contents_are(c, json_object_get(want, "tensors"));
        checkpoint_close(c);
    }
    assert_true(n > 100);
    json_decref(expected);
}

static void a_name_that_pickles_ask_for_is_printed(void **state) {
    (void)state;
    static const char path[] = SHARED "/formats/pt/bumblebee_noncontiguous_numpy_array.zip.pt";
    error e = {0};
    checkpoint *c;
    if (access(path, F_OK) != 0) {
        printf("SKIP: " SHARED "/formats/pt is not here\n");
        skip();
    }
    assert_int_equal(checkpoint_open(&c, path, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "numpy.core.multiarray._reconstruct"));
}

/* The same weights, four containers: values equal (bit for bit where the type is the same). */
static void stories260K_is_the_same_from_bin_and_gguf(void **state) {
    (void)state;
    checkpoint *bin, *gguf, *f16;
    error e = {0};
    if (checkpoint_open(&bin, SHARED "/checkpoints/stories260K/stories260K.bin", &e) != OK) {
        printf("SKIP: " SHARED "/checkpoints/stories260K is not here\n");
        skip();
    }
    assert_int_equal(checkpoint_open(&gguf, SHARED "/checkpoints/stories260K/stories260K.gguf", &e), OK);
    assert_int_equal(checkpoint_open(&f16, SHARED "/checkpoints/stories260K/stories260K-F16.gguf", &e), OK);
    assert_int_equal(json_integer_value(json_object_get(bin->meta, "n_kv_heads")), 4);
    static const struct {
        const char *bin, *gguf;
    } pairs[] = {{"tok_embeddings.weight", "token_embd.weight"},
                 {"layers.0.attention_norm.weight", "blk.0.attn_norm.weight"},
                 {"layers.4.attention.wv.weight", "blk.4.attn_v.weight"},
                 {"layers.3.attention.wo.weight", "blk.3.attn_output.weight"},
                 {"layers.2.feed_forward.w1.weight", "blk.2.ffn_gate.weight"},
                 {"layers.1.feed_forward.w2.weight", "blk.1.ffn_down.weight"},
                 {"layers.4.feed_forward.w3.weight", "blk.4.ffn_up.weight"},
                 {"layers.4.ffn_norm.weight", "blk.4.ffn_norm.weight"},
                 {"norm.weight", "output_norm.weight"}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        const tensor *a = checkpoint_find(bin, pairs[k].bin), *b = checkpoint_find(gguf, pairs[k].gguf);
        assert_true(a != NULL && b != NULL && a->n_dims == b->n_dims && a->n_elems == b->n_elems);
        for (int d = 0; d < a->n_dims; d++) assert_int_equal(a->shape[d], b->shape[d]);
        tensor_bytes x, y;
        assert_int_equal(tensor_read(bin, a, &x, &e), OK);
        assert_int_equal(tensor_read(gguf, b, &y, &e), OK);
        assert_true(x.in_place && y.in_place);
        assert_memory_equal(x.data, y.data, a->n_bytes);
        for (size_t i = 0; i < a->n_elems; i += 97) {
            float exact = (float)element(bin, pairs[k].bin, i);
            double half = element(f16, pairs[k].gguf, i);
            if (checkpoint_find(f16, pairs[k].gguf)->type == DTYPE_F16) exact = f16_to_f32(f32_to_f16(exact));
            assert_true(half == (double)exact);
        }
    }
    checkpoint_close(bin);
    checkpoint_close(gguf);
    checkpoint_close(f16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_malformed_file_is_treated_as_expected),
        cmocka_unit_test(every_pt_file_reads_as_pytorch_reads_it),
        cmocka_unit_test(a_name_that_pickles_ask_for_is_printed),
        cmocka_unit_test(stories260K_is_the_same_from_bin_and_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
