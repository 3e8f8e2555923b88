/* SentencePiece models and llama2.c tokenizers that the test writes itself. The ids are those of SentencePiece (C++). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tokens.h"
#include "tokenizer/buffer.h"

#define MARK "\xe2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE };

/* Pieces 3 to 20, best first. */
static const char *const words[18] = {MARK "t", "he", MARK "the", "in", "an", MARK MARK, "th", "ing", MARK "th",
                                      MARK,     "t",  "h",        "e",  "i",  "n",       "g",  "a",   "é"};

/* ---- protobuf ---- */

static void put(byte_buffer *b, const void *bytes, size_t n) {
    assert_true(buffer_append(b, bytes, n));
}

static void put_varint(byte_buffer *b, uint64_t value) {
    do {
        unsigned char byte = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        put(b, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_number(byte_buffer *b, int field, int64_t value) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)value);
}

static void put_bytes(byte_buffer *b, int field, const void *bytes, size_t n) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    put(b, bytes, n);
}

static void put_piece(byte_buffer *b, const char *text, float score, int type) {
    byte_buffer piece = {0};
    put_bytes(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    put(&piece, &score, 4);
    if (type != NORMAL) put_number(&piece, 3, type);
    put_bytes(b, 1, piece.data, piece.n);
    buffer_free(&piece);
}

/* What a model of the tests is like. */
typedef struct {
    int type;
    bool bytes, no_prefix, squeeze;
    const char *user[2];
    const char *map; /* [n_map] */
    size_t n_map;
} model_shape;

static void put_specs(byte_buffer *b, const model_shape *m) {
    byte_buffer spec = {0};
    put_number(&spec, 3, m->type);
    put_number(&spec, 35, m->bytes);
    put_number(&spec, 40, 0);
    put_number(&spec, 41, 1);
    put_number(&spec, 42, 2);
    put_number(&spec, 43, -1);
    put_bytes(b, 2, spec.data, spec.n);
    spec.n = 0;
    put_bytes(&spec, 1, "identity", 8);
    if (m->n_map > 0) put_bytes(&spec, 2, m->map, m->n_map);
    put_number(&spec, 3, !m->no_prefix);
    put_number(&spec, 4, m->squeeze);
    put_bytes(b, 3, spec.data, spec.n);
    buffer_free(&spec);
}

static byte_buffer model_bytes(const model_shape *m) {
    byte_buffer b = {0};
    char piece[8];
    put_piece(&b, "<unk>", 0, UNKNOWN);
    put_piece(&b, "<s>", 0, CONTROL);
    put_piece(&b, "</s>", 0, CONTROL);
    for (int i = 0; i < 18; i++) put_piece(&b, words[i], m->type == BPE ? (float)-i - 1 : -2 - 0.37f * (float)i, NORMAL);
    for (int i = 0; i < 2; i++)
        if (m->user[i] != NULL) put_piece(&b, m->user[i], 0, USER);
    for (int i = 0; i < 256 && m->bytes; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)i);
        put_piece(&b, piece, 0, BYTE);
    }
    put_specs(&b, m);
    return b;
}

static tokenizer *open_bytes(const char *name, byte_buffer *b) {
    char *path = tokens_file(name, b->data, b->n);
    status s = tokenizer_open(&tokens_out, path, &tokens_error);
    free(path);
    buffer_free(b);
    return tokens_checked(s);
}

static tokenizer *open_model(const model_shape *m) {
    byte_buffer b = model_bytes(m);
    return open_bytes("x.model", &b);
}

static void refuse_bytes(const char *name, byte_buffer *b, status want, const char *words_of_it) {
    char *path = tokens_file(name, b->data, b->n);
    tokenizer *t;
    error e = {0};
    status s = tokenizer_open(&t, path, &e);
    if (s != want) fail_msg("%s: status %d, not %d (%s)", words_of_it, s, want, e.message);
    assert_null(t);
    if (strstr(e.message, words_of_it) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, words_of_it);
    free(path);
    buffer_free(b);
}

/* ---- ids ---- */

static void bpe_joins_by_score_and_falls_back_to_bytes(void **state) {
    (void)state;
    tokenizer *t = open_model(&(model_shape){.type = BPE, .bytes = true});
    assert_string_equal(tokenizer_kind(t), "SentencePiece BPE");
    assert_ids(t, "the thing", 0, 3, 5, 11, 10);
    assert_ids(t, "  an  then ", 0, 7, 8, 12, 7, 12, 5, 17, 12);
    assert_ids(t, "thé", 0, 2, 11, 20);
    assert_ids(t, "then\n", 0, 3, 5, 17, 31);
    assert_ids(t, "", 0, 0);
    assert_ids(t, "the<s>", 0, 4, 5, 81, 136, 83);
    assert_ids(t, "xyz the", 0, 5, 12, 141, 142, 143, 5);
    assert_ids(t, "tttteanhin", 0, 8, 3, 13, 13, 13, 15, 7, 14, 6);
    assert_ids(t, MARK "the", 0, 2, 12, 5);
    assert_ids(t, " ", 0, 1, 8);
    assert_ids(t, "the", TOKENIZE_ADD_SPECIAL, 2, 1, 5);
    assert_ids(t, "<s>the", TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, 2, 1, 5);
    assert_text(t, 0, "  an  then ", 7, 8, 12, 7, 12, 5, 17, 12);
    tokenizer_free(t);
}

static void what_goes_in_comes_back_with_its_spaces(void **state) {
    (void)state;
    static const char *const texts[] = {"", " ", "  the", "the  ", "\n the\t", "x\xff\xe6\xad y", "\xf0\x9f\x98\x80 é"};
    static const model_shape shapes[] = {
        {.type = BPE, .bytes = true}, {.type = UNIGRAM, .bytes = true}, {.type = BPE, .bytes = true, .no_prefix = true}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tokenizer *t = open_model(&shapes[i]);
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) assert_round_trip(t, texts[j], strlen(texts[j]), 0);
        tokenizer_free(t);
    }
}

static void unknown_characters_in_a_row_are_one_token(void **state) {
    (void)state;
    for (int type = UNIGRAM; type <= BPE; type++) {
        tokenizer *t = open_model(&(model_shape){.type = type});
        assert_ids(t, "xyz the", 0, 3, 12, 0, 5);
        assert_ids(t, "the<s>", 0, 2, 5, 0);
        assert_ids(t, "thin x y", 0, 6, 11, 6, 12, 0, 12, 0);
        tokenizer_free(t);
    }
}

static void extra_spaces_are_removed_where_the_model_says_so(void **state) {
    (void)state;
    tokenizer *t = open_model(&(model_shape){.type = BPE, .bytes = true, .squeeze = true});
    assert_ids(t, "  an  then ", 0, 4, 12, 7, 5, 17);
    assert_ids(t, MARK "the", 0, 2, 12, 5);
    assert_ids(t, " ", 0, 0);
    assert_text(t, 0, "an then", 4, 12, 7, 5, 17);
    assert_text(t, 0, "the", 2, 12, 5);
    tokenizer_free(t);
}

static void a_model_may_have_no_space_in_front(void **state) {
    (void)state;
    tokenizer *t = open_model(&(model_shape){.type = BPE, .bytes = true, .no_prefix = true});
    assert_ids(t, "the thing", 0, 4, 13, 4, 11, 10);
    assert_ids(t, "xyz the", 0, 4, 141, 142, 143, 5);
    assert_text(t, 0, " the", 1, 5);
    tokenizer_free(t);
}

static void user_defined_pieces_are_kept_whole(void **state) {
    (void)state;
    tokenizer *t = open_model(&(model_shape){.type = BPE, .bytes = true, .user = {"hin", MARK "x y"}});
    assert_ids(t, "the thing", 0, 4, 5, 3, 21, 18);
    assert_ids(t, "thin x y", 0, 6, 3, 21, 12, 143, 12, 144);
    assert_ids(t, "tttteanhin", 0, 7, 3, 13, 13, 13, 15, 7, 21);
    tokenizer_free(t);
    t = open_model(&(model_shape){.type = UNIGRAM, .bytes = true, .user = {"ean"}});
    assert_ids(t, "tttteanhin", 0, 7, 3, 13, 13, 13, 21, 14, 6);
    assert_ids(t, "xyz the", 0, 5, 12, 142, 143, 144, 5);
    tokenizer_free(t);
}

static void unigram_takes_the_most_probable_pieces(void **state) {
    (void)state;
    tokenizer *t = open_model(&(model_shape){.type = UNIGRAM, .bytes = true});
    assert_string_equal(tokenizer_kind(t), "unigram");
    assert_ids(t, "the thing", 0, 3, 5, 11, 10);
    assert_ids(t, "then\n", 0, 3, 5, 17, 31);
    assert_ids(t, "tttteanhin", 0, 8, 3, 13, 13, 13, 15, 7, 14, 6);
    tokenizer_free(t);
}

/* A map with one entry, X to "th": a double array of two units a byte of the way. */
static void a_map_of_characters_is_applied(void **state) {
    (void)state;
    uint32_t units[512] = {0};
    units[0] = 1u << 10;                         /* the root: children at 1 ^ byte */
    units[1 ^ 'X'] = 'X' | 1u << 8 | 200u << 10; /* has a leaf, at (1 ^ 'X') ^ 200 */
    units[(1 ^ 'X') ^ 200] = 1u << 31;           /* text 0 */
    byte_buffer map = {0};
    uint32_t n_trie = sizeof units;
    put(&map, &n_trie, 4);
    put(&map, units, sizeof units);
    put(&map, "th", 3);
    tokenizer *t = open_model(&(model_shape){.type = BPE, .bytes = true, .map = map.data, .n_map = map.n});
    assert_ids(t, "Xe Xing", 0, 3, 5, 11, 10);
    tokenizer_free(t);
    byte_buffer cut = model_bytes(&(model_shape){.type = BPE, .bytes = true, .map = map.data, .n_map = 100});
    refuse_bytes("x.model", &cut, ERR_FORMAT, "map of characters is cut");
    buffer_free(&map);
}

/* ---- what is refused ---- */

static void kinds_of_models_that_are_not_there_are_named(void **state) {
    (void)state;
    byte_buffer b = model_bytes(&(model_shape){.type = 3});
    refuse_bytes("x.model", &b, ERR_UNSUPPORTED, "type word");
    b = model_bytes(&(model_shape){.type = BPE});
    put_bytes(&b, 2, "\xc0\x01\x01", 3); /* field 24: white space as suffix */
    refuse_bytes("x.model", &b, ERR_UNSUPPORTED, "treat_whitespace_as_suffix");
    b = model_bytes(&(model_shape){.type = BPE});
    put_piece(&b, "zz", 0, UNUSED);
    refuse_bytes("x.model", &b, ERR_UNSUPPORTED, "unused pieces");
    b = model_bytes(&(model_shape){.type = BPE});
    put_piece(&b, "he", 0, NORMAL);
    refuse_bytes("x.model", &b, ERR_FORMAT, "\"he\" stands twice");
    b = model_bytes(&(model_shape){.type = BPE});
    put_piece(&b, "zz", 0, 9);
    refuse_bytes("x.model", &b, ERR_FORMAT, "of type 9");
    b = model_bytes(&(model_shape){.type = BPE});
    put_piece(&b, "zz", -(float)(1e38 * 10) + (float)(1e38 * 10), NORMAL); /* not a number */
    refuse_bytes("x.model", &b, ERR_FORMAT, "not a number");
}

/* Cut anywhere, a model is refused or a shorter model, never read past its end. */
static void a_model_cut_anywhere_is_no_crash(void **state) {
    (void)state;
    byte_buffer b = model_bytes(&(model_shape){.type = BPE, .bytes = true});
    for (size_t n = 0; n < b.n; n += n < 400 ? 1 : 37) {
        tokenizer *t;
        error e;
        char *path = tokens_file("cut.model", b.data, n);
        if (tokenizer_from_sentencepiece(&t, path, &e) == OK) tokenizer_free(t);
        free(path);
    }
    buffer_free(&b);
}

/* ---- llama2.c ---- */

static void put_bin_piece(byte_buffer *b, float score, const char *text) {
    int32_t n = (int32_t)strlen(text);
    put(b, &score, 4);
    put(b, &n, 4);
    put(b, text, (size_t)n);
}

static byte_buffer bin_bytes(void) {
    byte_buffer b = {0};
    int32_t longest = 27;
    char piece[8];
    put(&b, &longest, 4);
    put_bin_piece(&b, 0, "<unk>");
    put_bin_piece(&b, 0, "\n<s>\n");
    put_bin_piece(&b, 0, "\n</s>\n");
    for (int i = 0; i < 18; i++) { /* U+2581 is written as a space */
        char text[32], *to = text;
        for (const char *from = words[i]; *from != '\0';) {
            bool mark = strncmp(from, MARK, 3) == 0;
            *to++ = mark ? ' ' : *from;
            from += mark ? 3 : 1;
        }
        *to = '\0';
        put_bin_piece(&b, (float)-i - 1, text);
    }
    for (int i = 0; i < 256; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)i);
        put_bin_piece(&b, 0, piece);
    }
    return b;
}

static void a_tokenizer_bin_is_the_same_bpe(void **state) {
    (void)state;
    byte_buffer b = bin_bytes();
    tokenizer *t = open_bytes("tokenizer.bin", &b);
    assert_ids(t, "the thing", 0, 3, 5, 11, 10);
    assert_ids(t, "  an  then ", 0, 7, 8, 12, 7, 12, 5, 17, 12);
    assert_ids(t, "xyz the", 0, 5, 12, 141, 142, 143, 5);
    assert_ids(t, "the", TOKENIZE_ADD_SPECIAL, 2, 1, 5);
    assert_ids(t, "the</s>", TOKENIZE_PARSE_SPECIAL, 2, 5, 2);
    assert_int_equal(tokenizer_n_vocab(t), 277);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_round_trip(t, "\xff the \xe6\xad", 8, 0);
    tokenizer_free(t);
}

static void a_tokenizer_bin_cut_or_stretched_is_refused(void **state) {
    (void)state;
    byte_buffer b = bin_bytes();
    b.n -= 3;
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "token 276 (6 bytes long) runs past the end");
    b = bin_bytes();
    memcpy(b.data + 8, "\x00\x00\x00\x40", 4); /* the first piece has 2^30 bytes */
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "token 0 (1073741824 bytes long)");
    b = bin_bytes();
    memcpy(b.data + 8, "\xff\xff\xff\xff", 4);
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "token 0 (-1 bytes long)");
    b = bin_bytes();
    b.n = 4;
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "0 tokens");
    b.n = 0;
    b = bin_bytes();
    b.n = 2;
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "too short");
    b = bin_bytes();
    put_bin_piece(&b, 0, "he");
    refuse_bytes("tokenizer.bin", &b, ERR_FORMAT, "\"he\" stands twice");
}

static int clean(void **state) {
    (void)state;
    tokens_clean();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_joins_by_score_and_falls_back_to_bytes),
        cmocka_unit_test(what_goes_in_comes_back_with_its_spaces),
        cmocka_unit_test(unknown_characters_in_a_row_are_one_token),
        cmocka_unit_test(extra_spaces_are_removed_where_the_model_says_so),
        cmocka_unit_test(a_model_may_have_no_space_in_front),
        cmocka_unit_test(user_defined_pieces_are_kept_whole),
        cmocka_unit_test(unigram_takes_the_most_probable_pieces),
        cmocka_unit_test(a_map_of_characters_is_applied),
        cmocka_unit_test(kinds_of_models_that_are_not_there_are_named),
        cmocka_unit_test(a_model_cut_anywhere_is_no_crash),
        cmocka_unit_test(a_tokenizer_bin_is_the_same_bpe),
        cmocka_unit_test(a_tokenizer_bin_cut_or_stretched_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
