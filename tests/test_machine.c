/* What was measured is kept and found again; which level a working set is read from. The figures themselves are not tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/machine.h"

static machine example(void) {
    machine m = {.cpu = "Example CPU @ 1/2 GHz", .n_threads = 2, .date = "2026-01-02T03:04:05Z"};
    m.l1 = 32 << 10, m.l2 = 1 << 20, m.l3 = 16 << 20;
    const machine_probe probes[] = {
        {"read", "L1", 1, 100, 9, 8, 10},    {"read", "L2", 1, 100, 7, 7, 7},        {"read", "L3", 1, 100, 5, 5, 5},
        {"read", "memory", 1, 100, 3, 3, 3}, {"read", "L1", 2, 200, 18, 17.5, 18.3}, {"read", "L2", 2, 200, 14, 14, 14},
        {"read", "memory", 2, 200, 6, 6, 6}, {"fma", "portable", 2, 0, 10, 10, 10},  {"fma", "avx2", 2, 0, 20, 20, 20},
    };
    m.n = sizeof probes / sizeof *probes;
    memcpy(m.probes, probes, sizeof probes);
    return m;
}

static void a_measurement_survives_json(void **state) {
    (void)state;
    machine m = example(), back;
    error e;
    json_t *o = machine_json(&m);
    assert_non_null(o);
    assert_int_equal(machine_from_json(&back, o, &e), OK);
    assert_string_equal(back.cpu, m.cpu);
    assert_int_equal(back.n, m.n);
    for (size_t i = 0; i < m.n; i++) {
        assert_string_equal(back.probes[i].what, m.probes[i].what);
        assert_true(back.probes[i].median == m.probes[i].median);
        assert_int_equal(back.probes[i].n_threads, m.probes[i].n_threads);
    }
    json_decref(o);
}

static void a_damaged_measurement_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"version\":2,\"cpu\":\"x\",\"n_threads\":1,\"date\":\"d\",\"l1_bytes\":1,\"l2_bytes\":1,\"l3_bytes\":1,\"probes\":[]"
        "}",
        "{\"version\":2,\"cpu\":\"x\",\"n_threads\":1,\"date\":\"d\",\"l1_bytes\":1,\"l2_bytes\":1,\"l3_bytes\":1,\"probes\":[{"
        "\"kind\":"
        "\"readreadread\"}]}",
        "{\"version\":2,\"cpu\":\"x\",\"n_threads\":1,\"date\":\"d\",\"l1_bytes\":1,\"l2_bytes\":1,\"l3_bytes\":1,\"probes\":[{"
        "\"kind\":"
        "\"read\",\"what\":\"L1\","
        "\"n_threads\":1,\"bytes\":1,\"median\":0,\"low\":0,\"high\":0}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        machine m;
        error e;
        json_t *o = json_loads(texts[i], 0, NULL);
        assert_non_null(o);
        assert_int_not_equal(machine_from_json(&m, o, &e), OK);
        json_decref(o);
    }
}

/* What an older program measured by other loops is not what this one would. */
static void an_older_measurement_is_refused(void **state) {
    (void)state;
    machine m = example(), back;
    error e;
    json_t *o = machine_json(&m);
    json_object_set_new(o, "version", json_integer(1));
    assert_int_not_equal(machine_from_json(&back, o, &e), OK);
    json_object_del(o, "version");
    assert_int_not_equal(machine_from_json(&back, o, &e), OK);
    json_decref(o);
}

static void a_spread_above_five_percent_is_uncalibrated(void **state) {
    (void)state;
    machine m = example();
    assert_false(machine_calibrated(&m.probes[0])); /* 2 in 9 */
    assert_true(machine_calibrated(&m.probes[4]));  /* 0.8 in 18 */
}

static void a_working_set_is_read_from_the_level_that_holds_it(void **state) {
    (void)state;
    machine m = example();
    assert_string_equal(machine_read_of(&m, 30e3, 1)->what, "L1");
    assert_string_equal(machine_read_of(&m, 60e3, 1)->what, "L2");
    assert_string_equal(machine_read_of(&m, 60e3, 2)->what, "L1");
    assert_string_equal(machine_read_of(&m, 3e6, 1)->what, "L3");
    assert_string_equal(machine_read_of(&m, 3e9, 2)->what, "memory");
    assert_true(machine_read_of(&m, 3e9, 2)->median == 6);
    assert_string_equal(machine_find(&m, "fma", NULL, 2)->what, "avx2");
    assert_string_equal(machine_find(&m, "fma", "portable", 1)->what, "portable");
    assert_null(machine_find(&m, "sgemm", NULL, 1));
}

static void a_quick_measurement_is_positive_kept_and_found(void **state) {
    (void)state;
    char folder[] = "/tmp/tally-machine-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    machine m, back;
    error e;
    assert_int_not_equal(machine_cached(&back, &e), OK);
    assert_int_equal(machine_measure(&m, true, NULL, &e), OK);
    for (size_t i = 0; i < m.n; i++) assert_true(m.probes[i].low > 0 && m.probes[i].low <= m.probes[i].high);
    assert_non_null(machine_find(&m, "read", "memory", 1));
    assert_non_null(machine_find(&m, "fma", "portable", 1));
    machine_keep(&m);
    assert_int_equal(machine_cached(&back, &e), OK);
    assert_true(back.cached);
    assert_int_equal(back.n, m.n);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measurement_survives_json),
        cmocka_unit_test(a_damaged_measurement_is_refused),
        cmocka_unit_test(an_older_measurement_is_refused),
        cmocka_unit_test(a_spread_above_five_percent_is_uncalibrated),
        cmocka_unit_test(a_working_set_is_read_from_the_level_that_holds_it),
        cmocka_unit_test(a_quick_measurement_is_positive_kept_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
