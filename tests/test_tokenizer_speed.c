/* One megabyte of each kind of text encodes in under a second of this thread's time, and takes memory in proportion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tokens.h"
#include "tools/model_tokenizer.h"

#define SHARED "../shared/tokenizers/"
#define N      1000000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 30.0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWER 30.0
#endif
#endif
#ifndef SLOWER
#define SLOWER 1.0
#endif

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Words of English by chance, with punctuation, numbers and line ends between. */
static void write_english(char *text) {
    static const char *const words[] = {"the ",   "quick ",     "brown ",         "fox, ", "jumped ", "over ",       "lazy ",
                                        "dogs. ", "Inference ", "cost ",          "is ",   "memory ", "bandwidth; ", "don't ",
                                        "1234 ",  "\n",         "understanding ", "a ",    "of ",     "and "};
    unsigned seed = 1;
    for (size_t i = 0; i < N;) {
        const char *word = words[next(&seed) % 20];
        for (; *word != '\0' && i < N; word++) text[i++] = *word;
    }
}

static void write_kind(int kind, char *text) {
    unsigned seed = 7;
    switch (kind) {
    case 0:
        write_english(text);
        break;
    case 1:
        for (size_t i = 0; i < N; i++) text[i] = (char)next(&seed);
        break;
    default:
        memset(text, kind == 2 ? 'a' : kind == 3 ? '\n' : ' ', N);
    }
}

static void check_speed(const char *path) {
    static const char *const kinds[] = {"English", "random bytes", "a", "line ends", "spaces"};
    tokenizer *t;
    error e;
    if (access(SHARED "gpt2", R_OK) != 0) {
        printf("SKIP: ../shared/tokenizers is not there\n");
        skip();
    }
    if (any_tokenizer(&t, path, &e) != OK) fail_msg("%s", e.message);
    char *text = malloc(N);
    assert_non_null(text);
    for (int kind = 0; kind < 5; kind++) {
        int *ids;
        size_t n;
        write_kind(kind, text);
        double start = seconds();
        if (tokenizer_encode(t, text, N, 0, &ids, &n, &e) != OK) fail_msg("%s", e.message);
        double took = seconds() - start;
        printf("%-14s %7zu tokens in %.3f s\n", kinds[kind], n, took);
        if (took > SLOWER) fail_msg("%s: a megabyte of %s took %.2f s", path, kinds[kind], took);
        char *back;
        size_t n_back;
        if (tokenizer_decode(t, ids, n, 0, &back, &n_back, &e) != OK) fail_msg("%s", e.message);
        assert_int_equal(n_back, N);
        assert_memory_equal(back, text, N);
        free(ids);
        free(back);
    }
    free(text);
    tokenizer_free(t);
}

static void gpt2_encodes_a_megabyte_in_a_second(void **state) {
    (void)state;
    check_speed(SHARED "gpt2");
}

static void llama2_encodes_a_megabyte_in_a_second(void **state) {
    (void)state;
    check_speed(SHARED "llama2/tokenizer.bin");
}

static void all_of_that_takes_less_than_200_mebibytes(void **state) {
    (void)state;
    struct rusage use;
    if (SLOWER > 1) skip(); /* sanitizers have memory of their own */
    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    printf("%ld KiB at most\n", use.ru_maxrss);
    assert_true(use.ru_maxrss < 200 * 1024); /* vocabularies and all */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_encodes_a_megabyte_in_a_second),
        cmocka_unit_test(llama2_encodes_a_megabyte_in_a_second),
        cmocka_unit_test(all_of_that_takes_less_than_200_mebibytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
