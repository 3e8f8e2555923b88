/* The ids that the original implementations give for 41 texts, from ../shared/tokenizers/expected.jsonl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/tokens.h"
#include "tools/model_tokenizer.h"

#define SHARED "../shared/tokenizers/"
#define ROWS   SHARED "expected.jsonl"

static void need_shared(void) {
    if (access(ROWS, R_OK) == 0) return;
    printf("SKIP: ../shared/tokenizers is not there\n");
    skip();
}

/* What decoding gives back: SentencePiece writes U+2581 and a space alike. */
static char *as_decoded(const char *text, bool marks_are_spaces) {
    char *out = strdup(text), *to = out;
    assert_non_null(out);
    for (const char *from = text; *from != '\0';) {
        bool mark = marks_are_spaces && strncmp(from, "\xE2\x96\x81", 3) == 0;
        *to++ = mark ? ' ' : *from;
        from += mark ? 3 : 1;
    }
    *to = '\0';
    return out;
}

static void check_row(const tokenizer *t, json_t *row, bool round_trip, bool marks_are_spaces) {
    const char *text = json_string_value(json_object_get(row, "text"));
    json_t *list = json_object_get(row, "ids");
    size_t n = json_array_size(list);
    int *ids = calloc(n + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++) ids[i] = (int)json_integer_value(json_array_get(list, i));
    bool special = json_is_true(json_object_get(row, "add_special")),
         parse = json_is_true(json_object_get(row, "parse_special"));
    unsigned flags = (special ? TOKENIZE_ADD_SPECIAL : 0) | (parse ? TOKENIZE_PARSE_SPECIAL : 0);
    assert_ids_of(t, text, strlen(text), flags, ids, n);
    char *back, *want = as_decoded(text, marks_are_spaces);
    size_t n_back;
    error e;
    if (tokenizer_decode(t, ids, n, DETOKENIZE_SPECIAL, &back, &n_back, &e) != OK) fail_msg("%s", e.message);
    if (round_trip && strcmp(back, want) != 0) fail_msg("\"%s\" came back as \"%s\"", text, back);
    free(back);
    free(want);
    free(ids);
}

/* Every row of that tokenizer. Rows with special tokens in the text add a space after each, and do not come back equal. */
static void check_rows(const tokenizer *t, const char *name, int n_rows, bool marks_are_spaces) {
    char line[65536];
    int n = 0;
    FILE *f = fopen(ROWS, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        if (strcmp(json_string_value(json_object_get(row, "tokenizer")), name) == 0) {
            bool spaced = marks_are_spaces && json_is_true(json_object_get(row, "parse_special")) &&
                          strstr(json_string_value(json_object_get(row, "text")), "<s>") != NULL;
            check_row(t, row, !spaced, marks_are_spaces);
            n++;
        }
        json_decref(row);
    }
    fclose(f);
    assert_int_equal(n, n_rows);
}

static void check_file(const char *path, const char *name, int n_rows, bool marks_are_spaces) {
    error e;
    tokenizer *t;
    need_shared();
    if (any_tokenizer(&t, path, &e) != OK) fail_msg("%s", e.message);
    check_rows(t, name, n_rows, marks_are_spaces);
    tokenizer_free(t);
}

static void gpt2_from_its_two_files(void **state) {
    (void)state;
    check_file(SHARED "gpt2", "gpt2", 41, false);
}

static void llama2_from_a_tokenizer_bin(void **state) {
    (void)state;
    check_file(SHARED "llama2/tokenizer.bin", "llama2", 41, true);
}

static void tok512_from_a_tokenizer_bin(void **state) {
    (void)state;
    check_file("../shared/checkpoints/stories260K/tok512.bin", "tok512", 41, true);
}

static void a_byte_level_tokenizer_json(void **state) {
    (void)state;
    check_file(SHARED "pico/tiny_bpe_bytelevel_tokenizer.json", "pico-bytelevel", 40, false);
}

static void a_tokenizer_json_that_cuts_digits(void **state) {
    (void)state;
    check_file(SHARED "pico/tiny_bpe_digits_bytelevel_tokenizer.json", "pico-digits_bytelevel", 40, false);
}

static void a_tokenizer_json_with_metaspace_and_byte_fallback(void **state) {
    (void)state;
    check_file(SHARED "pico/tiny_bpe_metaspace_tokenizer.json", "pico-metaspace", 40, true);
}

static void gpt2_from_gguf_metadata(void **state) {
    (void)state;
    check_file(SHARED "ggml-vocab-gpt-2.gguf", "gpt2", 41, false);
}

static void llama2_from_gguf_metadata(void **state) {
    (void)state;
    check_file(SHARED "ggml-vocab-llama-spm.gguf", "llama2", 41, true);
}

static void tok512_from_gguf_metadata(void **state) {
    (void)state;
    check_file("../shared/checkpoints/stories260K/stories260K.gguf", "tok512", 41, true);
}

static void tok512_is_found_beside_its_model(void **state) {
    (void)state;
    check_file("../shared/checkpoints/stories260K/stories260K.bin", "tok512", 41, true);
}

/* golden.json of a learner's model has the ids of texts (its prompts). */
static void a_training_programs_own_characters_give_the_ids_it_was_trained_with(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    need_shared();
    if (any_tokenizer(&t, "../shared/checkpoints/slm4096/ckpt.pt", &e) != OK) fail_msg("%s", e.message);
    json_t *golden = json_load_file("../shared/checkpoints/slm4096/golden.json", 0, NULL), *row;
    size_t i, n = 0;
    json_array_foreach(json_object_get(golden, "prompts"), i, row) {
        const char *text = json_string_value(json_object_get(row, "text"));
        if (text == NULL) continue;
        check_row(t, row, true, false);
        n++;
    }
    assert_true(n > 0);
    json_decref(golden);
    tokenizer_free(t);
}

static void words_of_a_meta_pkl_beside_the_checkpoint(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    need_shared();
    if (any_tokenizer(&t, "../shared/checkpoints/gpt_by_hand/ckpt.pt", &e) != OK) fail_msg("%s", e.message);
    assert_ids(t, "hello world gpt", 0, 5, 10, 0, 31, 0, 8);
    assert_text(t, 0, "hello world gpt", 5, 10, 0, 31, 0, 8);
    tokenizer_free(t);
}

static void a_model_without_a_tokenizer_is_said_to_have_none(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    need_shared();
    assert_int_equal(any_tokenizer(&t, "../shared/checkpoints/hf-tiny/gpt2-tiny", &e), ERR_ARGUMENT);
    assert_null(t);
    assert_non_null(strstr(e.message, "runs on ids"));
}

static void the_lessons_llama2_line(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    need_shared();
    if (any_tokenizer(&t, SHARED "ggml-vocab-llama-spm.gguf", &e) != OK) fail_msg("%s", e.message);
    assert_ids(t, "Lets try ö & 株式会社", 0, 10, 365, 1691, 1018, 3963, 669, 29871, 31409, 30607, 30437, 30564);
    assert_ids(t, "<s>G", TOKENIZE_PARSE_SPECIAL | TOKENIZE_ADD_SPECIAL, 2, 1, 402);
    assert_ids(t, "G", TOKENIZE_ADD_SPECIAL, 2, 1, 402);
    assert_ids(t, "", TOKENIZE_ADD_SPECIAL, 1, 1);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_from_its_two_files),
        cmocka_unit_test(llama2_from_a_tokenizer_bin),
        cmocka_unit_test(tok512_from_a_tokenizer_bin),
        cmocka_unit_test(a_byte_level_tokenizer_json),
        cmocka_unit_test(a_tokenizer_json_that_cuts_digits),
        cmocka_unit_test(a_tokenizer_json_with_metaspace_and_byte_fallback),
        cmocka_unit_test(gpt2_from_gguf_metadata),
        cmocka_unit_test(llama2_from_gguf_metadata),
        cmocka_unit_test(tok512_from_gguf_metadata),
        cmocka_unit_test(tok512_is_found_beside_its_model),
        cmocka_unit_test(a_training_programs_own_characters_give_the_ids_it_was_trained_with),
        cmocka_unit_test(words_of_a_meta_pkl_beside_the_checkpoint),
        cmocka_unit_test(a_model_without_a_tokenizer_is_said_to_have_none),
        cmocka_unit_test(the_lessons_llama2_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
