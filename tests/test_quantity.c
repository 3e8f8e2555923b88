/* Numbers for people: exact ones, rounded ones, and the two families of units, which never mix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tools/options.h"
#include "tools/quantity.h"

static void exact_numbers_have_separators(void **state) {
    (void)state;
    assert_string_equal(format_exact(0).text, "0");
    assert_string_equal(format_exact(999).text, "999");
    assert_string_equal(format_exact(1000).text, "1,000");
    assert_string_equal(format_exact(102415).text, "102,415");
    assert_string_equal(format_exact(18446744073709551615u).text, "18,446,744,073,709,551,615");
}

static void inputs_keep_the_form_that_people_write(void **state) {
    (void)state;
    assert_string_equal(format_input(7e9).text, "7e9");
    assert_string_equal(format_input(1.97e14).text, "1.97e14");
    assert_string_equal(format_input(4000).text, "4,000");
    assert_string_equal(format_input(0.4).text, "0.4");
    assert_string_equal(format_input(2).text, "2");
    assert_string_equal(format_input(102415).text, "102,415");
    assert_string_equal(format_input(1.0625).text, "1.0625");
}

static void bytes_have_binary_or_decimal_units(void **state) {
    (void)state;
    assert_string_equal(format_rounded(524288, UNIT_BYTES, UNITS_BINARY).text, "512 KiB");
    assert_string_equal(format_rounded(524288, UNIT_BYTES, UNITS_DECIMAL).text, "524.29 kB");
    assert_string_equal(format_rounded(2097152000, UNIT_BYTES, UNITS_BINARY).text, "1.95 GiB");
    assert_string_equal(format_rounded(4194304000, UNIT_BYTES, UNITS_DECIMAL).text, "4.19 GB");
    assert_string_equal(format_rounded(1023, UNIT_BYTES, UNITS_BINARY).text, "1,023 bytes");
    assert_string_equal(format_rounded(1000, UNIT_BYTES, UNITS_DECIMAL).text, "1 kB");
}

static void other_units_are_decimal(void **state) {
    (void)state;
    assert_string_equal(format_rounded(0.0181943, UNIT_SECONDS, UNITS_BINARY).text, "18.19 ms");
    assert_string_equal(format_rounded(0.28, UNIT_SECONDS, UNITS_BINARY).text, "280 ms");
    assert_string_equal(format_rounded(1.5e-5, UNIT_SECONDS, UNITS_BINARY).text, "15 us");
    assert_string_equal(format_rounded(90, UNIT_SECONDS, UNITS_BINARY).text, "90 s");
    assert_string_equal(format_rounded(7200, UNIT_SECONDS, UNITS_BINARY).text, "2 hours");
    assert_string_equal(format_rounded(864000, UNIT_SECONDS, UNITS_BINARY).text, "10 days");
    assert_string_equal(format_rounded(0, UNIT_SECONDS, UNITS_BINARY).text, "0 s");
    assert_string_equal(format_rounded(52231650000.0, UNIT_FLOPS, UNITS_BINARY).text, "52.23 GFLOP");
    assert_string_equal(format_rounded(3.65e25, UNIT_FLOPS, UNITS_BINARY).text, "3.65e25 FLOP");
    assert_string_equal(format_rounded(1e12, UNIT_BYTES_PER_SECOND, UNITS_DECIMAL).text, "1 TB/s");
    assert_string_equal(format_rounded(14 / 0.14, UNIT_COUNT, UNITS_BINARY).text, "100");
    assert_string_equal(format_rounded(0.0001234, UNIT_COUNT, UNITS_BINARY).text, "0.000123");
}

static void sizes_are_read_in_both_families(void **state) {
    (void)state;
    uint64_t n = 0;
    assert_true(parse_size("24GiB", &n) && n == 25769803776);
    assert_true(parse_size("80e9", &n) && n == 80000000000);
    assert_true(parse_size("16kB", &n) && n == 16000);
    assert_true(parse_size("1.5MiB", &n) && n == 1572864);
    assert_true(parse_size("12B", &n) && n == 12);
    static const char *const bad[] = {"", "GiB", "-1", "1KB", "1 GiB", "1gib", "nan", "inf", "1e30", "12x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse_size(bad[i], &n)) fail_msg("'%s' was read as a size", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_numbers_have_separators),      cmocka_unit_test(inputs_keep_the_form_that_people_write),
        cmocka_unit_test(bytes_have_binary_or_decimal_units), cmocka_unit_test(other_units_are_decimal),
        cmocka_unit_test(sizes_are_read_in_both_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
