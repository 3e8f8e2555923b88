/* Tokenizer files that mean harm, or are broken: refused or bounded, each with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tokens.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- patterns ---- */

static tokenizer *cut_by(const char *regex, const char *way) {
    json_t *root = byte_level_json();
    json_t *split = json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", regex, "behavior", way);
    json_t *bytes = json_quoted("{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}");
    json_object_set_new(root, "pre_tokenizer", json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, bytes));
    return json_tokenizer(root);
}

/* Each of these takes exponential, quadratic or cubic time where nothing bounds it. */
static void patterns_that_backtrack_without_end_are_stopped(void **state) {
    (void)state;
    static const char *const patterns[] = {"(a+)+$x",     "(a|aa)+x",    "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$",
                                           "(?:a*)*[bc]", "((a*)*)*[bc]"};
    enum { N = 30000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        tokenizer *t = cut_by(patterns[i], "Isolated");
        double start = seconds();
        int *ids;
        size_t n;
        error e = {0};
        status s = tokenizer_encode(t, text, N, 0, &ids, &n, &e);
        double took = seconds() - start;
        if (took > 30) fail_msg("%s took %g s", patterns[i], took);
        if (s == OK) {
            assert_int_equal(n, N / 4);
            free(ids);
        } else {
            assert_int_equal(s, ERR_LIMIT);
            assert_non_null(strstr(e.message, "a pattern of the tokenizer"));
            assert_null(ids);
        }
        tokenizer_free(t);
    }
    free(text);
}

static void the_worst_pattern_is_said_to_be_one(void **state) {
    (void)state;
    tokenizer *t = cut_by("(a|aa)+[xy]", "Isolated");
    char text[2000];
    memset(text, 'a', sizeof text);
    assert_encode_fails(t, text, sizeof text, ERR_LIMIT, "backtracks without end");
    tokenizer_free(t);
}

static void patterns_too_large_to_compile_are_refused(void **state) {
    (void)state;
    static const char *const patterns[] = {"((a{1000}){1000}){1000}", "(?R)*\\K", "(*COMMIT)a", "[z-a]", "\\"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        json_t *root = byte_level_json();
        json_object_set_new(
            root, "pre_tokenizer",
            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", patterns[i], "behavior", "Isolated"));
        assert_json_refused(root, ERR_UNSUPPORTED, "pattern");
    }
    size_t n = 100000;
    char *deep = malloc(n + 1);
    assert_non_null(deep);
    memset(deep, '(', n);
    deep[n] = '\0';
    json_t *root = byte_level_json();
    json_object_set_new(root, "normalizer",
                        json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex", deep, "content", ""));
    assert_json_refused(root, ERR_LIMIT, "a pattern of 100000 bytes");
    free(deep);
}

static void empty_matches_cut_and_go_on(void **state) {
    (void)state;
    tokenizer *t = cut_by("(?=l)", "Isolated"); /* between letters: he | l | lo */
    assert_ids(t, "hello", 0, 4, 256, 'l', 'l', 'o');
    tokenizer_free(t);
    t = cut_by("x*", "Removed");
    assert_ids(t, "hxxe", 0, 2, 'h', 'e');
    tokenizer_free(t);
}

/* ---- growth ---- */

static void normalisers_cannot_make_a_text_grow_without_end(void **state) {
    (void)state;
    json_t *root = byte_level_json(), *parts = json_array();
    char many[257];
    memset(many, 'a', 256);
    many[256] = '\0';
    for (int i = 0; i < 8; i++)
        json_array_append_new(parts,
                              json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", "a", "content", many));
    json_object_set_new(root, "normalizer", json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", parts));
    tokenizer *t = json_tokenizer(root);
    assert_encode_fails(t, "aaaa", 4, ERR_MEMORY, "no memory");
    assert_ids(t, "b", 0, 1, 'b');
    tokenizer_free(t);
}

static void decoders_cannot_make_a_text_grow_without_end(void **state) {
    (void)state;
    json_t *root = byte_level_json(), *parts = json_array();
    for (int i = 0; i < 16; i++)
        json_array_append_new(
            parts, json_quoted("{'type':'Replace','pattern':{'String':'a'},'content':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}"));
    json_object_set_new(root, "decoder", json_pack("{s:s, s:o}", "type", "Sequence", "decoders", parts));
    assert_json_refused(root, ERR_LIMIT, "decoder");
}

static void a_run_of_marks_in_the_wrong_order_takes_no_quadratic_time(void **state) {
    (void)state;
    json_t *root = byte_level_json();
    json_put(root, "normalizer", "{'type':'NFD'}");
    tokenizer *t = json_tokenizer(root);
    const size_t n = 200000;
    char *text = malloc(4 * n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + 4 * i, i % 2 ? "\xcc\x80\xcc\x95" : "\xcc\x95\xcc\x80", 4); /* U+0300 class 230, U+0315 232 */
    double start = seconds();
    int *ids;
    size_t n_ids;
    error e;
    if (tokenizer_encode(t, text, 4 * n, 0, &ids, &n_ids, &e) != OK) fail_msg("%s", e.message);
    assert_true(seconds() - start < 20);
    assert_int_equal(n_ids, 4 * n);
    assert_int_equal(ids[2 * n - 1], 0x80); /* all U+0300 come first */
    assert_int_equal(ids[2 * n + 1], 0x95);
    free(ids);
    free(text);
    tokenizer_free(t);
}

/* ---- GGUF metadata ---- */

#define GGUF "tokenizer.ggml."

static json_t *gguf_meta(void) {
    return json_quoted("{'" GGUF "model':'gpt2','" GGUF "pre':'gpt-2','" GGUF "tokens':['a','b','ab','<s>','[PAD4]'],'" GGUF
                       "token_type':[1,1,1,3,5],'" GGUF "merges':['a b'],'" GGUF "bos_token_id':3,'" GGUF
                       "eos_token_id':3,'" GGUF "padding_token_id':4294967295,'" GGUF "add_bos_token':true}");
}

static const struct {
    const char *key, *value;
    status want;
    const char *words;
} broken[] = {
    {"model", "'martian'", ERR_UNSUPPORTED, "\"martian\""},
    {"model", "7", ERR_FORMAT, "model is missing"},
    {"pre", "'martian'", ERR_UNSUPPORTED, "\"martian\" is not known"},
    {"pre", "null", ERR_UNSUPPORTED, "pre is missing"},
    {"tokens", "{}", ERR_FORMAT, "tokens is not an array"},
    {"tokens", "['a',1]", ERR_FORMAT, "entry 1 is not text"},
    {"tokens", "['a','b','ab','a','c']", ERR_FORMAT, "\"a\" stands twice in the vocabulary (ids 0 and 3)"},
    {"token_type", "[1]", ERR_FORMAT, "token_type has 1 entries for 5 tokens"},
    {"token_type", "[1,1,1,3,99]", ERR_FORMAT, "(token 4)"},
    {"merges", "['a']", ERR_FORMAT, "entry 0 is not a pair"},
    {"merges", "['a x']", ERR_FORMAT, "merge 0 names the token \"x\""},
    {"merges", "['a b','a b']", ERR_FORMAT, "merge 1 repeats merge 0"},
    {"merges", "['b a']", ERR_FORMAT, "makes the token \"ba\""},
    {"bos_token_id", "5", ERR_FORMAT, "beginning token's id 5"},
    {"bos_token_id", "4", ERR_FORMAT, "marked as unused"},
    {"bos_token_id", "4294967294", ERR_FORMAT, "out of range"},
    {"eos_token_id", "-2", ERR_FORMAT, "is not an id"},
    {"eot_token_id", "77", ERR_MISMATCH, "end token 77"},
    {"add_bos_token", "1", ERR_FORMAT, "neither true nor false"},
};

static void broken_gguf_metadata_is_refused_by_key(void **state) {
    (void)state;
    tokenizer *t;
    error e;
    json_t *meta = gguf_meta();
    if (tokenizer_from_gguf(&t, meta, "x.gguf", &e) != OK) fail_msg("%s", e.message);
    assert_ids(t, "abb", TOKENIZE_ADD_SPECIAL, 3, 3, 2, 1);
    assert_false(tokenizer_has(t, 4)); /* padding is no token */
    assert_true(tokenizer_is_special(t, 3));
    tokenizer_free(t);
    json_decref(meta);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char key[64];
        meta = gguf_meta();
        snprintf(key, sizeof key, GGUF "%s", broken[i].key);
        json_put(meta, key, broken[i].value);
        status s = tokenizer_from_gguf(&t, meta, "x.gguf", &e);
        if (s != broken[i].want) fail_msg("%s %s: status %d, not %d (%s)", key, broken[i].value, s, broken[i].want, e.message);
        assert_null(t);
        if (strstr(e.message, broken[i].words) == NULL || strstr(e.message, "x.gguf: ") == NULL)
            fail_msg("\"%s\" does not say \"%s\"", e.message, broken[i].words);
        json_decref(meta);
    }
}

static void gpt2_files_of_before_the_key_pre_are_cut_as_gpt2(void **state) {
    (void)state;
    json_t *meta = gguf_meta();
    json_object_del(meta, GGUF "pre");
    json_object_set_new(meta, "general.architecture", json_string("gpt2"));
    tokenizer *t;
    error e;
    if (tokenizer_from_gguf(&t, meta, "x.gguf", &e) != OK) fail_msg("%s", e.message);
    tokenizer_free(t);
    json_decref(meta);
}

/* ---- two files, and files beside ---- */

static void write_files(const char *vocab, const char *merges) {
    char *a = tokens_file("vocab.json", vocab, strlen(vocab)), *b = tokens_file("merges.txt", merges, strlen(merges));
    free(a);
    free(b);
}

static char *folder_of(const char *path) {
    char *folder = strdup(path);
    assert_non_null(folder);
    *strrchr(folder, '/') = '\0';
    return folder;
}

/* Opens the folder with these two files. */
static status open_pair(tokenizer **t, const char *vocab, const char *merges, error *e) {
    write_files(vocab, merges);
    char *path = tokens_file("README", "", 0), *folder = folder_of(path);
    status s = tokenizer_open(t, folder, e);
    free(path);
    free(folder);
    return s;
}

#define VOCAB "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}"

static void two_files_are_a_tokenizer_and_broken_ones_are_named(void **state) {
    (void)state;
    static const char *const bad[][3] = {{"{\"a\":0", "", "vocab.json: is not valid JSON"},
                                         {"{\"a\":0,\"a\":1}", "", "vocab.json: is not valid JSON"},
                                         {"{}", "", "vocab.json"},
                                         {"{\"a\":2147483648}", "", "out of range"},
                                         {VOCAB, "#version: 0.2\na\n", "merges.txt: merge 0 (\"a\")"},
                                         {VOCAB, "a b c\n", "merges.txt: merge 0"},
                                         {VOCAB, "a x\n", "merges.txt: merge 0 names the token \"x\""},
                                         {VOCAB, "a b\na b\n", "merges.txt: merge 1 repeats merge 0"}};
    tokenizer *t;
    error e = {0};
    if (open_pair(&t, VOCAB, "#version: 0.2\r\na b\r\n\n", &e) != OK) fail_msg("%s", e.message);
    assert_ids(t, "abb", 0, 2, 2, 1);
    assert_ids(t, "<|endoftext|>", TOKENIZE_PARSE_SPECIAL, 1, 3);
    assert_int_equal(tokenizer_eos(t), 3);
    tokenizer_free(t);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        status s = open_pair(&t, bad[i][0], bad[i][1], &e);
        assert_true(s != OK);
        assert_null(t);
        if (strstr(e.message, bad[i][2]) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, bad[i][2]);
    }
    tokens_clean();
}

static void files_beside_name_the_tokens_around_a_text(void **state) {
    (void)state;
    static const char config[] = "{\"bos_token\":\"<|endoftext|>\",\"eos_token\":{\"content\":\"b\"},\"add_bos_token\":true,"
                                 "\"model_max_length\":1000000000000000019884624838656}";
    static const char generation[] = "{\"eos_token_id\":[2,99]}";
    free(tokens_file("tokenizer_config.json", config, sizeof config - 1));
    free(tokens_file("generation_config.json", generation, sizeof generation - 1));
    tokenizer *t;
    error e = {0};
    if (open_pair(&t, VOCAB, "a b\n", &e) != OK) fail_msg("%s", e.message);
    assert_ids(t, "ab", TOKENIZE_ADD_SPECIAL, 2, 3, 2);
    assert_int_equal(tokenizer_eos(t), 1);
    assert_true(tokenizer_is_eos(t, 1));
    assert_true(tokenizer_is_eos(t, 2));
    assert_true(tokenizer_is_eos(t, 3));
    assert_false(tokenizer_is_eos(t, 0));
    tokenizer_free(t);
    static const char other[] = "{\"tokenizer_class\":\"MartianTokenizer\"}";
    free(tokens_file("tokenizer_config.json", other, sizeof other - 1));
    assert_int_equal(open_pair(&t, VOCAB, "a b\n", &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "MartianTokenizer"));
    tokens_clean();
}

static void files_that_are_no_tokenizers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        size_t n;
    } files[] = {{"empty", "", 0},
                 {"text", "hello", 5},
                 {"gguf", "GGUF\3\0\0\0", 8},
                 {"list", "[1]", 3},
                 {"object", "{}", 2},
                 {"half", "#version: 1", 11},
                 {"zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0", 13}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tokenizer *t;
        error e = {0};
        char *path = tokens_file(files[i].name, files[i].text, files[i].n);
        assert_true(tokenizer_open(&t, path, &e) != OK);
        assert_null(t);
        assert_non_null(strstr(e.message, path));
        free(path);
    }
    tokenizer *t;
    error e = {0};
    assert_int_equal(tokenizer_open(&t, "/nonexistent/tokenizer.json", &e), ERR_IO);
    assert_non_null(strstr(e.message, "/nonexistent/tokenizer.json: No such file"));
    tokens_clean();
    char *path = tokens_file("nothing", "", 0), *folder = folder_of(path);
    assert_int_equal(tokenizer_open(&t, folder, &e), ERR_IO);
    assert_non_null(strstr(e.message, "no tokenizer.json"));
    free(path);
    free(folder);
    tokens_clean();
}

static void the_shared_malformed_tokenizers_are_rejected(void **state) {
    (void)state;
    static const char *const names[] = {"tok_cut.bin", "tok_empty.bin", "tok_huge_len.bin"};
    if (access("../shared/malformed/tok_cut.bin", R_OK) != 0) {
        printf("SKIP: ../shared/malformed is not there\n");
        skip();
    }
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        tokenizer *t;
        error e = {0};
        snprintf(path, sizeof path, "../shared/malformed/%s", names[i]);
        assert_int_equal(tokenizer_open(&t, path, &e), ERR_FORMAT);
        assert_null(t);
        assert_non_null(strstr(e.message, names[i]));
    }
}

/* ---- limits ---- */

static void tokens_of_absurd_length_are_refused(void **state) {
    (void)state;
    size_t n = 70000;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, 'a', n);
    text[n] = '\0';
    json_t *root = byte_level_json();
    json_object_set_new(json_object_get(json_object_get(root, "model"), "vocab"), text, json_integer(280));
    assert_json_refused(root, ERR_LIMIT, "a token of 70000 bytes");
    text[2000] = '\0';
    root = byte_level_json();
    json_array_append_new(json_object_get(root, "added_tokens"), json_pack("{s:i, s:s}", "id", 280, "content", text));
    assert_json_refused(root, ERR_LIMIT, "has 2000 bytes");
    free(text);
}

static void a_text_beyond_the_limit_is_refused_before_any_work(void **state) {
    (void)state;
    tokenizer *t = json_tokenizer(byte_level_json());
    int *ids;
    size_t n;
    error e;
    assert_int_equal(tokenizer_encode(t, "", ((size_t)1 << 28) + 1, 0, &ids, &n, &e), ERR_LIMIT);
    assert_null(ids);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_that_backtrack_without_end_are_stopped),
        cmocka_unit_test(the_worst_pattern_is_said_to_be_one),
        cmocka_unit_test(patterns_too_large_to_compile_are_refused),
        cmocka_unit_test(empty_matches_cut_and_go_on),
        cmocka_unit_test(normalisers_cannot_make_a_text_grow_without_end),
        cmocka_unit_test(decoders_cannot_make_a_text_grow_without_end),
        cmocka_unit_test(a_run_of_marks_in_the_wrong_order_takes_no_quadratic_time),
        cmocka_unit_test(broken_gguf_metadata_is_refused_by_key),
        cmocka_unit_test(gpt2_files_of_before_the_key_pre_are_cut_as_gpt2),
        cmocka_unit_test(two_files_are_a_tokenizer_and_broken_ones_are_named),
        cmocka_unit_test(files_beside_name_the_tokens_around_a_text),
        cmocka_unit_test(files_that_are_no_tokenizers_are_refused),
        cmocka_unit_test(the_shared_malformed_tokenizers_are_rejected),
        cmocka_unit_test(tokens_of_absurd_length_are_refused),
        cmocka_unit_test(a_text_beyond_the_limit_is_refused_before_any_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
