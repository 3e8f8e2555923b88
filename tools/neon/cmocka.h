/* cmocka.h - just enough of cmocka for tests/test_kernels_*.c where its library is not: a cross compiler has none.
 * A failed check prints where it is and ends the program. */
#ifndef TALLY_NEON_CMOCKA_H
#define TALLY_NEON_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(f)                                                                                                    \
    { #f, f }

#define fail_msg(...)                                                                                                          \
    do {                                                                                                                       \
        printf("%s:%d: ", __FILE__, __LINE__);                                                                                 \
        printf(__VA_ARGS__);                                                                                                   \
        putchar('\n');                                                                                                         \
        exit(1);                                                                                                               \
    } while (0)
#define assert_true(c)                                                                                                         \
    do {                                                                                                                       \
        if (!(c)) fail_msg("%s", #c);                                                                                          \
    } while (0)
#define assert_non_null(p)           assert_true((p) != NULL)
#define assert_int_equal(a, b)       assert_true((a) == (b))
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)
#define print_message(...)           printf(__VA_ARGS__)
#define skip()                       return

#define cmocka_run_group_tests(tests, setup, teardown) run_all(tests, sizeof(tests) / sizeof *(tests))
static inline int run_all(const struct CMUnitTest *t, size_t n) {
    for (size_t i = 0; i < n; i++) {
        t[i].run(NULL);
        printf("ok %s\n", t[i].name);
    }
    return 0;
}

#endif
