/* Byte-level BPE: the cases of ../shared/design/cases.md, on a vocabulary of the tests' own. The ids of valid text are those of
 * Hugging Face's tokenizers (Rust) on the same file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/tokens.h"

static const struct {
    const char *text;
    int ids[20];
} rows[] = {
    {"\n", {10, -1}},
    {"\t", {9, -1}},
    {"a  b", {97, 32, 32, 98, -1}},
    {"don't", {269, 270, -1}},
    {"!'t", {33, 39, 116, -1}},
    {"I'LL", {73, 39, 76, 76, -1}},
    {"\t\t\n\n\n x", {9, 9, 271, 10, 32, 120, -1}},
    {"  hello world.", {32, 32, 259, 264, 46, -1}},
    {"   leading spaces", {265, 32, 108, 101, 97, 100, 105, 110, 103, 32, 115, 112, 97, 99, 101, 115, -1}},
    {"hello world", {259, 264, -1}},
    {"aaaaaaa", {267, 266, 97, -1}},
    {"<|im_start|>user", {277, 117, 115, 101, 114, -1}},
    {"<s>h", {279, 104, -1}},
    {"<|im_end|> hello", {278, 32, 259, -1}},
    {"<|endoftext|><s>", {276, 279, -1}},
    {"x<s", {120, 60, 115, -1}},
    {"\xe6\xa0\xaa", {230, 160, 170, -1}},
    {"\xf0\x9f\x98\x80", {274, 275, -1}},
    {"hello\r\n", {259, 13, 10, -1}},
    {" ", {32, -1}},
    {"  ", {265, -1}},
    {"", {-1}},
};

static size_t count(const int *ids) {
    size_t n = 0;
    while (ids[n] >= 0) n++;
    return n;
}

static void every_row_has_the_originals_ids_and_comes_back(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    assert_string_equal(tokenizer_kind(t), "byte-level BPE");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ids_of(t, rows[i].text, strlen(rows[i].text), TOKENIZE_PARSE_SPECIAL, rows[i].ids, count(rows[i].ids));
        assert_round_trip(t, rows[i].text, strlen(rows[i].text), TOKENIZE_PARSE_SPECIAL);
        assert_round_trip(t, rows[i].text, strlen(rows[i].text), 0);
    }
    tokenizer_free(t);
}

static void special_tokens_written_in_a_text_are_text_unless_asked(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    assert_ids(t, "<s>h", 0, 4, '<', 's', '>', 'h');
    assert_ids(t, "<|im_end|>", 0, 10, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    assert_true(tokenizer_is_special(t, 279));
    assert_false(tokenizer_is_special(t, 259));
    assert_true(tokenizer_is_eos(t, 276)); /* <|endoftext|> */
    assert_true(tokenizer_is_eos(t, 278)); /* <|im_end|> */
    assert_false(tokenizer_is_eos(t, 279));
    tokenizer_free(t);
}

static void half_a_character_goes_in_and_comes_back(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    assert_ids(t, "\xe6\xad", 0, 1, 272); /* a merge joins the two bytes */
    assert_ids(t, "a\xe6\xad", 0, 2, 'a', 272);
    assert_ids(t, "\xe6\xa0", 0, 2, 0xE6, 0xA0);
    assert_ids(t, "\xed\xa0\x80", 0, 3, 0xED, 0xA0, 0x80); /* a surrogate */
    assert_ids(t, "\xff \xc0\xaf", 0, 4, 0xFF, ' ', 0xC0, 0xAF);
    tokenizer_free(t);
}

static void any_bytes_come_back_unchanged(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    char text[600];
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        size_t n = (size_t)round * 2;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            /* bytes of characters more often than others, so that some of them are whole */
            char some = "he lo\n\xe6\xad\xa3\xf0\x9f\x98\x80\x00'1"[(seed >> 24) % 17];
            text[i] = round % 3 == 0 ? (char)(seed >> 24) : some;
        }
        assert_round_trip(t, text, n, round % 2 ? TOKENIZE_PARSE_SPECIAL : 0);
    }
    tokenizer_free(t);
}

static void every_id_by_itself_decodes_to_its_bytes(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    for (int b = 0; b < 256; b++) {
        char *text;
        size_t n;
        error e;
        assert_int_equal(tokenizer_decode(t, &b, 1, 0, &text, &n, &e), OK);
        assert_int_equal(n, 1);
        assert_int_equal((unsigned char)text[0], b);
        free(text);
    }
    tokenizer_free(t);
}

static void a_stream_gives_whole_characters_and_loses_nothing(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    static const int ids[] = {259, 274, 275, 0xE6, 0xA0, 0xAA, 0xF0, 'x', 0xE6, 0xAD};
    static const size_t given[] = {5, 0, 4, 0, 0, 3, 0, 2, 0, 0}; /* F0 cannot go on with x: both come out */
    token_stream s;
    error e;
    const char *text;
    size_t n;
    assert_int_equal(token_stream_init(&s, t, 0, &e), OK);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_int_equal(token_stream_push(&s, ids[i], &text, &n, &e), OK);
        if (n != given[i]) fail_msg("token %zu gave %zu bytes, not %zu", i, n, given[i]);
    }
    token_stream_flush(&s, &text, &n);
    assert_int_equal(n, 2);
    assert_memory_equal(text, "\xe6\xad", 2);
    assert_int_equal(token_stream_push(&s, 999999, &text, &n, &e), ERR_ARGUMENT);
    assert_non_null(strstr(e.message, "999999"));
    token_stream_free(&s);
    tokenizer_free(t);
}

static void ids_of_a_padded_vocabulary_are_not_there(void **state) {
    (void)state;
    json_t *root = byte_level_json();
    json_array_append_new(json_object_get(root, "added_tokens"), json_quoted("{'id':1000,'content':'<far>','special':true}"));
    tokenizer *t = json_tokenizer(root);
    assert_int_equal(tokenizer_n_vocab(t), 1001);
    assert_true(tokenizer_has(t, 1000));
    assert_true(tokenizer_has(t, 279));
    assert_false(tokenizer_has(t, 280));
    assert_false(tokenizer_has(t, 1001));
    assert_false(tokenizer_has(t, -1));
    size_t n;
    assert_null(tokenizer_piece(t, 280, &n));
    assert_int_equal(tokenizer_find(t, "<far>"), 1000);
    int id = 280;
    char *text;
    error e;
    assert_int_equal(tokenizer_decode(t, &id, 1, 0, &text, &n, &e), ERR_ARGUMENT);
    tokenizer_free(t);
}

/* ---- long texts ---- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_of(const tokenizer *t, const char *text, size_t n, size_t *n_ids) {
    int *ids;
    error e;
    double start = seconds();
    if (tokenizer_encode(t, text, n, 0, &ids, n_ids, &e) != OK) fail_msg("%s", e.message);
    double took = seconds() - start;
    free(ids);
    return took;
}

static void a_hundred_thousand_of_one_letter_take_no_recursion(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    size_t n = 100000, n_ids;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    time_of(t, text, n, &n_ids);
    assert_int_equal(n_ids, n / 4); /* aaaa is one token */
    assert_round_trip(t, text, n, 0);
    memset(text, '\n', 10000);
    time_of(t, text, 10000, &n_ids);
    assert_int_equal(n_ids, 5000);
    free(text);
    tokenizer_free(t);
}

/* Quadratic time would make 64 times the text take 4096 times as long. */
static void time_grows_like_n_log_n(void **state) {
    (void)state;
    static const char letters[] = "a\n ";
    tokenizer *t = json_tokenizer(byte_level_json());
    size_t n = 1 << 21, n_ids;
    char *text = malloc(n);
    assert_non_null(text);
    for (int i = 0; i < 3; i++) {
        memset(text, letters[i], n);
        double small = 1e9, large = time_of(t, text, n, &n_ids);
        for (int k = 0; k < 3; k++) {
            double once = time_of(t, text, n / 64, &n_ids);
            if (once < small) small = once;
        }
        if (large > 64 * 16 * (small + 1e-4)) fail_msg("64 times '%c' took %g times as long", letters[i], large / small);
    }
    free(text);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_originals_ids_and_comes_back),
        cmocka_unit_test(special_tokens_written_in_a_text_are_text_unless_asked),
        cmocka_unit_test(half_a_character_goes_in_and_comes_back),
        cmocka_unit_test(any_bytes_come_back_unchanged),
        cmocka_unit_test(every_id_by_itself_decodes_to_its_bytes),
        cmocka_unit_test(a_stream_gives_whole_characters_and_loses_nothing),
        cmocka_unit_test(ids_of_a_padded_vocabulary_are_not_there),
        cmocka_unit_test(a_hundred_thousand_of_one_letter_take_no_recursion),
        cmocka_unit_test(time_grows_like_n_log_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
