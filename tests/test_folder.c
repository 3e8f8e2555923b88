/* Checkpoints of more than one file: Hugging Face folders, indexes of shards, configurations beside the weights. */
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

static void put_file(const char *folder, const char *name, const char *text) {
    folder_put(folder, name, text, strlen(text));
}

/* A safetensors file with one U8 tensor of two elements: 0, 1. */
static void put_shard(const char *folder, const char *name, const char *tensor_name) {
    char header[200];
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}", tensor_name);
    bytes b = make_safetensors(header, 2);
    folder_put(folder, name, b.data, b.n);
    bytes_free(&b);
}

static void put_pt(const char *folder, const char *name) {
    bytes b = make_pt(&(made_tensor){.n = 3, .n_dims = 1, .n_strides = 1, .shape = {3}, .stride = {1}}, 3);
    folder_put(folder, name, b.data, b.n);
    bytes_free(&b);
}

static checkpoint *open_path(const char *folder, const char *name) {
    char path[300];
    error e = {0};
    checkpoint *c;
    snprintf(path, sizeof path, "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
    if (checkpoint_open(&c, path, &e) != OK) fail_msg("refused: %s", e.message);
    return c;
}

/* The message must start with the path of one of the folder's files, or the folder's, and contain `why`. */
static void path_refused(const char *folder, const char *name, const char *why) {
    char path[300];
    error e = {0};
    checkpoint *c;
    snprintf(path, sizeof path, "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
    if (checkpoint_open(&c, path, &e) == OK) fail_msg("opened, although: %s", why);
    assert_null(c);
    if (strncmp(e.message, folder, strlen(folder)) != 0) fail_msg("no file is named: %s", e.message);
    if (strstr(e.message, why) == NULL) fail_msg("expected \"%s\" in: %s", why, e.message);
}

static void a_folder_gives_its_weights_and_its_configuration(void **state) {
    (void)state;
    char *folder = folder_make();
    put_shard(folder, "model.safetensors", "w");
    put_file(folder, "config.json", "{\"model_type\": \"llama\", \"hidden_size\": 8}");
    static const char *const names[] = {"", "model.safetensors"};
    for (int i = 0; i < 2; i++) { /* the file alone finds its configuration too */
        checkpoint *c = open_path(folder, names[i]);
        assert_int_equal(c->kind, CHECKPOINT_SAFETENSORS);
        assert_true(element(c, "w", 1) == 1);
        assert_int_equal(json_integer_value(json_object_get(c->meta, "hidden_size")), 8);
        assert_string_equal(c->folder, folder);
        checkpoint_close(c);
    }
    put_file(folder, "config.json", "[1]");
    path_refused(folder, "", "config.json: is no JSON object");
    put_file(folder, "config.json", "{\"a\":1,\"a\":2}");
    path_refused(folder, "", "config.json: bad JSON");
    put_file(folder, "config.json", "");
    path_refused(folder, "", "config.json: bad JSON");
    folder_remove(folder);
}

static void a_folder_without_weights_says_what_was_looked_for(void **state) {
    (void)state;
    char *folder = folder_make();
    put_file(folder, "config.json", "{}");
    path_refused(folder, "", "a folder without weights (looked for model.safetensors");
    path_refused(folder, "nothing.pt", "No such file");
    folder_remove(folder);
}

#define INDEX(map) "{\"metadata\":{\"total_size\":4},\"weight_map\":" map "}"

static void sharded_safetensors_open_through_their_index(void **state) {
    (void)state;
    char *folder = folder_make();
    put_shard(folder, "a-1.safetensors", "x");
    put_shard(folder, "a-2.safetensors", "y");
    put_file(folder, "config.json", "{\"k\": 1}");
    put_file(folder, "model.safetensors.index.json", INDEX("{\"x\":\"a-1.safetensors\",\"y\":\"a-2.safetensors\"}"));
    static const char *const names[] = {"", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        checkpoint *c = open_path(folder, names[i]);
        assert_int_equal(c->n_tensors, 2);
        assert_int_equal(c->kind, CHECKPOINT_SAFETENSORS);
        assert_true(element(c, "x", 1) == 1 && element(c, "y", 0) == 0);
        assert_int_equal(json_integer_value(json_object_get(c->meta, "k")), 1);
        assert_null(json_object_get(c->meta, "weight_map"));
        checkpoint_close(c);
    }
    folder_remove(folder);
}

static void sharded_pytorch_files_open_through_their_index(void **state) {
    (void)state;
    char *folder = folder_make();
    put_pt(folder, "one.bin");
    put_file(folder, "pytorch_model.bin.index.json", INDEX("{\"w\":\"one.bin\"}"));
    checkpoint *c = open_path(folder, "");
    assert_int_equal(c->kind, CHECKPOINT_PT_ZIP);
    assert_true(element(c, "w", 2) == 2);
    checkpoint_close(c);
    folder_remove(folder);
}

static void an_index_that_does_not_fit_its_shards_is_refused(void **state) {
    (void)state;
    char *folder = folder_make();
    const char *index = "model.safetensors.index.json";
    put_shard(folder, "a.safetensors", "x");
    put_shard(folder, "b.safetensors", "x");
    put_file(folder, index, INDEX("{\"x\":\"a.safetensors\",\"y\":\"missing.safetensors\"}"));
    path_refused(folder, "", "missing.safetensors: No such file");
    put_file(folder, index, INDEX("{\"x\":\"a.safetensors\",\"y\":\"a.safetensors\"}"));
    path_refused(folder, "", "tensor y: is not in a.safetensors, where the index says");
    put_file(folder, index, INDEX("{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}"));
    path_refused(folder, "", "tensor x: is there twice");
    static const char *const outside[] = {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", ""};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char text[200];
        snprintf(text, sizeof text, INDEX("{\"x\":\"%s\"}"), outside[i]);
        put_file(folder, index, text);
        path_refused(folder, "", "is not a file's name in the same folder");
    }
    put_file(folder, index, INDEX("{\"x\":7}"));
    path_refused(folder, "", "is not a file's name in the same folder");
    put_file(folder, index, INDEX("{\"x\":\"model.safetensors.index.json\"}"));
    path_refused(folder, "", "an index inside an index");
    put_file(folder, "weights.json", "{\"x\":[1]}");
    put_file(folder, index, INDEX("{\"x\":\"weights.json\"}"));
    path_refused(folder, "", "is no shard of a checkpoint");
    folder_remove(folder);
}

static void nanogpt_folders_open_their_ckpt(void **state) {
    (void)state;
    char *folder = folder_make();
    put_pt(folder, "ckpt.pt");
    checkpoint *c = open_path(folder, "");
    assert_int_equal(c->kind, CHECKPOINT_PT_ZIP);
    checkpoint_close(c);
    folder_remove(folder);
}

static void what_is_no_regular_file_is_refused(void **state) {
    (void)state;
    error e = {0};
    checkpoint *c;
    assert_int_equal(checkpoint_open(&c, "/dev/null", &e), ERR_IO);
    assert_string_equal(e.message, "/dev/null: is not a regular file");
    assert_int_equal(checkpoint_open(&c, "", &e), ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_gives_its_weights_and_its_configuration),
        cmocka_unit_test(a_folder_without_weights_says_what_was_looked_for),
        cmocka_unit_test(sharded_safetensors_open_through_their_index),
        cmocka_unit_test(sharded_pytorch_files_open_through_their_index),
        cmocka_unit_test(an_index_that_does_not_fit_its_shards_is_refused),
        cmocka_unit_test(nanogpt_folders_open_their_ckpt),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
