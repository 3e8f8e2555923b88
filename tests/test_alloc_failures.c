/* Every allocation of the readers is failed in turn: each time the result is an error, and all that was taken is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/failing_malloc.h"
#include "tests/made_files.h"
#include "weights/container.h"

/* Opens, and reads every tensor. */
static status open_and_read(const bytes *b, error *e) {
    checkpoint *c;
    status result = checkpoint_open_bytes(&c, "made", b->data, b->n, e);
    for (size_t i = 0; result == OK && i < c->n_tensors; i++) {
        tensor_bytes t;
        result = tensor_read(c, &c->tensors[i], &t, e);
        tensor_release(&t);
    }
    checkpoint_close(c);
    return result;
}

/* libzip 1.7 has its own ways: one failure changes nothing (a table of names that it makes in advance), and on some it keeps
 * a block or two. What Tally took is given back all the same. */
static void fail_each_allocation(bytes *b, bool with_libzip) {
    error e;
    int may_do_without = with_libzip ? 1 : 0;
    setenv("TZ", "UTC0",
           1); /* libzip asks for the local time, for which libc reads a file again and again where TZ is not set */
    if (open_and_read(b, &e) != OK) fail_msg("%s", e.message); /* jansson's and libc's one-time set-up */
    int n = 1;
    for (;; n++) {
        counting = 1;
        live = 0;
        countdown = n;
        status result = open_and_read(b, &e);
        long left = live, unused = countdown;
        counting = 0;
        countdown = 0;
        if (left < 0 || left > (with_libzip ? 2 : 0)) fail_msg("allocation %d failed: %ld blocks were kept", n, left);
        if (unused > 0) break; /* there are fewer than n */
        if (result == OK && --may_do_without < 0) fail_msg("allocation %d failed, and the result was OK", n);
        if (result != OK && strncmp(e.message, "made: ", 6) != 0) fail_msg("allocation %d: %s", n, e.message);
    }
    assert_true(n > 5);
    bytes_free(b);
}

static void put_key(bytes *b, const char *key, uint32_t type) {
    gguf_text_bytes(b, key);
    put_u32(b, type);
}

static void gguf_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    bytes b = {0};
    const uint64_t extents[1] = {8};
    gguf_start(&b, 3, 2, 3);
    put_key(&b, "name", 8), gguf_text_bytes(&b, "llama");
    put_key(&b, "list", 9), put_u32(&b, 5), put_u64(&b, 20);
    for (uint32_t i = 0; i < 20; i++) put_u32(&b, 1000 * i);
    put_key(&b, "f", 6), put_f32(&b, 1);
    gguf_tensor(&b, "one", 1, extents, 0, 0);
    gguf_tensor(&b, "two", 1, extents, 0, 32);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    fail_each_allocation(&b, false);
}

static void safetensors_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    bytes b =
        make_safetensors("{\"__metadata__\":{\"a\":\"b\"},\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    fail_each_allocation(&b, false);
}

static void llama2c_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    const int32_t header[7] = {2, 1, 1, 1, 1, 1, 1};
    bytes b = {0};
    put(&b, header, sizeof header);
    put_zeros(&b, 4 * (2 + (2 + 4 + 4 + 4 + 4 + 2 + 2 + 2 + 2) + 2 + 2));
    fail_each_allocation(&b, false);
}

static void pt_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    bytes b = make_pt(&(made_tensor){.n = 6, .offset = 1, .n_dims = 2, .n_strides = 2, .shape = {2, 2}, .stride = {1, 2}}, 6);
    fail_each_allocation(&b, true);
}

static void pickles_give_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    bytes b = {0};
    pickle_start(&b);
    put_text(&b, "}(");
    pickle_text(&b, "a"), pickle_int(&b, 1);
    pickle_text(&b, "b"), put_text(&b, "](K\1K\2N\x88"
                                       "eq\5");
    pickle_text(&b, "c"), put_text(&b, "h\5");
    put_text(&b, "u.");
    fail_each_allocation(&b, false);
}

static void json_weights_give_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    bytes b = {0};
    put_text(&b, "{\"w\":[[1,2],[3,4]],\"config\":{\"d\":1},\"s\":{\"x\":[1],\"y\":null,\"z\":[\"t\"]}}");
    fail_each_allocation(&b, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_gives_back_everything),    cmocka_unit_test(safetensors_gives_back_everything),
        cmocka_unit_test(llama2c_gives_back_everything), cmocka_unit_test(pt_gives_back_everything),
        cmocka_unit_test(pickles_give_back_everything),  cmocka_unit_test(json_weights_give_back_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
