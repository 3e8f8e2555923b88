/* test_crew.c - the engine's threads: every member once, any number of them in any order, awake or asleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/crew.h"
#include "kernels/worker.h"

enum { MOST = 7 };

typedef struct {
    int calls[MOST], sizes[MOST]; /* plain numbers: the crew orders what is written in one run before what is read after it */
    team team;
    int sums[MOST];
} log_of_run;

static void note(void *user, int id, int n) {
    log_of_run *l = user;
    l->calls[id]++;
    l->sizes[id] = n;
}

static void every_member_works_once_and_all_are_done_at_the_end(void **state) {
    (void)state;
    crew *c;
    error e = {0};
    log_of_run l = {0};
    int expected[MOST] = {0};
    assert_int_equal(crew_create(&c, MOST, &e), OK);
    assert_int_equal(crew_size(c), MOST);
    for (int i = 0; i < 3000; i++) {
        int n = 1 + i * 5 % MOST;
        if (i % 500 == 499) nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* long enough that they sleep */
        crew_run(c, n, note, &l);
        for (int k = 0; k < n; k++) {
            expected[k]++;
            assert_int_equal(l.sizes[k], n);
        }
        assert_memory_equal(l.calls, expected, sizeof expected);
    }
    crew_free(c);
}

/* Each adds up what all wrote before the barrier, many times over. */
static void meet(void *user, int id, int n) {
    log_of_run *l = user;
    worker w = {.id = id, .n_workers = n, .team = &l->team};
    for (int round = 1; round <= 200; round++) {
        l->calls[id] = round * (id + 1);
        if (id == round % n && round % 100 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        worker_barrier(&w);
        int sum = 0;
        for (int k = 0; k < n; k++) sum += l->calls[k];
        l->sums[id] += sum == round * n * (n + 1) / 2;
        worker_barrier(&w);
    }
}

static void what_is_written_before_a_barrier_is_seen_after_it(void **state) {
    (void)state;
    crew *c;
    error e = {0};
    assert_int_equal(crew_create(&c, MOST, &e), OK);
    for (int n = 1; n <= MOST; n++) {
        log_of_run l = {0};
        crew_run(c, n, meet, &l);
        for (int k = 0; k < n; k++) assert_int_equal(l.sums[k], 200);
    }
    crew_free(c);
}

static void a_crew_that_never_worked_goes_home(void **state) {
    (void)state;
    crew *c;
    error e = {0};
    for (int n = 1; n <= MOST; n++) {
        assert_int_equal(crew_create(&c, n, &e), OK);
        crew_free(c);
    }
    crew_free(NULL);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static void where_the_system_gives_fewer_threads_the_crew_is_smaller(void **state) {
    (void)state;
#ifdef SANITIZED
    skip(); /* they need address space themselves */
#else
    struct rlimit before, tight;
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (40u << 20); /* some stacks of 8 MiB, not 255 */
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    crew *c = NULL;
    error e = {0};
    status st = crew_create(&c, 256, &e);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(st, OK);
    assert_in_range(crew_size(c), 1, 255);
    crew_free(c);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_works_once_and_all_are_done_at_the_end),
        cmocka_unit_test(what_is_written_before_a_barrier_is_seen_after_it),
        cmocka_unit_test(a_crew_that_never_worked_goes_home),
        cmocka_unit_test(where_the_system_gives_fewer_threads_the_crew_is_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
