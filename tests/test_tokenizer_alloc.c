/* Every allocation of opening, encoding and decoding is failed in turn: the result is an error or is right all the same, and all
 * that was taken is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/failing_malloc.h"
#include "tests/tokens.h"

#if OWN_MALLOC
/* jansson's are counted, but do not fail: its reader loses a character without a word where a buffer of its own cannot grow. */
static void *counted_malloc(size_t n) {
    void *p = __libc_malloc(n);
    if (counting && p != NULL) live++;
    return p;
}
#endif

static const char text[] = "<s>hello world, don't aaaa 12 \xff e\xcc\x81<|im_end|>";

/* What is opened: a text of JSON, metadata, or a file. */
typedef struct {
    const char *json;
    json_t *meta;
    const char *path;
} source;

typedef struct {
    int *ids;
    char *back;
    size_t n_ids, n_back;
} result;

static void result_free(result *r) {
    free(r->ids);
    free(r->back);
    *r = (result){0};
}

static status open_and_use(const source *from, result *r, error *e) {
    tokenizer *t = NULL;
    *r = (result){0};
    status s = from->json != NULL   ? tokenizer_from_json(&t, from->json, strlen(from->json), "test", e)
               : from->meta != NULL ? tokenizer_from_gguf(&t, from->meta, "test", e)
                                    : tokenizer_open(&t, from->path, e);
    const unsigned flags = TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL;
    if (s == OK) s = tokenizer_encode(t, text, sizeof text - 1, flags, &r->ids, &r->n_ids, e);
    if (s == OK) s = tokenizer_decode(t, r->ids, r->n_ids, DETOKENIZE_SPECIAL, &r->back, &r->n_back, e);
    tokenizer_free(t);
    if (s != OK) result_free(r);
    return s;
}

static bool same(const result *a, const result *b) {
    return a->n_ids == b->n_ids && a->n_back == b->n_back && memcmp(a->ids, b->ids, a->n_ids * sizeof *a->ids) == 0 &&
           memcmp(a->back, b->back, a->n_back) == 0;
}

static void fail_each_allocation(const source *from) {
    result want, got;
    error e;
    for (int i = 0; i < 2; i++) { /* the first time sets jansson and PCRE2 up */
        if (i > 0) result_free(&want);
        if (open_and_use(from, &want, &e) != OK) fail_msg("%s", e.message);
    }
    int n = 1, n_refused = 0;
    for (;; n++) {
        e = (error){0};
        counting = 1;
        live = 0;
        countdown = n;
        status s = open_and_use(from, &got, &e);
        long unused = countdown;
        countdown = 0;
        bool right = s != OK || same(&want, &got);
        result_free(&got);
        long left = live;
        counting = 0;
        if (left != 0) fail_msg("allocation %d failed: %ld blocks were kept", n, left);
        if (unused > 0) break; /* there are fewer than n */
        if (!right) fail_msg("allocation %d failed, and the ids are wrong", n);
        if (s != OK && e.message[0] == '\0') fail_msg("allocation %d failed without a message", n);
        n_refused += s != OK;
    }
    assert_true(n > 20 && n_refused > n / 2); /* PCRE2 does without its JIT */
    result_free(&want);
}

static void need_own_malloc(void) {
    if (OWN_MALLOC) return;
    printf("SKIP: allocations are not failed under a sanitizer\n");
    skip();
}

static void json_gives_back_everything(void **state) {
    (void)state;
    need_own_malloc();
    json_t *root = byte_level_json();
    json_put(root, "normalizer",
             "{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'Replace','pattern':{'Regex':'  +'},"
             "'content':' '}]}");
    json_array_append_new(json_object_get(root, "added_tokens"), json_quoted("{'id':280,'content':'world','normalized':true}"));
    json_put(root, "post_processor",
             "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>'}},{'Sequence':{'id':'A'}}],"
             "'special_tokens':{'<s>':{'ids':[279]}}}");
    char *json = json_dumps(root, 0);
    assert_non_null(json);
    fail_each_allocation(&(source){.json = json});
    free(json);
    json_decref(root);
}

static json_t *gguf(const char *model) {
    json_t *meta = json_object(), *tokens = json_array(), *scores = json_array(), *types = json_array();
    static const char *const pieces[] = {"\xe2\x96\x81", "h", "e", "he", "l", "ll", "o", "a", "aa"};
    for (int i = 0; i < 268; i++) {
        static const char *const specials[] = {"<unk>", "<s>", "</s>"};
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(i - 3));
        json_array_append_new(tokens, json_string(i < 3 ? specials[i] : i < 259 ? byte : pieces[i - 259]));
        json_array_append_new(scores, json_real(i < 259 ? 0 : 200 - i));
        json_array_append_new(types, json_integer(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1));
    }
    json_object_set_new(meta, "tokenizer.ggml.model", json_string(model));
    json_object_set_new(meta, "tokenizer.ggml.tokens", tokens);
    json_object_set_new(meta, "tokenizer.ggml.scores", scores);
    json_object_set_new(meta, "tokenizer.ggml.token_type", types);
    return meta;
}

static void metadata_gives_back_everything(void **state) {
    (void)state;
    need_own_malloc();
    static const char *const models[] = {"llama", "t5"};
    for (int i = 0; i < 2; i++) {
        json_t *meta = gguf(models[i]);
        fail_each_allocation(&(source){.meta = meta});
        json_decref(meta);
    }
}

static void files_give_back_everything(void **state) {
    (void)state;
    need_own_malloc();
    json_t *root = byte_level_json();
    char *list = json_dumps(json_object_get(json_object_get(root, "model"), "vocab"), 0);
    json_decref(root);
    static const char merges[] = "#version: 0.2\nh e\nl l\n";
    static const char config[] = "{\"eos_token\":\"hello\",\"add_bos_token\":false}";
    assert_non_null(list);
    char *path = tokens_file("vocab.json", list, strlen(list));
    free(tokens_file("merges.txt", merges, sizeof merges - 1));
    free(tokens_file("tokenizer_config.json", config, sizeof config - 1));
    fail_each_allocation(&(source){.path = path});
    free(path);
    free(list);
    tokens_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_gives_back_everything),
        cmocka_unit_test(metadata_gives_back_everything),
        cmocka_unit_test(files_give_back_everything),
    };
#if OWN_MALLOC
    json_set_alloc_funcs(counted_malloc, free);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
