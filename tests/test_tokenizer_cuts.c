/* How the known families cut text into words. The lengths come from Hugging Face's tokenizers (Oniguruma) run on the same
 * patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tokenizer/internal.h"

#define N_TEXTS 16
static const char *const texts[N_TEXTS] = {"a  b",
                                           "don't !'t I'LL we'Ve",
                                           "  Hello World.",
                                           "x\t\ty\n\n z \r\n",
                                           "1234567 12 ½",
                                           "f(x) == y+1; // ok",
                                           "CamelCase HTTPServer",
                                           "你好，世界 カタカナ 한국어",
                                           "e\u0301 naïve ÅB",
                                           "   ",
                                           "\n\n\n",
                                           "Привет, мир!",
                                           "a.b/c_d-e",
                                           "$100 <=> ~x~",
                                           "ab\u00a0c\u3000d",
                                           "👍🏽 ok…"};
/* Bytes of every piece of every text. */
static const struct {
    const char *preset;
    const char *lengths[N_TEXTS];
} expected[] = {
    {"gpt-2",
     {"1 1 2", "3 2 3 1 2 1 2 3 1 2", "1 6 6 1", "1 1 1 1 2 2 3", "7 3 3", "1 1 1 1 3 2 1 1 1 3 3", "9 11", "6 3 6 13 10",
      "1 2 7 4", "3", "3", "12 1 7 1", "1 1 1 1 1 1 1 1 1", "1 3 4 2 1 1", "2 2 1 3 1", "8 3 3"}},
    {"llama3",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "3 3 1 1 2 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11", "6 9 13 10",
      "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 3 4 2 1 1", "2 3 4", "8 3 3"}},
    {"cl100k",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "3 3 1 1 2 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11", "6 9 13 10",
      "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 3 4 2 1 1", "2 3 4", "8 3 3"}},
    {"qwen2",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11",
      "6 9 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 1 1 1 4 2 1 1", "2 3 4", "8 3 3"}},
    {"stablelm2",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11",
      "6 9 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 1 1 1 4 2 1 1", "2 3 4", "8 3 3"}},
    {"o200k",
     {"1 1 2", "5 3 1 5 6", "1 6 6 1", "1 1 2 2 2 3", "3 3 1 1 2 1 2", "1 2 1 3 2 1 1 1 3 3", "5 4 11", "6 9 13 10", "3 7 4",
      "3", "3", "12 1 7 1", "1 2 2 2 2", "1 3 4 2 1 1", "2 3 4", "8 3 3"}},
    {"tekken",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 2 1 3 2 1 1 1 3 3", "5 4 11",
      "6 9 13 10", "3 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 1 1 1 4 2 1 1", "2 3 4", "8 3 3"}},
    {"deepseek-llm",
     {"1 1 2", "3 1 1 3 1 2 1 2 3 1 2", "1 6 6 1", "1 1 2 1 1 2 1 1 1", "7 1 2 1 2", "1 1 1 1 3 2 1 1 1 3 3", "9 11",
      "6 3 6 1 12 1 9", "1 2 3 2 2 3 1", "3", "1 1 1", "12 1 7 1", "1 1 1 1 1 1 1 1 1", "1 3 4 2 1 1", "2 3 3 1", "8 3 3"}},
    {"deepseek-coder",
     {"1 1 2", "3 1 1 3 1 2 1 2 3 1 2", "1 6 6 1", "1 1 2 1 1 2 1 1 1", "1 1 1 1 1 1 1 1 1 1 1 2", "1 1 1 1 3 2 1 1 1 3 3",
      "9 11", "6 3 6 1 12 1 9", "1 2 7 4", "3", "1 1 1", "12 1 7 1", "1 1 1 1 1 1 1 1 1", "1 1 1 1 6 1 1", "2 3 3 1", "8 3 3"}},
    {"deepseek-v3",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "3 3 1 1 2 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11", "6 3 6 1 12 10",
      "3 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 3 4 2 1 1", "2 3 4", "8 3 3"}},
    {"falcon",
     {"1 1 2", "3 1 1 1 2 1 2 1 2 3 1 2", "1 6 6 1", "1 1 1 1 2 2 3", "3 3 1 3 3", "1 1 1 1 1 2 2 1 1 1 1 2 3", "9 11",
      "6 3 6 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 1 1 1 1 1 1 1 1", "1 3 1 3 1 1 1 1", "2 2 1 3 1", "8 3 3"}},
    {"starcoder",
     {"1 1 2", "3 2 3 1 2 1 2 3 1 2", "1 6 6 1", "1 1 1 1 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 1 1 1 3 2 1 1 1 3 3", "9 11",
      "6 3 6 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 1 1 1 1 1 1 1 1", "1 1 1 1 4 2 1 1", "2 2 1 3 1", "8 3 3"}},
    {"bloom",
     {"1 1 2", "5 2 2 5 6", "1 6 6 1", "1 2 1 2 2 3", "7 3 3", "1 1 1 1 3 5 3 3", "9 11", "6 3 6 13 10", "3 7 4", "3", "3",
      "12 1 7 1", "1 1 7", "4 4 4", "2 2 1 3 1", "8 3 3"}},
    {"viking",
     {"1 1 2", "5 2 2 5 6", "1 6 6 1", "1 2 1 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 1 1 1 3 3 1 1 3 3", "9 11", "6 3 6 13 10",
      "3 7 4", "3", "3", "12 1 7 1", "1 1 7", "1 1 1 1 4 4", "2 2 1 3 1", "8 3 3"}},
    {"seed-coder",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11",
      "6 9 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 1 1 1 4 2 1 1", "2 3 4", "8 3 3"}},
    {"bailingmoe",
     {"1 1 2", "3 2 3 1 2 3 3 3", "1 6 6 1", "1 1 2 2 2 3", "1 1 1 1 1 1 1 1 1 1 1 2", "1 2 1 3 2 1 1 1 3 3", "9 11",
      "6 9 13 10", "1 2 7 4", "3", "3", "12 1 7 1", "1 2 2 2 2", "1 1 1 1 4 2 1 1", "2 3 4", "8 3 3"}},
};

static tokenizer *open_preset(const char *name) {
    error e;
    bool add_bos;
    tokenizer *t = tokenizer_new("a test", "byte-level BPE", MODEL_BPE);
    assert_non_null(t);
    if (tokenizer_set_preset(t, name, &add_bos, &e) != OK) fail_msg("%s", e.message);
    assert_int_equal(t->cutter.data[t->cutter.n - 1].kind, STEP_BYTE_CHARS);
    t->cutter.n--; /* lengths are of the text itself */
    return t;
}

static void cut(const tokenizer *t, pieces *p, const char *text, size_t n) {
    error e;
    assert_true(pieces_init(p, n));
    assert_true(pieces_set(p, text, n));
    if (steps_run(&t->cutter, p, &e) != OK) fail_msg("%s", e.message);
}

/* The lengths of p's spans, as words. */
static void write_lengths(const pieces *p, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < p->spans.n && at + 24 < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%zu", i > 0 ? " " : "", p->spans.data[i].end - p->spans.data[i].start);
}

static void every_family_cuts_as_its_original_does(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        tokenizer *t = open_preset(expected[i].preset);
        for (int j = 0; j < N_TEXTS; j++) {
            char got[512];
            pieces p;
            cut(t, &p, texts[j], strlen(texts[j]));
            write_lengths(&p, got, sizeof got);
            if (strcmp(got, expected[i].lengths[j]) != 0)
                fail_msg("%s cuts \"%s\" as %s, not %s", expected[i].preset, texts[j], got, expected[i].lengths[j]);
            pieces_free(&p);
        }
        tokenizer_free(t);
    }
}

static void families_of_one_pattern_are_known_by_all_their_names(void **state) {
    (void)state;
    static const char *const names[] = {"llama-bpe", "llama-v3", "gpt2", "phi-2", "gpt-4o", "refact", "deepseek-r1-qwen"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) tokenizer_free(open_preset(names[i]));
}

static void a_family_that_is_not_known_is_named(void **state) {
    (void)state;
    static const char *const names[] = {"martian", "", "gpt", "gpt-2 phi-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        error e = {0};
        bool add_bos;
        tokenizer *t = tokenizer_new("a test", "byte-level BPE", MODEL_BPE);
        assert_non_null(t);
        assert_int_equal(tokenizer_set_preset(t, names[i], &add_bos, &e), ERR_UNSUPPORTED);
        assert_non_null(strstr(e.message, names[i]));
        tokenizer_free(t);
    }
}

static void no_pattern_loses_or_joins_bytes_that_are_no_utf8(void **state) {
    (void)state;
    static const char text[] = "ab\xff\xfe cd\xe6\xad  \xf0\x9f\x98";
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        tokenizer *t = open_preset(expected[i].preset);
        pieces p;
        cut(t, &p, text, sizeof text - 1);
        size_t end = 0;
        for (size_t j = 0; j < p.spans.n; j++) {
            assert_int_equal(p.spans.data[j].start, end);
            end = p.spans.data[j].end;
        }
        assert_int_equal(end, sizeof text - 1);
        pieces_free(&p);
        tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_cuts_as_its_original_does),
        cmocka_unit_test(families_of_one_pattern_are_known_by_all_their_names),
        cmocka_unit_test(a_family_that_is_not_known_is_named),
        cmocka_unit_test(no_pattern_loses_or_joins_bytes_that_are_no_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
