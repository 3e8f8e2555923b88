/* Norms, softmax, activations, sums and conversions of every instruction set: against double, over every length of tail, and with
 * memory that ends where the row does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/dtype.h"
#include "tests/guarded.h"
#include "tests/kernel_sets.h"

enum { N_ROWS = 5, MOST = 1100 };
static const int lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 64, 100, 129, 768, 1000};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* Five rows, each at the end of its own guarded memory. */
typedef struct {
    guarded g[N_ROWS];
    float *row[N_ROWS];
    const kernel_set *sets[MOST_SETS];
    int n_sets;
    uint64_t seed;
} bench;

static bench bench_make(void) {
    bench b = {.seed = 7};
    for (int i = 0; i < N_ROWS; i++) b.g[i] = guarded_make(MOST * sizeof(float));
    b.n_sets = kernel_sets(b.sets);
    return b;
}
static void bench_free(bench *b) {
    for (int i = 0; i < N_ROWS; i++) guarded_free(&b->g[i]);
}
static void bench_fill(bench *b, int n, float size) {
    for (int i = 0; i < N_ROWS; i++) {
        b->row[i] = guarded_end(&b->g[i], (size_t)n * sizeof(float));
        for (int k = 0; k < n; k++) b->row[i][k] = random_unit(&b->seed) * size;
    }
}

static void close_to(const char *set, const char *what, int n, int i, float got, double want, double tolerance) {
    if (!(fabs((double)got - want) <= tolerance))
        fail_msg("%s %s, n %d: [%d] = %.9g, should be %.9g (within %.3g)", set, what, n, i, (double)got, want, tolerance);
}

static void norms_are_what_double_gives(void **state) {
    (void)state;
    bench b = bench_make();
    for (int l = 0; l < N_LENGTHS; l++) {
        int n = lengths[l];
        bench_fill(&b, n, 2.0f);
        const float *x = b.row[0], *gain = b.row[1], *bias = b.row[2];
        double sum = 0, squares = 0, variance = 0;
        for (int i = 0; i < n; i++) sum += (double)x[i], squares += (double)x[i] * (double)x[i];
        for (int i = 0; i < n; i++) variance += ((double)x[i] - sum / n) * ((double)x[i] - sum / n);
        double rms = 1 / sqrt(squares / n + 1e-5), deviation = 1 / sqrt(variance / n + 1e-5);
        for (int s = 0; s < b.n_sets; s++) {
            b.sets[s]->rms_norm(b.row[3], x, gain, n, 1e-5f);
            for (int i = 0; i < n; i++)
                close_to(b.sets[s]->name, "rms_norm", n, i, b.row[3][i], (double)x[i] * rms * (double)gain[i], 2e-6);
            for (int with_bias = 0; with_bias < 2; with_bias++) {
                b.sets[s]->layer_norm(b.row[3], x, gain, with_bias ? bias : NULL, n, 1e-5f);
                for (int i = 0; i < n; i++) {
                    double want = ((double)x[i] - sum / n) * deviation * (double)gain[i] + (with_bias ? (double)bias[i] : 0);
                    /* one number alone: its difference from the mean is nothing but rounding */
                    close_to(b.sets[s]->name, "layer_norm", n, i, b.row[3][i], want, 3e-6 * fmax(1, deviation));
                }
            }
        }
    }
    bench_free(&b);
}

static void softmax_is_what_double_gives(void **state) {
    (void)state;
    bench b = bench_make();
    for (int l = 0; l < N_LENGTHS; l++) {
        for (int c = 0; c < 2; c++) {
            int n = lengths[l];
            float scale = 0.125f, cap = c ? 5.0f : 0.0f;
            bench_fill(&b, n, 100.0f);
            double top = -INFINITY, sum = 0, s[MOST];
            for (int i = 0; i < n; i++) {
                s[i] = (double)b.row[0][i] * (double)scale;
                if (c) s[i] = 5 * tanh(s[i] / 5);
                top = fmax(top, s[i]);
            }
            for (int i = 0; i < n; i++) sum += exp(s[i] - top);
            for (int k = 0; k < b.n_sets; k++) {
                float got_top, got_sum;
                memcpy(b.row[1], b.row[0], (size_t)n * sizeof(float));
                b.sets[k]->softmax(b.row[1], n, scale, cap, &got_top, &got_sum);
                close_to(b.sets[k]->name, "softmax max", n, 0, got_top, top, 2e-6 * fmax(1, fabs(top)));
                close_to(b.sets[k]->name, "softmax sum", n, 0, got_sum, sum, 5e-6 * sum);
                for (int i = 0; i < n; i++)
                    close_to(b.sets[k]->name, "softmax", n, i, b.row[1][i], exp(s[i] - top) / sum,
                             3e-6 * exp(s[i] - top) / sum + 1e-10);
            }
        }
    }
    bench_free(&b);
}

static void one_nan_among_the_scores_makes_the_whole_row_nan(void **state) {
    (void)state;
    bench b = bench_make();
    for (int l = 0; l < N_LENGTHS; l++) {
        int n = lengths[l];
        for (int s = 0; s < b.n_sets; s++) {
            bench_fill(&b, n, 10.0f);
            float max, sum;
            b.row[0][random_below(&b.seed, n)] = NAN;
            b.sets[s]->softmax(b.row[0], n, 1.0f, 0.0f, &max, &sum);
            for (int i = 0; i < n; i++) assert_true(isnan(b.row[0][i]));
        }
    }
    bench_free(&b);
}

static double activation(double x, int kind) {
    switch (kind) {
    case ACT_RELU:
        return x < 0 ? 0 : x;
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_GELU_ERF:
        return x / 2 * erfc(-x / sqrt(2));
    case ACT_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case ACT_RELU2:
        return x < 0 ? 0 : x * x;
    default:
        return x / (1 + exp(-1.702 * x));
    }
}

static void activations_are_what_double_gives(void **state) {
    (void)state;
    bench b = bench_make();
    static const float sizes[] = {0.01f, 1.0f, 6.0f, 40.0f, 1e4f};
    for (int kind = ACT_RELU; kind <= ACT_GELU_QUICK; kind++) {
        for (int l = 0; l < N_LENGTHS * 5; l++) {
            int n = lengths[l / 5];
            bench_fill(&b, n, sizes[l % 5]);
            for (int s = 0; s < b.n_sets; s++) {
                for (int gated = 0; gated < 2; gated++) {
                    b.sets[s]->activate(b.row[2], b.row[0], gated ? b.row[1] : NULL, n, kind);
                    for (int i = 0; i < n; i++) {
                        double x = (double)b.row[0][i], up = gated ? (double)b.row[1][i] : 1;
                        close_to(b.sets[s]->name, "activation", n, i, b.row[2][i], activation(x, kind) * up,
                                 fabs(up) * (fabs(activation(x, kind)) * 6e-7 + 3e-7 * fmin(fabs(x), 6)) + 1e-30);
                    }
                }
            }
        }
    }
    bench_free(&b);
}

static void activations_at_the_ends_of_the_range(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    for (int s = 0; s < n_sets; s++) {
        for (int kind = ACT_RELU; kind <= ACT_GELU_QUICK; kind++) {
            float x[5] = {NAN, 0.0f, 1e30f, -1e30f, INFINITY}, y[5];
            if (kind == ACT_RELU2) x[2] = 1e18f;
            sets[s]->activate(y, x, NULL, 5, kind);
            assert_true(isnan(y[0]));
            assert_true(y[1] == 0.0f);
            assert_true(kind == ACT_RELU2 ? y[2] > 9.9e35f : y[2] == 1e30f);
            assert_true(fabsf(y[3]) <= 1e-6f);
            assert_true(isinf(y[4]) && y[4] > 0);
        }
    }
}

/* The same numbers at another place of a longer row, as a tail or not. */
static void the_bits_of_a_number_do_not_depend_on_its_place(void **state) {
    (void)state;
    bench b = bench_make();
    for (int s = 0; s < b.n_sets; s++) {
        const kernel_set *k = b.sets[s];
        for (int round = 0; round < 200; round++) {
            int n = 1 + random_below(&b.seed, 100), from = random_below(&b.seed, n), m = 1 + random_below(&b.seed, n - from);
            float y[128], z[128];
            bench_fill(&b, n, 4.0f);
            for (int kind = ACT_RELU; kind <= ACT_GELU_QUICK; kind++) {
                k->activate(y, b.row[0], b.row[1], n, kind);
                k->activate(z, b.row[0] + from, b.row[1] + from, m, kind);
                assert_memory_equal(y + from, z, (size_t)m * sizeof(float));
            }
            memcpy(y, b.row[2], (size_t)n * 4);
            memcpy(z, b.row[2] + from, (size_t)m * 4);
            k->add_scaled(y, b.row[0], 0.3f, n);
            k->add_scaled(z, b.row[0] + from, 0.3f, m);
            k->add(y, b.row[3], n);
            k->add(z, b.row[3] + from, m);
            k->merge(y, b.row[1], 0.4f, 0.6f, n);
            k->merge(z, b.row[1] + from, 0.4f, 0.6f, m);
            assert_memory_equal(y + from, z, (size_t)m * sizeof(float));
        }
    }
    bench_free(&b);
}

static void sums_of_rows_round_as_written(void **state) {
    (void)state;
    bench b = bench_make();
    for (int l = 0; l < N_LENGTHS; l++) {
        int n = lengths[l];
        for (int s = 0; s < b.n_sets; s++) {
            bench_fill(&b, n, 4.0f);
            const float *x = b.row[0], *y = b.row[1];
            float z[MOST];
            memcpy(z, y, (size_t)n * 4);
            b.sets[s]->add(z, x, n);
            for (int i = 0; i < n; i++) assert_true(z[i] == y[i] + x[i]);
            memcpy(z, y, (size_t)n * 4);
            b.sets[s]->add_scaled(z, x, 0.3f, n);
            for (int i = 0; i < n; i++) {
                volatile float product = 0.3f * x[i];
                assert_true(z[i] == y[i] + product);
            }
            memcpy(z, y, (size_t)n * 4);
            b.sets[s]->merge(z, x, 0.4f, 0.6f, n);
            for (int i = 0; i < n; i++) {
                volatile float one = y[i] * 0.4f, two = x[i] * 0.6f;
                assert_true(z[i] == one + two);
            }
        }
    }
    bench_free(&b);
}

static void every_half_is_converted_as_the_reference_does(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    guarded gh = guarded_make(65536 * 2), gf = guarded_make(65536 * 4);
    for (int s = 0; s < n_sets; s++) {
        for (size_t n = 65536 - 17; n <= 65536; n++) {
            uint16_t *h = guarded_end(&gh, n * 2);
            float *f = guarded_end(&gf, n * 4);
            for (size_t i = 0; i < n; i++) h[i] = (uint16_t)i;
            sets[s]->f16_to_f32(f, h, n);
            for (size_t i = 0; i < n; i++) {
                float want = f16_to_f32((uint16_t)i);
                assert_true(isnan(want) ? isnan(f[i]) : memcmp(&want, &f[i], 4) == 0);
            }
        }
    }
    guarded_free(&gh);
    guarded_free(&gf);
}

static void floats_are_rounded_to_halves_as_the_reference_does(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    guarded gh = guarded_make(4096), gf = guarded_make(4096);
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        size_t n = 1 + (size_t)random_below(&seed, 50);
        uint16_t *h = guarded_end(&gh, n * 2);
        float *f = guarded_end(&gf, n * 4);
        for (size_t i = 0; i < n; i++) {
            uint16_t near = (uint16_t)random_below(&seed, 65536);
            float a = f16_to_f32(near), b = f16_to_f32((uint16_t)(near + 1));
            f[i] = i % 3 == 0 ? a + (b - a) / 2 : i % 3 == 1 ? random_unit(&seed) * ldexpf(1, random_below(&seed, 60) - 30) : a;
        }
        for (int s = 0; s < n_sets; s++) {
            sets[s]->f32_to_f16(h, f, n);
            for (size_t i = 0; i < n; i++) {
                if (isnan(f[i]))
                    assert_true(isnan(f16_to_f32(h[i])));
                else
                    assert_int_equal(h[i], f32_to_f16(f[i]));
            }
        }
    }
    guarded_free(&gh);
    guarded_free(&gf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_what_double_gives),
        cmocka_unit_test(softmax_is_what_double_gives),
        cmocka_unit_test(one_nan_among_the_scores_makes_the_whole_row_nan),
        cmocka_unit_test(activations_are_what_double_gives),
        cmocka_unit_test(activations_at_the_ends_of_the_range),
        cmocka_unit_test(the_bits_of_a_number_do_not_depend_on_its_place),
        cmocka_unit_test(sums_of_rows_round_as_written),
        cmocka_unit_test(every_half_is_converted_as_the_reference_does),
        cmocka_unit_test(floats_are_rounded_to_halves_as_the_reference_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
