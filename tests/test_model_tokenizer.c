/* Which tokenizer a checkpoint gets: its metadata, the layout's characters, files beside it, and what is refused of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tokens.h"
#include "tools/model_tokenizer.h"

/* A checkpoint without tensors; folder may be NULL. */
static checkpoint made(const char *meta, checkpoint_kind kind, char *folder) {
    static char name[] = "made.pt";
    return (checkpoint){.path = name, .kind = kind, .meta = json_quoted(meta), .folder = folder};
}

static tokenizer *found(checkpoint *c, const char *layout, const char *path) {
    tokenizer *t;
    error e;
    json_t *characters = layout != NULL ? json_quoted(layout) : NULL;
    if (model_tokenizer(&t, c, characters, path, &e) != OK) fail_msg("%s", e.message);
    json_decref(characters);
    json_decref(c->meta);
    return t;
}

static void refused(checkpoint *c, status want, const char *words) {
    tokenizer *t;
    error e = {0};
    assert_int_equal(model_tokenizer(&t, c, NULL, NULL, &e), want);
    assert_null(t);
    if (strstr(e.message, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", e.message, words);
    json_decref(c->meta);
}

static void stoi_comes_before_itos_and_the_layout(void **state) {
    (void)state;
    checkpoint c = made("{'stoi':{'a':1,'b':0},'itos':{'0':'x'}}", CHECKPOINT_PT_ZIP, NULL);
    tokenizer *t = found(&c, "['p','q']", NULL);
    assert_ids(t, "ab", 0, 2, 1, 0);
    tokenizer_free(t);
    c = made("{'itos':{'0':'x','2':'y'}}", CHECKPOINT_PT_ZIP, NULL);
    t = found(&c, "['p','q']", NULL);
    assert_ids(t, "xy", 0, 2, 0, 2);
    assert_false(tokenizer_has(t, 1));
    tokenizer_free(t);
    c = made("{}", CHECKPOINT_PT_ZIP, NULL);
    t = found(&c, "['<pad>','<bos>','<eos>','p']", NULL);
    assert_ids(t, "p", TOKENIZE_ADD_SPECIAL, 2, 1, 3);
    assert_int_equal(tokenizer_eos(t), 2);
    tokenizer_free(t);
}

static void special_pieces_of_stoi_are_special_and_not_added(void **state) {
    (void)state;
    checkpoint c = made("{'stoi':{'<UNK>':0,'<s>':1,'</s>':2,'a':3}}", CHECKPOINT_PT_ZIP, NULL);
    tokenizer *t = found(&c, NULL, NULL);
    assert_ids(t, "az", TOKENIZE_ADD_SPECIAL, 2, 3, 0); /* whether the model saw <s> is not said */
    assert_ids(t, "</s>", TOKENIZE_PARSE_SPECIAL, 1, 2);
    assert_true(tokenizer_is_eos(t, 2));
    tokenizer_free(t);
}

static void entries_that_are_no_tokens_are_named(void **state) {
    (void)state;
    static const char *const metas[][2] = {{"{'stoi':{'a':0,'b':0}}", "\"b\""},
                                           {"{'stoi':{'a':-1}}", "\"a\""},
                                           {"{'stoi':{'a':2147483648}}", "\"a\""},
                                           {"{'stoi':{'a':'0'}}", "\"a\""},
                                           {"{'itos':{'zero':'a'}}", "\"zero\""},
                                           {"{'itos':{'0':7}}", "\"0\""},
                                           {"{'itos':{'0':'a','1':'a'}}", "\"a\" stands twice"}};
    for (size_t i = 0; i < sizeof metas / sizeof *metas; i++) {
        checkpoint c = made(metas[i][0], CHECKPOINT_PT_ZIP, NULL);
        refused(&c, ERR_FORMAT, metas[i][1]);
    }
}

static void a_gguf_file_has_its_own_or_says_that_it_has_none(void **state) {
    (void)state;
    checkpoint c = made("{'tokenizer.ggml.model':'gpt2','tokenizer.ggml.pre':'gpt-2','tokenizer.ggml.tokens':['a','b','ab'],"
                        "'tokenizer.ggml.merges':['a b']}",
                        CHECKPOINT_GGUF, NULL);
    tokenizer *t = found(&c, NULL, NULL);
    assert_ids(t, "aab", 0, 2, 0, 2);
    tokenizer_free(t);
    c = made("{'tokenizer.ggml.model':'no_vocab'}", CHECKPOINT_GGUF, NULL);
    assert_null(found(&c, NULL, NULL));
    c = made("{'tokenizer.ggml.model':'bert'}", CHECKPOINT_GGUF, NULL);
    refused(&c, ERR_UNSUPPORTED, "made.pt: tokenizer.ggml.model is \"bert\"");
    c = made("{}", CHECKPOINT_GGUF, NULL);
    assert_null(found(&c, NULL, NULL));
}

static char *folder_with(const char *name, const void *bytes, size_t n) {
    char *path = tokens_file(name, bytes, n);
    *strrchr(path, '/') = '\0';
    return path;
}

static void files_beside_are_found_and_a_given_one_wins(void **state) {
    (void)state;
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    char *folder = folder_with("tokenizer.json", json, sizeof json - 1);
    checkpoint c = made("{}", CHECKPOINT_SAFETENSORS, folder);
    tokenizer *t = found(&c, NULL, NULL);
    assert_ids(t, "ba", 0, 2, 1, 0);
    tokenizer_free(t);
    static const char other[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":7,\"b\":1},\"merges\":[]}}";
    char *path = tokens_file("other.json", other, sizeof other - 1);
    c = made("{'stoi':{'a':3,'b':4}}", CHECKPOINT_PT_ZIP, folder);
    t = found(&c, NULL, path);
    assert_ids(t, "a", 0, 1, 7);
    tokenizer_free(t);
    free(path);
    free(folder);
    tokens_clean();
}

static void the_tokenizer_beside_a_llama2c_model_must_have_its_size(void **state) {
    (void)state;
    static const char bin[] = "\x08\0\0\0"
                              "\0\0\0\0\x05\0\0\0<unk>"
                              "\0\0\0\0\x05\0\0\0\n<s>\n"
                              "\0\0\0\0\x06\0\0\0\n</s>\n"
                              "\0\0\x80\xbf\x01\0\0\0a";
    char *folder = folder_with("tok4.bin", bin, sizeof bin - 1);
    checkpoint c = made("{'vocab_size':4}", CHECKPOINT_LLAMA2C, folder);
    tokenizer *t = found(&c, NULL, NULL);
    assert_int_equal(tokenizer_n_vocab(t), 4);
    tokenizer_free(t);
    c = made("{'vocab_size':5}", CHECKPOINT_LLAMA2C, folder);
    refused(&c, ERR_MISMATCH, "tok4.bin: 4 tokens, but made.pt has 5");
    free(tokens_file("tok9.bin", bin, sizeof bin - 1)); /* two: which one is not said */
    c = made("{'vocab_size':4}", CHECKPOINT_LLAMA2C, folder);
    assert_null(found(&c, NULL, NULL));
    free(folder);
    tokens_clean();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stoi_comes_before_itos_and_the_layout),
        cmocka_unit_test(special_pieces_of_stoi_are_special_and_not_added),
        cmocka_unit_test(entries_that_are_no_tokens_are_named),
        cmocka_unit_test(a_gguf_file_has_its_own_or_says_that_it_has_none),
        cmocka_unit_test(files_beside_are_found_and_a_given_one_wins),
        cmocka_unit_test(the_tokenizer_beside_a_llama2c_model_must_have_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
