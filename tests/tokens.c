#include "tests/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_IDS 1024

tokenizer *tokens_out;
error tokens_error;

tokenizer *tokens_checked(status s) {
    if (s != OK) fail_msg("%s", tokens_error.message);
    assert_non_null(tokens_out);
    return tokens_out;
}

void assert_ids_of(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, const int *want, size_t n) {
    int *ids;
    size_t n_ids;
    error e;
    if (tokenizer_encode(t, text, n_bytes, flags, &ids, &n_ids, &e) != OK) fail_msg("\"%s\": %s", text, e.message);
    for (size_t i = 0; i < n && i < n_ids; i++)
        if (ids[i] != want[i]) fail_msg("\"%s\": id %zu is %d, not %d", text, i, ids[i], want[i]);
    if (n_ids != n) fail_msg("\"%s\": %zu ids, not %zu", text, n_ids, n);
    free(ids);
}

static void take_ids(int *ids, int n, va_list args) {
    assert_true(n <= MAX_IDS);
    for (int i = 0; i < n; i++) ids[i] = va_arg(args, int);
}

void assert_ids(const tokenizer *t, const char *text, unsigned flags, int n, ...) {
    int want[MAX_IDS];
    va_list args;
    va_start(args, n);
    take_ids(want, n, args);
    va_end(args);
    assert_ids_of(t, text, strlen(text), flags, want, (size_t)n);
}

void assert_text(const tokenizer *t, unsigned flags, const char *want, int n, ...) {
    int ids[MAX_IDS];
    va_list args;
    va_start(args, n);
    take_ids(ids, n, args);
    va_end(args);
    char *text;
    size_t n_bytes;
    error e;
    if (tokenizer_decode(t, ids, (size_t)n, flags, &text, &n_bytes, &e) != OK) fail_msg("%s", e.message);
    assert_string_equal(text, want);
    assert_int_equal(n_bytes, strlen(want));
    free(text);
}

static void assert_streams_to(const tokenizer *t, const int *ids, size_t n_ids, const char *text, size_t n_bytes) {
    token_stream s;
    error e;
    const char *part;
    size_t n, done = 0;
    assert_int_equal(token_stream_init(&s, t, DETOKENIZE_SPECIAL, &e), OK);
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids) {
            assert_int_equal(token_stream_push(&s, ids[i], &part, &n, &e), OK);
        } else {
            token_stream_flush(&s, &part, &n);
        }
        assert_true(done + n <= n_bytes);
        assert_memory_equal(part, text + done, n);
        done += n;
    }
    assert_int_equal(done, n_bytes);
    token_stream_free(&s);
}

void assert_round_trip(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags) {
    int *ids;
    char *back;
    size_t n_ids, n_back;
    error e;
    if (tokenizer_encode(t, text, n_bytes, flags, &ids, &n_ids, &e) != OK) fail_msg("\"%s\": %s", text, e.message);
    if (tokenizer_decode(t, ids, n_ids, DETOKENIZE_SPECIAL, &back, &n_back, &e) != OK) fail_msg("%s", e.message);
    if (n_back != n_bytes || memcmp(back, text, n_bytes) != 0) fail_msg("\"%s\" came back as \"%s\"", text, back);
    assert_streams_to(t, ids, n_ids, text, n_bytes);
    free(ids);
    free(back);
}

void assert_encode_fails(const tokenizer *t, const char *text, size_t n_bytes, status want, const char *words) {
    int *ids;
    size_t n_ids;
    error e = {0};
    assert_int_equal(tokenizer_encode(t, text, n_bytes, 0, &ids, &n_ids, &e), want);
    assert_null(ids);
    if (strstr(e.message, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, words);
}
