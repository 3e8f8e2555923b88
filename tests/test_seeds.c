/* The fuzzers' seeds, and every change of one byte of them, through the fuzzers' entry points: no crash, no read past the end. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LLVMFuzzerTestOneInput fuzz_checkpoint
#include "tests/fuzz_checkpoint.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_pt
#include "tests/fuzz_pt.c"
#undef LLVMFuzzerTestOneInput

typedef int (*entry)(const uint8_t *data, size_t size);

/* From a heap block of the exact size. */
static void run_exact(entry one, const uint8_t *data, size_t n) {
    uint8_t *exact = malloc(n > 0 ? n : 1);
    if (exact == NULL) abort();
    if (n > 0) memcpy(exact, data, n);
    one(exact, n);
    free(exact);
}

static void run_changed(entry one, uint8_t *data, size_t n) {
    static const uint8_t with[] = {1, 0x80, 0xff};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof with; k++) {
            data[i] ^= with[k];
            run_exact(one, data, n);
            data[i] ^= with[k];
        }
        run_exact(one, data, i);
    }
}

static int run_seeds(entry one, const char *folder) {
    static uint8_t data[65536];
    DIR *d = opendir(folder);
    int n_seeds = 0;
    if (d == NULL) fail_msg("%s: not there (tests run in the project's folder)", folder);
    for (struct dirent *file; (file = readdir(d)) != NULL;) {
        char path[512];
        if (file->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        FILE *f = fopen(path, "rb");
        if (f == NULL) fail_msg("%s: not readable", path);
        size_t n = fread(data, 1, sizeof data, f);
        fclose(f);
        run_exact(one, data, n);
        run_changed(one, data, n);
        n_seeds++;
    }
    closedir(d);
    return n_seeds;
}

static void checkpoints_with_a_byte_changed_do_no_harm(void **state) {
    (void)state;
    assert_true(run_seeds(fuzz_checkpoint, "tests/seeds/checkpoint") >= 9);
}

static void pickles_with_a_byte_changed_do_no_harm(void **state) {
    (void)state;
    assert_true(run_seeds(fuzz_pt, "tests/seeds/pt") >= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_with_a_byte_changed_do_no_harm),
        cmocka_unit_test(pickles_with_a_byte_changed_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
