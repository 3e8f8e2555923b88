/* Element types: what the bytes of each type mean, against formulas in double and against another implementation's values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

/* IEEE 754's definition of binary16, finite values. */
static double half_value(unsigned h) {
    int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void every_f16_reads_as_the_formula_says_and_writes_back(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float x = f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            if (h & 1023)
                assert_true(isnan(x));
            else
                assert_true(isinf(x) && (x < 0) == (h >> 15));
        } else {
            assert_true((double)x == half_value(h));
            assert_int_equal(signbit(x) != 0, h >> 15);
        }
        unsigned back = f32_to_f16(x);
        if (isnan(x))
            assert_int_equal(back, h | 0x200); /* quiet, the rest of the payload kept */
        else
            assert_int_equal(back, h);
    }
}

static void f16_rounds_to_nearest_and_halves_to_even(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) { /* between h and its neighbour; 2^16 stands in for infinity */
        double low = half_value(h), high = h == 0x7bff ? 65536 : half_value(h + 1);
        float middle = (float)((low + high) / 2); /* exact: one bit more than f16 has */
        for (int negative = 0; negative < 2; negative++) {
            float sign = negative ? -1 : 1;
            unsigned bit = negative ? 0x8000 : 0;
            assert_int_equal(f32_to_f16(sign * nextafterf(middle, 0)), bit | h);
            assert_int_equal(f32_to_f16(sign * nextafterf(middle, INFINITY)), bit | (h + 1));
            assert_int_equal(f32_to_f16(sign * middle), bit | (h + (h & 1)));
        }
    }
    assert_int_equal(f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1p-149f), 0);
    assert_int_equal(f32_to_f16(-0x1p-149f), 0x8000);
}

static void f16_overflow_starts_where_rounding_gives_infinity(void **state) {
    (void)state;
    assert_false(f16_overflows(65504));
    assert_false(f16_overflows(nextafterf(65520, 0)));
    assert_true(f16_overflows(65520));
    assert_true(f16_overflows(-70000));
    assert_false(f16_overflows(INFINITY));
    assert_false(f16_overflows(NAN));
}

/* Every exponent and a few fractions, more numbers than one counter's run; the formulas are those of the format's limits. */
static void numbers_that_fp16_cannot_hold_are_counted(void **state) {
    (void)state;
    enum { EACH = 24, N = 512 * EACH };
    static float x[N];
    uint64_t over = 5, under = 7, want_over = 5, want_under = 7;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t fraction = i % EACH, bits = (i / EACH) << 23 | (fraction < 12 ? fraction : 0x800000 - (fraction - 11) * 0x800);
        memcpy(&x[i], &bits, sizeof bits);
        want_over += isfinite(x[i]) && fabs((double)x[i]) >= 65520.0;
        want_under += x[i] != 0 && fabs((double)x[i]) <= 0x1p-25;
    }
    f16_count_misfits(x, N, &over, &under);
    assert_true(want_over > 1000 && want_under > 1000);
    assert_int_equal(over, want_over);
    assert_int_equal(under, want_under);
}

static void bf16_is_the_upper_half_of_an_f32(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        int exponent = (int)(h >> 7 & 255), fraction = (int)(h & 127);
        float x = bf16_to_f32((uint16_t)h);
        if (exponent == 255) {
            assert_true(fraction ? isnan(x) : isinf(x));
            continue;
        }
        double magnitude = exponent == 0 ? ldexp(fraction, -133) : ldexp(128 + fraction, exponent - 134);
        assert_true((double)x == (h >> 15 ? -magnitude : magnitude));
    }
    uint16_t two[2] = {0x4789, 0x7e96};
    float out[2];
    dtype_info(DTYPE_BF16)->decode(out, two, 2);
    assert_true(out[0] == 70144.0f && out[1] > 9.9e37f && out[1] < 1.001e38f);
}

static void unaligned_numbers_of_every_plain_type_are_read(void **state) {
    (void)state;
    const double values[3] = {0.5, -3, 1e-3};
    uint8_t bytes[1 + sizeof values];
    float out[3];
    memcpy(bytes + 1, values, sizeof values);
    dtype_info(DTYPE_F64)->decode(out, bytes + 1, 3);
    for (int i = 0; i < 3; i++) assert_true(out[i] == (float)values[i]);
    const float in[3] = {0.5f, -3, 65504};
    const dtype plain[2] = {DTYPE_F32, DTYPE_F16};
    for (int k = 0; k < 2; k++) {
        dtype_info(plain[k])->encode(bytes + 1, in, 3);
        dtype_info(plain[k])->decode(out, bytes + 1, 3);
        for (int i = 0; i < 3; i++) assert_true(out[i] == in[i]);
    }
}

static void rows_are_sized_in_whole_blocks(void **state) {
    (void)state;
    size_t bytes;
    assert_true(dtype_row_bytes(DTYPE_Q8_0, 33, &bytes));
    assert_int_equal(bytes, 68);
    assert_true(dtype_row_bytes(DTYPE_Q6_K, 512, &bytes));
    assert_int_equal(bytes, 420);
    assert_true(dtype_row_bytes(DTYPE_F64, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(dtype_row_bytes(DTYPE_F64, SIZE_MAX / 8 + 1, &bytes));
    assert_int_equal(dtype_by_name("q4_k"), DTYPE_Q4_K);
    assert_int_equal(dtype_by_name("Q4"), N_DTYPES);
}

static void q8_0_reads_d_times_q(void **state) {
    (void)state;
    block_q8_0 b = {.d = 0x3800, .q = {-128, 127, 0}}; /* d = 0.5 */
    float out[3];
    dtype_info(DTYPE_Q8_0)->decode(out, &b, 3);
    assert_true(out[0] == -64.0f && out[1] == 63.5f && out[2] == 0.0f);
}

static void q8_0_writes_max_over_127_and_rounds_halves_away_from_zero(void **state) {
    (void)state;
    float x[40] = {127, 0.5f, -0.5f, 1.5f, 2.49f, -127, 126.5f}; /* d = 1: q is x rounded */
    x[39] = -254;                                                /* second block: d = 2 */
    x[32] = 3;
    block_q8_0 b[2];
    dtype_info(DTYPE_Q8_0)->encode(b, x, 40);
    const int expected[8] = {127, 1, -1, 2, 2, -127, 127, 0};
    assert_int_equal(b[0].d, 0x3c00);
    for (int i = 0; i < 8; i++) assert_int_equal(b[0].q[i], expected[i]);
    assert_int_equal(b[1].d, 0x4000);
    assert_int_equal(b[1].q[0], 2);
    assert_int_equal(b[1].q[7], -127);
    for (int i = 8; i < 32; i++) assert_int_equal(b[1].q[i], 0);
}

static void q8_0_of_zeros_tiny_and_non_finite_rows_is_defined(void **state) {
    (void)state;
    float x[32] = {0}, out[32];
    block_q8_0 b;
    dtype_info(DTYPE_Q8_0)->encode(&b, x, 32);
    assert_int_equal(b.d, 0);
    x[3] = 1e-40f; /* 1/d is infinite */
    dtype_info(DTYPE_Q8_0)->encode(&b, x, 32);
    dtype_info(DTYPE_Q8_0)->decode(out, &b, 32);
    for (int i = 0; i < 32; i++) assert_true(out[i] == 0);
    const float bad[3] = {INFINITY, -INFINITY, NAN};
    for (int k = 0; k < 3; k++) {
        x[31] = bad[k];
        dtype_info(DTYPE_Q8_0)->encode(&b, x, 32);
        dtype_info(DTYPE_Q8_0)->decode(out, &b, 32);
        assert_true(isnan(out[0]) && isnan(out[31]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_reads_as_the_formula_says_and_writes_back),
        cmocka_unit_test(f16_rounds_to_nearest_and_halves_to_even),
        cmocka_unit_test(f16_overflow_starts_where_rounding_gives_infinity),
        cmocka_unit_test(numbers_that_fp16_cannot_hold_are_counted),
        cmocka_unit_test(bf16_is_the_upper_half_of_an_f32),
        cmocka_unit_test(unaligned_numbers_of_every_plain_type_are_read),
        cmocka_unit_test(rows_are_sized_in_whole_blocks),
        cmocka_unit_test(q8_0_reads_d_times_q),
        cmocka_unit_test(q8_0_writes_max_over_127_and_rounds_halves_away_from_zero),
        cmocka_unit_test(q8_0_of_zeros_tiny_and_non_finite_rows_is_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
