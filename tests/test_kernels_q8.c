/* int8 products and the quantising of activations, in every instruction set: exact sums, scales in order, nothing read past an end. */
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

/* w: Q8_0 panels of 16 rows, or one panel of fewer. y: [n_t][width]. */
typedef struct {
    guarded gq, gscale, gsum, gw, gy;
    int n_t, n_blocks, width, lanes;
    int8_t *q;
    float *scale, *y;
    int32_t *sum;
    unsigned char *w;
} problem;

enum { ROOM = 1 << 20, N_ROUNDS = 150 };

static problem problem_make(void) {
    return (problem){.gq = guarded_make(ROOM),
                     .gscale = guarded_make(ROOM),
                     .gsum = guarded_make(ROOM),
                     .gw = guarded_make(ROOM),
                     .gy = guarded_make(ROOM)};
}
static void problem_free(problem *p) {
    guarded *all[] = {&p->gq, &p->gscale, &p->gsum, &p->gw, &p->gy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guarded_free(all[i]);
}

static size_t scale_at(const problem *p, int row, int block) {
    size_t panel = (size_t)(row / 16) * 16 * 34 * (size_t)p->n_blocks;
    return panel + (size_t)block * 34 * (size_t)p->lanes + 2 * (size_t)(row % 16);
}
static size_t weight_at(const problem *p, int row, int block, int k) {
    size_t panel = (size_t)(row / 16) * 16 * 34 * (size_t)p->n_blocks;
    return panel + (size_t)(block * 34 + 2) * (size_t)p->lanes + (size_t)(k / 4 * p->lanes + row % 16) * 4 + (size_t)(k % 4);
}

static void random_problem(problem *p, uint64_t *seed) {
    static const int widths[] = {1, 5, 11, 15, 16, 32, 48, 64, 80, 128, 144};
    p->n_t = 1 + random_below(seed, random_below(seed, 2) ? 5 : 50);
    p->n_blocks = 1 + random_below(seed, 12);
    p->width = widths[random_below(seed, sizeof widths / sizeof *widths)];
    p->lanes = p->width < 16 ? p->width : 16;
    size_t n = (size_t)p->n_t * (size_t)p->n_blocks, nw = (size_t)p->width * (size_t)p->n_blocks * 34;
    p->q = guarded_end(&p->gq, n * 32);
    p->scale = guarded_end(&p->gscale, n * 4);
    p->sum = guarded_end(&p->gsum, n * 4);
    p->w = guarded_end(&p->gw, nw);
    p->y = guarded_end(&p->gy, (size_t)p->n_t * (size_t)p->width * 4);
    bool extreme = random_below(seed, 3) == 0; /* the corners, where sums of 16 bits would overflow */
    for (size_t i = 0; i < n; i++) {
        p->scale[i] = random_unit(seed);
        p->sum[i] = 0;
        for (int k = 0; k < 32; k++) {
            int v = extreme ? (random_below(seed, 2) ? 127 : -127) : random_below(seed, 255) - 127;
            p->q[i * 32 + (size_t)k] = (int8_t)v;
            p->sum[i] += v;
        }
    }
    for (size_t i = 0; i < nw; i++)
        p->w[i] = (unsigned char)(extreme ? (random_below(seed, 2) ? 128 : 127) : random_below(seed, 256));
    for (int r = 0; r < p->width; r++) {
        for (int b = 0; b < p->n_blocks; b++) {
            uint16_t h = f32_to_f16(random_unit(seed));
            memcpy(p->w + scale_at(p, r, b), &h, sizeof h);
        }
    }
}

static q8_product whole(const problem *p) {
    return (q8_product){.y = p->y,
                        .ldy = (size_t)p->width,
                        .q = p->q,
                        .scale = p->scale,
                        .sum = p->sum,
                        .q_stride = (size_t)p->n_blocks * 32,
                        .scale_stride = (size_t)p->n_blocks,
                        .w = p->w,
                        .panel_stride = (size_t)p->n_blocks * 34 * 16,
                        .n_t = p->n_t,
                        .n_blocks = p->n_blocks,
                        .width = p->width};
}

static void int8_products_are_what_double_gives(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make();
    uint64_t seed = 1;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_problem(&p, &seed);
        for (int s = 0; s < n_sets; s++) {
            q8_product all = whole(&p);
            sets[s]->product_q8(&all);
            for (int t = 0; t < p.n_t; t++)
                for (int r = 0; r < p.width; r++) {
                    double y = 0, size = 0;
                    for (int b = 0; b < p.n_blocks; b++) {
                        uint16_t h;
                        memcpy(&h, p.w + scale_at(&p, r, b), sizeof h);
                        size_t at = (size_t)(t * p.n_blocks + b);
                        int sum = 0;
                        for (int k = 0; k < 32; k++) sum += p.q[at * 32 + (size_t)k] * (int8_t)p.w[weight_at(&p, r, b, k)];
                        double term = (double)sum * (double)f16_to_f32(h) * (double)p.scale[at];
                        y += term;
                        size += fabs(term);
                    }
                    double got = (double)p.y[(size_t)t * all.ldy + (size_t)r];
                    if (!(fabs(got - y) <= (double)(p.n_blocks + 2) * 0x1p-24 * size))
                        fail_msg("%s: y[%d][%d] = %.9g, should be %.9g (n_t %d, blocks %d, width %d)", sets[s]->name, t, r, got,
                                 y, p.n_t, p.n_blocks, p.width);
                }
        }
    }
    problem_free(&p);
}

static void bits_do_not_depend_on_rows_panels_or_where_a_sum_is_cut(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make();
    float *first = malloc(ROOM);
    assert_non_null(first);
    uint64_t seed = 2;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_problem(&p, &seed);
        size_t bytes = (size_t)p.n_t * (size_t)p.width * 4;
        for (int s = 0; s < n_sets; s++) {
            q8_product all = whole(&p);
            sets[s]->product_q8(&all);
            memcpy(first, p.y, bytes);
            memset(p.y, 0, bytes);
            for (int t = 0, n_t; t < p.n_t; t += n_t) {
                n_t = 1 + random_below(&seed, p.n_t - t);
                for (int r = 0, width; r < p.width; r += width) {
                    width = 16 * (1 + random_below(&seed, (p.width - r + 15) / 16));
                    if (width > p.width - r) width = p.width - r;
                    for (int b = 0, n; b < p.n_blocks; b += n) {
                        n = 1 + random_below(&seed, p.n_blocks - b);
                        q8_product part = all;
                        size_t at = (size_t)(t * p.n_blocks + b);
                        part.y += (size_t)t * all.ldy + (size_t)r;
                        part.q += at * 32, part.scale += at, part.sum += at;
                        part.w = p.w + scale_at(&p, r, b);
                        part.n_t = n_t, part.n_blocks = n, part.width = width, part.more = b > 0;
                        sets[s]->product_q8(&part);
                    }
                }
            }
            assert_memory_equal(first, p.y, bytes);
        }
    }
    free(first);
    problem_free(&p);
}

static void sets_with_fused_multiply_adds_give_the_same_bits(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    if (n_sets < 3) {
        print_message("SKIP: only one set with fused multiply-adds here\n");
        skip();
    }
    problem p = problem_make();
    float *first = malloc(ROOM);
    assert_non_null(first);
    uint64_t seed = 6;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_problem(&p, &seed);
        size_t bytes = (size_t)p.n_t * (size_t)p.width * 4;
        for (int s = 0; s < n_sets - 1; s++) {
            q8_product all = whole(&p);
            sets[s]->product_q8(&all);
            if (s == 0) memcpy(first, p.y, bytes);
            assert_memory_equal(first, p.y, bytes);
        }
    }
    free(first);
    problem_free(&p);
}

/* x of 1 to 100 numbers that ends at the guard; q, scale and sum have no room to spare. */
static void a_block_is_quantised_to_its_largest_number_over_127(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    guarded gx = guarded_make(4096), gq = guarded_make(4096);
    uint64_t seed = 3;
    for (int n = 1; n <= 100; n++) {
        int n_blocks = (n + 31) / 32;
        float *x = guarded_end(&gx, (size_t)n * 4), scale[4];
        int8_t *q = guarded_end(&gq, (size_t)n_blocks * 32);
        int32_t sum[4];
        float size = ldexpf(1.0f, random_below(&seed, 60) - 30);
        for (int i = 0; i < n; i++) x[i] = random_unit(&seed) * size;
        for (int s = 0; s < n_sets; s++) {
            memset(q, 99, (size_t)n_blocks * 32);
            sets[s]->quantise(q, scale, sum, x, n);
            for (int b = 0; b < n_blocks; b++) {
                double top = 0;
                int total = 0;
                for (int i = b * 32; i < n && i < b * 32 + 32; i++) top = fmax(top, fabs((double)x[i]));
                assert_true(fabs((double)scale[b] - top / 127) <= top * 0x1p-30);
                for (int i = b * 32; i < b * 32 + 32; i++) {
                    double v = i < n ? (double)x[i] / top * 127 : 0;
                    if (!(fabs(q[i] - v) <= 0.5 + 1e-4)) fail_msg("%s: q[%d] = %d, should be %.6f", sets[s]->name, i, q[i], v);
                    total += q[i];
                }
                assert_int_equal(sum[b], total);
            }
        }
    }
    guarded_free(&gx);
    guarded_free(&gq);
}

static void the_largest_number_of_a_block_always_becomes_127(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    uint64_t seed = 4;
    for (int round = 0; round < 5000; round++) {
        float x[32], scale;
        int8_t q[32];
        int32_t sum;
        for (int i = 0; i < 32; i++) x[i] = random_unit(&seed) * 0.9f;
        x[5] = round % 2 ? 1.0f + 0.5f * random_unit(&seed) : -1.0f - 0.5f * random_unit(&seed);
        x[5] += x[5] > 0 ? 0.5f : -0.5f;
        for (int s = 0; s < n_sets; s++) {
            sets[s]->quantise(q, &scale, &sum, x, 32);
            assert_int_equal(q[5], x[5] > 0 ? 127 : -127);
        }
    }
}

static void numbers_that_are_not_finite_make_the_scale_nan(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int s = 0; s < n_sets; s++) {
        for (int i = 0; i < 40; i++) {
            float x[40], scale[2];
            int8_t q[64];
            int32_t sum[2];
            for (int k = 0; k < 40; k++) x[k] = 1.0f;
            x[i] = bad[i % 3];
            sets[s]->quantise(q, scale, sum, x, 40);
            assert_true(isnan(scale[i / 32]));
            assert_true(isfinite(scale[1 - i / 32]));
        }
        float tiny[32] = {1e-44f, -1e-42f}, zero[32] = {0}, scale;
        int8_t q[32];
        int32_t sum;
        sets[s]->quantise(q, &scale, &sum, zero, 32);
        assert_true(scale == 0.0f && sum == 0 && q[0] == 0);
        sets[s]->quantise(q, &scale, &sum, tiny, 32);
        assert_true(isfinite(scale));
        for (int i = 0; i < 32; i++) assert_true(q[i] >= -127);
    }
}

/* Both layouts, any number of k, with nothing before or after what was given. */
static void int8_panels_become_scaled_floats_rounded_once(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    guarded gin = guarded_make(8192), gout = guarded_make(8192);
    uint64_t seed = 8;
    for (int n_k = 1; n_k <= 70; n_k++) {
        for (int words = 0; words < 2; words++) {
            size_t bytes = (size_t)(words ? (n_k + 3) / 4 * 4 : n_k) * 16;
            int8_t *q = guarded_end(&gin, bytes);
            float *out = guarded_end(&gout, (size_t)n_k * 16 * sizeof(float)), scale[16];
            for (size_t i = 0; i < bytes; i++) q[i] = (int8_t)(random_below(&seed, 256) - 128);
            for (int r = 0; r < 16; r++) scale[r] = random_unit(&seed);
            for (int s = 0; s < n_sets; s++) {
                sets[s]->int8_scaled(out, q, scale, n_k, words != 0);
                for (int k = 0; k < n_k; k++)
                    for (int r = 0; r < 16; r++) {
                        int v = words ? q[(k / 4 * 16 + r) * 4 + k % 4] : q[k * 16 + r];
                        assert_true(out[k * 16 + r] == (float)((double)scale[r] * (double)v));
                    }
            }
        }
    }
    guarded_free(&gin);
    guarded_free(&gout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_products_are_what_double_gives),
        cmocka_unit_test(bits_do_not_depend_on_rows_panels_or_where_a_sum_is_cut),
        cmocka_unit_test(sets_with_fused_multiply_adds_give_the_same_bits),
        cmocka_unit_test(int8_panels_become_scaled_floats_rounded_once),
        cmocka_unit_test(a_block_is_quantised_to_its_largest_number_over_127),
        cmocka_unit_test(the_largest_number_of_a_block_always_becomes_127),
        cmocka_unit_test(numbers_that_are_not_finite_make_the_scale_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
