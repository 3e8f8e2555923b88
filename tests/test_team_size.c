/* test_team_size.c - the number of workers found by trial, with made-up times: no clock runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/team_size.h"
#include "kernels/processors.h"

/* What a step of n_rows takes on so many workers. */
typedef double (*made_time)(int n_workers, int n_rows);

static double all_scale(int n, int rows) {
    return 6e-3 * rows / n;
}
static double two_are_slower(int n, int rows) {
    return (n == 1 ? 6e-3 : 9e-3) * rows;
}
static double all_the_same(int n, int rows) {
    return 6e-3 * rows * (1 + 0.001 * n);
}
/* Memory gives what four ask for. */
static double four_are_enough(int n, int rows) {
    return 6e-3 * rows / (n < 4 ? n : 4) * (1 + 0.02 * n);
}
/* One processor is another program's half of the time, and every step waits for the slowest share. */
static double last_is_taken(int n, int rows) {
    return 6e-3 * rows / n * (n == 8 ? 2 : 1);
}
static double long_steps(int n, int rows) {
    return 1.2e-3 * rows / n;
}

typedef struct {
    int least, most; /* workers used */
    double lost;     /* seconds beyond what the best count would have taken */
    double seconds;
} outcome;

/* n steps; every one of them tells how long it took. */
static outcome run(team_size *t, made_time time, int n_rows, int n_most, int n) {
    outcome o = {.least = n_most, .most = 1};
    for (int i = 0; i < n; i++) {
        int workers = team_size_next(t, n_rows, n_most);
        assert_in_range(workers, 1, n_most);
        if (workers < o.least) o.least = workers;
        if (workers > o.most) o.most = workers;
        double fastest = time(1, n_rows), took = time(workers, n_rows);
        for (int w = 2; w <= n_most; w++) fastest = time(w, n_rows) < fastest ? time(w, n_rows) : fastest;
        o.lost += took - fastest;
        o.seconds += took;
        team_size_record(t, n_rows, n_most, took);
    }
    return o;
}

static void one_is_found_where_two_are_slower(void **state) {
    (void)state;
    team_size t = {0};
    run(&t, two_are_slower, 1, 2, 8);
    assert_int_equal(team_size_best(&t, 1, 2), 1);
    assert_true(team_size_settled(&t, 1, 2));
}

static void all_are_found_where_they_are_faster(void **state) {
    (void)state;
    for (int most = 2; most <= 256; most = most * 3 / 2) {
        team_size t = {0};
        run(&t, all_scale, 1, most, 400);
        assert_in_range(team_size_best(&t, 1, most), most < 32 ? most : most - 1, most); /* one of 32 is within a few percent */
        assert_true(team_size_settled(&t, 1, most));
    }
}

static void of_equals_the_fewest_are_kept(void **state) {
    (void)state;
    for (int most = 2; most <= 64; most *= 2) {
        team_size t = {0};
        run(&t, all_the_same, 1, most, 400);
        assert_int_equal(team_size_best(&t, 1, most), 1);
    }
}

static void a_count_between_is_found(void **state) {
    (void)state;
    team_size t = {0};
    run(&t, four_are_enough, 1, 16, 400);
    assert_int_equal(team_size_best(&t, 1, 16), 4);
    team_size u = {0};
    run(&u, last_is_taken, 1, 8, 400);
    assert_int_equal(team_size_best(&u, 1, 8), 7);
}

static void a_step_without_work_for_two_never_wakes_a_second(void **state) {
    (void)state;
    team_size t = {0}, untouched = {0};
    outcome o = run(&t, all_scale, 1, 1, 1000);
    assert_int_equal(o.most, 1);
    assert_memory_equal(&t, &untouched, sizeof t);
    /* Nor does it where the same class had work for more before. */
    run(&t, all_scale, 1, 8, 200);
    assert_int_equal(run(&t, all_scale, 1, 1, 1000).most, 1);
}

static void a_processor_that_goes_away_is_noticed_and_its_return_too(void **state) {
    (void)state;
    team_size t = {0};
    run(&t, all_scale, 1, 2, 1000);
    assert_int_equal(team_size_best(&t, 1, 2), 2);
    run(&t, two_are_slower, 1, 2, 16); /* three times as slow as it was: looked at at once */
    assert_int_equal(team_size_best(&t, 1, 2), 1);
    run(&t, two_are_slower, 1, 2, 5000);
    assert_int_equal(team_size_best(&t, 1, 2), 1);
    run(&t, all_scale, 1, 2, 600);
    assert_int_equal(team_size_best(&t, 1, 2), 2);
}

static void trials_lose_little_of_the_time(void **state) {
    (void)state;
    const made_time times[] = {all_scale, two_are_slower, all_the_same, four_are_enough, last_is_taken};
    for (int k = 0; k < 5; k++) {
        for (int most = 2; most <= 32; most *= 2) {
            team_size t = {0};
            run(&t, times[k], 1, most, 1000);
            outcome o = run(&t, times[k], 1, most, 20000);
            if (o.lost > (1.0 / 64 + 0.03 + 0.01) * o.seconds) /* for trials; for a tie; for what was begun */
                fail_msg("times %d, %d workers: %g of %g s lost", k, most, o.lost, o.seconds);
        }
    }
}

static void a_step_that_was_held_up_decides_nothing(void **state) {
    (void)state;
    team_size t = {0};
    for (int i = 0; i < 5000; i++) {
        int n = team_size_next(&t, 1, 2);
        double took = all_scale(n, 1);
        team_size_record(&t, 1, 2, i % 8 == 3 ? 20 * took : took);
    }
    assert_int_equal(team_size_best(&t, 1, 2), 2);
}

static void a_long_prompt_is_not_read_slowly_to_find_out(void **state) {
    (void)state;
    team_size t = {0};
    outcome o = run(&t, long_steps, 512, 2, 16); /* 0.3 seconds each */
    assert_int_equal(o.least, 2);
    assert_true(team_size_settled(&t, 512, 2));
}

static void sizes_of_steps_are_found_apart(void **state) {
    (void)state;
    team_size t = {0};
    for (int i = 0; i < 400; i++) {
        run(&t, two_are_slower, 1, 2, 1);
        run(&t, all_scale, 2, 2, 1);
        run(&t, two_are_slower, 16, 2, 1);
        run(&t, all_scale, 64, 2, 1);
    }
    assert_int_equal(team_size_best(&t, 1, 2), 1);
    assert_int_equal(team_size_best(&t, 2, 2), 2);
    assert_int_equal(team_size_best(&t, 16, 2), 1);
    assert_int_equal(team_size_best(&t, 64, 2), 2);
}

static void steps_of_every_size_have_a_class(void **state) {
    (void)state;
    team_size t = {0};
    for (int rows = 1; rows <= 65536; rows = rows * 9 / 8 + 1) run(&t, all_scale, rows, 3, 3);
    for (int rows = 1; rows <= 65536; rows++) assert_in_range(team_size_next(&t, rows, 3), 1, 3);
    for (int most = 256; most >= 1; most--) { /* the work in a class is not quite the same */
        run(&t, four_are_enough, 1, most, 5);
        assert_in_range(team_size_best(&t, 1, most), 1, most);
    }
}

static void a_quota_is_read_as_processors(void **state) {
    (void)state;
    assert_int_equal(processors_of_quota("max 100000"), 0);
    assert_int_equal(processors_of_quota("200000 100000"), 2);
    assert_int_equal(processors_of_quota("150000 100000\n"), 2);
    assert_int_equal(processors_of_quota("1000 100000"), 1);
    assert_int_equal(processors_of_quota(""), 0);
    assert_int_equal(processors_of_quota("-1 100000"), 0);
    assert_int_equal(processors_of_quota("5 0"), 0);
    assert_int_equal(processors_of_quota("9223372036854775807 1"), 0);
    assert_true(processors_usable() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_found_where_two_are_slower),
        cmocka_unit_test(all_are_found_where_they_are_faster),
        cmocka_unit_test(of_equals_the_fewest_are_kept),
        cmocka_unit_test(a_count_between_is_found),
        cmocka_unit_test(a_step_without_work_for_two_never_wakes_a_second),
        cmocka_unit_test(a_processor_that_goes_away_is_noticed_and_its_return_too),
        cmocka_unit_test(trials_lose_little_of_the_time),
        cmocka_unit_test(a_step_that_was_held_up_decides_nothing),
        cmocka_unit_test(a_long_prompt_is_not_read_slowly_to_find_out),
        cmocka_unit_test(sizes_of_steps_are_found_apart),
        cmocka_unit_test(steps_of_every_size_have_a_class),
        cmocka_unit_test(a_quota_is_read_as_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
