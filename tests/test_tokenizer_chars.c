#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tokens.h"

/* The level-21 model's characters, in the lesson's order. */
static const char *const level21[15] = {"<pad>", "<bos>", "<eos>", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+", "="};

static tokenizer *open_level21(void) {
    char_vocab v = {
        .pieces = level21, .n_pieces = 15, .bos = 1, .eos = 2, .pad = 0, .unk = -1, .add_bos = true, .source = "model.pt"};
    return tokens_made(tokenizer_from_chars, &v);
}

static void the_level_21_prompt_gets_bos_in_front(void **state) {
    (void)state;
    tokenizer *t = open_level21();
    assert_ids(t, "23+58=", TOKENIZE_ADD_SPECIAL, 7, 1, 5, 6, 13, 8, 11, 14);
    assert_ids(t, "23+58=", 0, 6, 5, 6, 13, 8, 11, 14);
    assert_ids(t, "", TOKENIZE_ADD_SPECIAL, 1, 1);
    assert_ids(t, "", 0, 0);
    assert_int_equal(tokenizer_n_vocab(t), 15);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_true(tokenizer_is_eos(t, 2));
    assert_false(tokenizer_is_eos(t, 1));
    tokenizer_free(t);
}

static void decoding_leaves_special_tokens_out_unless_asked(void **state) {
    (void)state;
    tokenizer *t = open_level21();
    assert_text(t, 0, "81", 3, 11, 4, 2);
    assert_text(t, DETOKENIZE_SPECIAL, "<bos>81<eos>", 4, 1, 11, 4, 2);
    tokenizer_free(t);
}

static void a_character_outside_the_vocabulary_is_named(void **state) {
    (void)state;
    tokenizer *t = open_level21();
    assert_encode_fails(t, "2+x=", 4, ERR_ARGUMENT, "'x' (U+0078)");
    assert_encode_fails(t, "2\n", 2, ERR_ARGUMENT, "U+000A");
    assert_encode_fails(t, "2\xff", 2, ERR_ARGUMENT, "byte 0xff");
    assert_encode_fails(t, "<bos>", 5, ERR_ARGUMENT, "'<'");
    tokenizer_free(t);
}

static void an_id_outside_the_vocabulary_is_refused(void **state) {
    (void)state;
    tokenizer *t = open_level21();
    int bad[2] = {15, -1};
    for (int i = 0; i < 2; i++) {
        char *text;
        size_t n;
        error e;
        assert_int_equal(tokenizer_decode(t, &bad[i], 1, 0, &text, &n, &e), ERR_ARGUMENT);
        assert_null(text);
        assert_false(tokenizer_has(t, bad[i]));
    }
    tokenizer_free(t);
}

static void words_and_spaces_are_tokens_where_the_vocabulary_has_them(void **state) {
    (void)state;
    static const char *const pieces[5] = {" ", "a", "are", "gpt", "!"};
    char_vocab v = {.pieces = pieces, .n_pieces = 5, .bos = -1, .eos = -1, .pad = -1, .unk = -1, .source = "meta.pkl"};
    tokenizer *t = tokens_made(tokenizer_from_chars, &v);
    assert_ids(t, "a gpt are!", 0, 6, 1, 0, 3, 0, 2, 4);
    assert_text(t, 0, "a gpt are!", 6, 1, 0, 3, 0, 2, 4);
    assert_encode_fails(t, "gpt2", 4, ERR_ARGUMENT, "'g'");
    tokenizer_free(t);
}

static void a_word_vocabulary_without_a_space_is_separated_by_spaces(void **state) {
    (void)state;
    static const char *const pieces[4] = {"<unk>", "deep", "nets", "."};
    char_vocab v = {.pieces = pieces, .n_pieces = 4, .bos = -1, .eos = -1, .pad = -1, .unk = 0, .source = "meta.pkl"};
    tokenizer *t = tokens_made(tokenizer_from_chars, &v);
    assert_ids(t, "deep  big nets.\n", 0, 4, 1, 0, 2, 3);
    assert_text(t, 0, "deep nets .", 3, 1, 2, 3);
    tokenizer_free(t);
}

static void bytes_stand_for_themselves(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    assert_int_equal(tokenizer_bytes(&t, &e), OK);
    assert_int_equal(tokenizer_n_vocab(t), 256);
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)(255 - i);
    assert_round_trip(t, all, sizeof all, 0);
    assert_ids(t, "A\xc3", 0, 2, 65, 195);
    tokenizer_free(t);
}

static void a_stream_holds_back_half_a_character(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    assert_int_equal(tokenizer_bytes(&t, &e), OK);
    token_stream s;
    const char *text;
    size_t n;
    assert_int_equal(token_stream_init(&s, t, 0, &e), OK);
    static const int emoji[4] = {0xF0, 0x9F, 0x98, 0x80};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(token_stream_push(&s, emoji[i], &text, &n, &e), OK);
        assert_int_equal(n, i == 3 ? 4 : 0);
    }
    assert_memory_equal(text, "\xF0\x9F\x98\x80", 4);
    assert_int_equal(token_stream_push(&s, 0xE6, &text, &n, &e), OK);
    assert_int_equal(n, 0);
    token_stream_flush(&s, &text, &n);
    assert_int_equal(n, 1);
    assert_memory_equal(text, "\xE6", 1);
    token_stream_flush(&s, &text, &n);
    assert_int_equal(n, 0);
    token_stream_free(&s);
    tokenizer_free(t);
}

static void a_character_that_stands_twice_is_refused(void **state) {
    (void)state;
    static const char *const pieces[3] = {"a", "b", "a"};
    char_vocab v = {.pieces = pieces, .n_pieces = 3, .bos = -1, .eos = -1, .pad = -1, .unk = -1, .source = "meta.pkl"};
    tokenizer *t;
    error e;
    assert_int_equal(tokenizer_from_chars(&t, &v, &e), ERR_FORMAT);
    assert_null(t);
    assert_non_null(strstr(e.message, "meta.pkl: the token \"a\" stands twice"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_21_prompt_gets_bos_in_front),
        cmocka_unit_test(decoding_leaves_special_tokens_out_unless_asked),
        cmocka_unit_test(a_character_outside_the_vocabulary_is_named),
        cmocka_unit_test(an_id_outside_the_vocabulary_is_refused),
        cmocka_unit_test(words_and_spaces_are_tokens_where_the_vocabulary_has_them),
        cmocka_unit_test(a_word_vocabulary_without_a_space_is_separated_by_spaces),
        cmocka_unit_test(bytes_stand_for_themselves),
        cmocka_unit_test(a_stream_holds_back_half_a_character),
        cmocka_unit_test(a_character_that_stands_twice_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
