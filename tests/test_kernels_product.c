/* Panel products of every instruction set: against sums in double, and against themselves over every way to cut the work.
 * All operands end at a guard page. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/dtype.h"
#include "tests/guarded.h"
#include "tests/kernel_sets.h"

typedef enum { F32, F16, I8, N_KINDS } kind;
static const size_t elem_bytes[N_KINDS] = {4, 2, 1};

/* x [n_t][n_k]; w as [n_k][width] (rows) or as panels of 16 outputs [n_k][16]; y [n_t][width + 3]: the last three must stay. */
typedef struct {
    guarded gx, gw, gy;
    kind kind;
    bool panels;
    int n_t, n_k, width;
    float *x, *y;
    unsigned char *w;
} problem;

enum { Y_MARGIN = 3 };

static void weight_put(unsigned char *w, kind k, size_t at, float v) {
    uint16_t h = f32_to_f16(v);
    int8_t q = (int8_t)lrintf(v * 127.0f);
    memcpy(w + at * elem_bytes[k], k == F32 ? (const void *)&v : k == F16 ? (const void *)&h : (const void *)&q, elem_bytes[k]);
}
static double weight_get(const unsigned char *w, kind k, size_t at) {
    float v;
    uint16_t h;
    if (k == F32) return memcpy(&v, w + at * 4, 4), (double)v;
    if (k == F16) return memcpy(&h, w + at * 2, 2), (double)f16_to_f32(h);
    return (double)(int8_t)w[at];
}
/* Where w(k, output j) lies. Only whole panels are laid out as panels. */
static size_t weight_at(const problem *p, int k, int j) {
    if (p->panels) return (size_t)(j / 16) * 16 * (size_t)p->n_k + (size_t)k * 16 + (size_t)(j % 16);
    return (size_t)k * (size_t)p->width + (size_t)j;
}

static problem problem_make(size_t most) {
    return (problem){.gx = guarded_make(most * 4), .gw = guarded_make(most * 4), .gy = guarded_make(most * 4)};
}
static void problem_free(problem *p) {
    guarded_free(&p->gx);
    guarded_free(&p->gw);
    guarded_free(&p->gy);
}

static void problem_fill(problem *p, uint64_t *seed) {
    size_t nx = (size_t)p->n_t * (size_t)p->n_k, nw = (size_t)p->n_k * (size_t)p->width;
    p->x = guarded_end(&p->gx, nx * 4);
    p->w = guarded_end(&p->gw, nw * elem_bytes[p->kind]);
    for (size_t i = 0; i < nx; i++) p->x[i] = random_unit(seed);
    for (size_t i = 0; i < nw; i++) weight_put(p->w, p->kind, i, random_unit(seed));
    p->y = guarded_end(&p->gy, ((size_t)p->n_t * (size_t)(p->width + Y_MARGIN) - Y_MARGIN) * 4);
}

static panel_product whole(const problem *p) {
    return (panel_product){.y = p->y,
                           .ldy = (size_t)(p->width + Y_MARGIN),
                           .x = p->x,
                           .ldx = (size_t)p->n_k,
                           .w = p->w,
                           .k_stride = p->panels ? 16 : (size_t)p->width,
                           .chunk_stride = p->panels ? 16 * (size_t)p->n_k : 16,
                           .n_t = p->n_t,
                           .n_k = p->n_k,
                           .width = p->width};
}

static void run(const kernel_set *s, kind k, const panel_product *p) {
    (k == F32 ? s->product_f32 : k == F16 ? s->product_f16 : s->product_i8)(p);
}

static void check_against_double(const problem *p, const char *name) {
    for (int t = 0; t < p->n_t; t++) {
        for (int j = 0; j < p->width; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < p->n_k; k++) {
                double term =
                    (double)p->x[(size_t)t * (size_t)p->n_k + (size_t)k] * weight_get(p->w, p->kind, weight_at(p, k, j));
                sum += term;
                size += fabs(term);
            }
            double y = (double)p->y[(size_t)t * (size_t)(p->width + Y_MARGIN) + (size_t)j];
            if (!(fabs(y - sum) <= (double)(p->n_k + 1) * 0x1p-24 * size)) {
                fail_msg("%s kind %d: y[%d][%d] = %.9g, should be %.9g (n_t %d, n_k %d, width %d, panels %d)", name, p->kind, t,
                         j, y, sum, p->n_t, p->n_k, p->width, p->panels);
            }
        }
    }
}

static void margins_set(const problem *p) {
    for (int t = 0; t + 1 < p->n_t; t++)
        for (int j = 0; j < Y_MARGIN; j++) p->y[(size_t)t * (size_t)(p->width + Y_MARGIN) + (size_t)(p->width + j)] = 42.0f;
}
static void margins_check(const problem *p) {
    for (int t = 0; t + 1 < p->n_t; t++)
        for (int j = 0; j < Y_MARGIN; j++)
            assert_true(p->y[(size_t)t * (size_t)(p->width + Y_MARGIN) + (size_t)(p->width + j)] == 42.0f);
}

static void random_shape(problem *p, uint64_t *seed) {
    static const int ks[] = {1, 2, 7, 16, 33, 64, 100, 255, 256, 257, 300, 530},
                     widths[] = {1, 5, 8, 15, 16, 17, 31, 32, 48, 63, 64, 65, 80, 100, 112, 128, 131, 144, 200};
    p->kind = (kind)random_below(seed, N_KINDS);
    p->n_t = 1 + random_below(seed, random_below(seed, 2) ? 7 : 40);
    p->n_k = ks[random_below(seed, sizeof ks / sizeof *ks)];
    p->width = widths[random_below(seed, sizeof widths / sizeof *widths)];
    p->panels = p->width % 16 == 0 && random_below(seed, 2);
    problem_fill(p, seed);
}

enum { MOST_FLOATS = 256 * 1024, N_ROUNDS = 250 };

static void products_are_the_sums_that_double_gives_and_touch_nothing_else(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make(MOST_FLOATS);
    uint64_t seed = 1;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_shape(&p, &seed);
        for (int s = 0; s < n_sets; s++) {
            panel_product all = whole(&p);
            margins_set(&p);
            run(sets[s], p.kind, &all);
            check_against_double(&p, sets[s]->name);
            margins_check(&p);
        }
    }
    problem_free(&p);
}

/* The same product in pieces: some rows, some whole chunks of outputs, some of k. */
static void run_in_pieces(const kernel_set *s, const problem *p, uint64_t *seed) {
    panel_product all = whole(p);
    for (int t = 0, n_t; t < p->n_t; t += n_t) {
        n_t = 1 + random_below(seed, p->n_t - t);
        for (int j = 0, width; j < p->width; j += width) {
            width = 16 * (1 + random_below(seed, (p->width - j + 15) / 16));
            if (width > p->width - j) width = p->width - j;
            for (int k = 0, n_k; k < p->n_k; k += n_k) {
                n_k = 1 + random_below(seed, p->n_k - k);
                panel_product part = all;
                part.y += (size_t)t * all.ldy + (size_t)j;
                part.x += (size_t)t * all.ldx + (size_t)k;
                part.w = p->w + weight_at(p, k, j) * elem_bytes[p->kind];
                part.n_t = n_t, part.n_k = n_k, part.width = width, part.more = k > 0;
                run(s, p->kind, &part);
            }
        }
    }
}

static void bits_do_not_depend_on_rows_width_or_where_a_sum_is_cut(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make(MOST_FLOATS);
    float *first = malloc(MOST_FLOATS * sizeof *first);
    assert_non_null(first);
    uint64_t seed = 2;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_shape(&p, &seed);
        size_t bytes = ((size_t)p.n_t * (size_t)(p.width + Y_MARGIN) - Y_MARGIN) * 4;
        for (int s = 0; s < n_sets; s++) {
            panel_product all = whole(&p);
            memset(p.y, 0, bytes);
            run(sets[s], p.kind, &all);
            memcpy(first, p.y, bytes);
            memset(p.y, 0, bytes);
            run_in_pieces(sets[s], &p, &seed);
            assert_memory_equal(first, p.y, bytes);
        }
    }
    free(first);
    problem_free(&p);
}

/* Chunks, and then segments of k, each in a place of its own: the same bits as side by side. */
static void pieces_that_lie_apart_give_the_same_bits(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make(MOST_FLOATS);
    float *first = malloc(MOST_FLOATS * sizeof *first);
    const void *pieces[600];
    assert_non_null(first);
    uint64_t seed = 9;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_shape(&p, &seed);
        size_t bytes = ((size_t)p.n_t * (size_t)(p.width + Y_MARGIN) - Y_MARGIN) * 4;
        for (int s = 0; s < n_sets; s++) {
            panel_product all = whole(&p);
            memset(p.y, 0, bytes);
            run(sets[s], p.kind, &all);
            memcpy(first, p.y, bytes);
            memset(p.y, 0, bytes);
            panel_product apart = all;
            for (int c = 0; c * 16 < p.width; c++) pieces[c] = p.w + weight_at(&p, 0, c * 16) * elem_bytes[p.kind];
            apart.w = NULL, apart.chunk_stride = 0, apart.chunks = pieces;
            run(sets[s], p.kind, &apart);
            assert_memory_equal(first, p.y, bytes);
            memset(p.y, 0, bytes);
            apart = all;
            apart.segment_k = 1 + random_below(&seed, p.n_k);
            for (int k = 0, i = 0; k < p.n_k; k += apart.segment_k)
                pieces[i++] = p.w + weight_at(&p, k, 0) * elem_bytes[p.kind];
            apart.w = NULL, apart.segments = pieces;
            run(sets[s], p.kind, &apart);
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
    problem p = problem_make(MOST_FLOATS);
    float *first = malloc(MOST_FLOATS * sizeof *first);
    assert_non_null(first);
    uint64_t seed = 3;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_shape(&p, &seed);
        size_t bytes = ((size_t)p.n_t * (size_t)(p.width + Y_MARGIN) - Y_MARGIN) * 4;
        for (int s = 0; s < n_sets - 1; s++) {
            panel_product all = whole(&p);
            memset(p.y, 0, bytes);
            run(sets[s], p.kind, &all);
            if (s == 0) memcpy(first, p.y, bytes);
            assert_memory_equal(first, p.y, bytes);
        }
    }
    free(first);
    problem_free(&p);
}

static void a_nan_or_an_infinity_among_the_weights_reaches_its_output_and_no_other(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    problem p = problem_make(MOST_FLOATS);
    uint64_t seed = 4;
    for (int round = 0; round < N_ROUNDS; round++) {
        random_shape(&p, &seed);
        if (p.kind == I8) continue;
        int bad_k = random_below(&seed, p.n_k), bad_j = random_below(&seed, p.width), infinite = random_below(&seed, 2);
        weight_put(p.w, p.kind, weight_at(&p, bad_k, bad_j), infinite ? INFINITY : NAN);
        for (int s = 0; s < n_sets; s++) {
            panel_product all = whole(&p);
            run(sets[s], p.kind, &all);
            for (int t = 0; t < p.n_t; t++)
                for (int j = 0; j < p.width; j++) {
                    float y = p.y[(size_t)t * all.ldy + (size_t)j];
                    if (j != bad_j)
                        assert_true(isfinite(y));
                    else
                        assert_true(infinite ? !isfinite(y) : isnan(y));
                }
        }
    }
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_the_sums_that_double_gives_and_touch_nothing_else),
        cmocka_unit_test(bits_do_not_depend_on_rows_width_or_where_a_sum_is_cut),
        cmocka_unit_test(pieces_that_lie_apart_give_the_same_bits),
        cmocka_unit_test(sets_with_fused_multiply_adds_give_the_same_bits),
        cmocka_unit_test(a_nan_or_an_infinity_among_the_weights_reaches_its_output_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
