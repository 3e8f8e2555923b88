/* test_storage.c - weights in every storage: matrix products against each type's plain dot, bit by bit, and against double within bounds
 * that are derived here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/linear.h"
#include "kernels/storage.h"
#include "tests/kernel_sets.h"

/* A matrix in one storage, packed and as rows. */
typedef struct {
    matrix rows, packed;
    unsigned char *raw; /* [n_rows][row_bytes], as matrix_row_raw has them */
    float *values;      /* [n_rows][n_cols], what was stored, before rounding */
} stored;

typedef struct {
    dtype type;
    int group;
} storage_case;
static const storage_case cases[] = {{DTYPE_F32, 0}, {DTYPE_F16, 0}, {DTYPE_Q8_0, 0}, {DTYPE_I8G, 4}, {DTYPE_I8G, 64}};
enum { N_CASES = sizeof cases / sizeof *cases };

static void *room(size_t n) {
    void *p = calloc(n > 0 ? n : 1, 1);
    assert_non_null(p);
    return p;
}

/* int8 groups, as llama2.c writes them: scale = max|x| / 127. */
static void encode_i8g(unsigned char *row, const float *x, int n, int group) {
    for (int k = 0; k < n; k += group) {
        int m = n - k < group ? n - k : group;
        float top = 0;
        for (int i = 0; i < m; i++) top = fmaxf(top, fabsf(x[k + i]));
        float scale = top / 127.0f;
        memcpy(row + n + (size_t)(k / group) * sizeof scale, &scale, sizeof scale);
        for (int i = 0; i < m; i++) row[k + i] = (unsigned char)(int8_t)lrintf(scale > 0 ? x[k + i] / scale : 0);
    }
}

/* Stores values, which it takes over. */
static stored store(storage_case c, int n_rows, int n_cols, float *values) {
    size_t row_bytes;
    assert_true(matrix_row_bytes(c.type, c.group, (size_t)n_cols, &row_bytes));
    stored s = {.values = values, .raw = room((size_t)n_rows * row_bytes)};
    s.rows = (matrix){.type = c.type,
                      .group = c.group,
                      .n_rows = n_rows,
                      .n_cols = n_cols,
                      .row_bytes = row_bytes,
                      .flops_term = TERM_FLOPS_FFN,
                      .bytes_term = TERM_BYTES_FFN};
    size_t scale_bytes = c.group > 0 ? row_bytes - (size_t)n_cols : 0, data_bytes = row_bytes - scale_bytes;
    unsigned char *data = room((size_t)n_rows * row_bytes), *scales = data + (size_t)n_rows * data_bytes;
    for (int r = 0; r < n_rows; r++) {
        unsigned char *raw = s.raw + (size_t)r * row_bytes;
        const float *x = values + (size_t)r * (size_t)n_cols;
        if (c.group > 0) {
            encode_i8g(raw, x, n_cols, c.group);
        } else {
            dtype_info(c.type)->encode(raw, x, (size_t)n_cols);
        }
        memcpy(data + (size_t)r * data_bytes, raw, data_bytes);
        memcpy(scales + (size_t)r * scale_bytes, raw + data_bytes, scale_bytes);
    }
    s.rows.data = data;
    if (c.group > 0) s.rows.scales = scales;
    s.packed = s.rows;
    s.packed.packed = true;
    s.packed.scales = NULL;
    unsigned char *panels = room((size_t)n_rows * row_bytes);
    for (int p = 0; p < matrix_n_panels(&s.rows); p++) {
        size_t first = (size_t)p * PANEL_ROWS;
        panel_pack(panels + first * row_bytes, c.type, c.group, matrix_panel_width(&s.rows, p), n_cols,
                   data + first * data_bytes, data_bytes, (const float *)(const void *)(scales + first * scale_bytes),
                   scale_bytes / sizeof(float));
    }
    s.packed.data = panels;
    return s;
}

static void store_free(stored *s) {
    free((void *)(uintptr_t)s->rows.data);
    free((void *)(uintptr_t)s->packed.data);
    free(s->raw);
    free(s->values);
}

/* y = x W^T by one worker. */
static void multiply(float *y, const matrix *w, const float *x, int n_t, bool int8, const kernel_set *set) {
    size_t blocks = (size_t)n_t * (((size_t)w->n_cols + 31) / 32);
    team t = {0};
    worker me = {.n_workers = 1, .team = &t, .kernels = set, .scratch_bytes = linear_scratch_bytes(n_t)};
    linear_mode mode = {.int8_activations = int8,
                        .quantised = {.q = room(blocks * 32), .scale = room(blocks * 4), .sum = room(blocks * 4)}};
    me.scratch = aligned_alloc(64, (me.scratch_bytes + 63) / 64 * 64);
    assert_non_null(me.scratch);
    linear(&(linear_output){w, y, 0}, 1, x, n_t, &mode, &me);
    assert_int_equal(me.meter.counts.n[TERM_BYTES_FFN], matrix_bytes(w)); /* once, whatever n_t */
    assert_int_equal(me.meter.counts.n[TERM_FLOPS_FFN], 2ull * (unsigned)n_t * (unsigned)w->n_rows * (unsigned)w->n_cols);
    free(me.scratch);
    free(mode.quantised.q);
    free(mode.quantised.scale);
    free(mode.quantised.sum);
}

static float *random_values(size_t n, uint64_t *seed) {
    float *x = room(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = random_unit(seed) * 3;
    return x;
}

static void every_type_that_weights_are_stored_in_has_its_row_whole(void **state) {
    (void)state;
    int n = 0;
    for (int t = 0; t < N_DTYPES; t++) {
        const storage_traits *s = dtype_info((dtype)t)->storage;
        size_t bytes;
        assert_int_equal(matrix_row_bytes((dtype)t, s != NULL && s->row_bytes != NULL ? 4 : 0, 40, &bytes), s != NULL);
        if (s == NULL) continue;
        n++;
        assert_non_null(s->pack);
        assert_non_null(s->unpack);
        assert_non_null(s->row);
        assert_non_null(s->decode);
        assert_non_null(s->dot);
        if (dtype_info((dtype)t)->encode == NULL) assert_non_null(s->row_bytes);
    }
    assert_int_equal(n, 4);
}

/* The portable products add in the order that `dot` states; mapped rows and panels, few rows of x and many, are the same bits. */
static void products_have_the_bits_of_the_plain_dot(void **state) {
    (void)state;
    static const int n_cols[] = {8, 12, 64, 172, 2500}, n_rows[] = {1, 7, 16, 17, 83}, n_ts[] = {1, 7, 20};
    uint64_t seed = 3;
    for (int i = 0; i < 2 * N_CASES * 5; i++) {
        storage_case c = cases[i % N_CASES];
        int cols = n_cols[i / N_CASES % 5], rows = n_rows[(i + i / N_CASES) % 5], n_t = n_ts[i % 3];
        stored s = store(c, rows, cols, random_values((size_t)rows * (size_t)cols, &seed));
        float *x = random_values((size_t)n_t * (size_t)cols, &seed), *decoded = room((size_t)cols * sizeof *decoded);
        float *y = room((size_t)n_t * (size_t)rows * sizeof *y), *z = room((size_t)n_t * (size_t)rows * sizeof *y);
        for (int int8 = 0; int8 < (c.type == DTYPE_Q8_0 ? 2 : 1); int8++) {
            multiply(y, &s.packed, x, n_t, int8 == 1, &kernels_portable);
            multiply(z, &s.rows, x, n_t, int8 == 1, &kernels_portable);
            assert_memory_equal(y, z, (size_t)n_t * (size_t)rows * sizeof *y);
            for (int r = 0; r < rows; r++) {
                const unsigned char *raw = s.raw + (size_t)r * s.rows.row_bytes;
                matrix_row_f32(decoded, &s.packed, r);
                for (int t = 0; t < n_t; t++) {
                    const float *xt = x + (size_t)t * (size_t)cols;
                    /* Q8_0 with fp32 activations: the weights as fp32, and their dot. */
                    float want = c.type == DTYPE_Q8_0 && int8 == 0
                                     ? dtype_info(DTYPE_F32)->storage->dot(decoded, xt, (size_t)cols, 0)
                                     : dtype_info(c.type)->storage->dot(raw, xt, (size_t)cols, (size_t)c.group);
                    assert_memory_equal(&y[(size_t)t * (size_t)rows + (size_t)r], &want, sizeof want);
                }
            }
        }
        store_free(&s);
        free(x), free(y), free(z), free(decoded);
    }
}

static void mapped_rows_and_panels_give_the_same_bits_in_every_set(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    uint64_t seed = 5;
    for (int i = 0; i < n_sets * N_CASES; i++) {
        storage_case c = cases[i % N_CASES];
        enum { ROWS = 83, COLS = 2500, MOST = 20 };
        stored s = store(c, ROWS, COLS, random_values((size_t)ROWS * COLS, &seed));
        float *x = random_values((size_t)MOST * COLS, &seed);
        float y[MOST * ROWS], z[MOST * ROWS];
        for (int int8 = 0; int8 < 2; int8++) {
            multiply(y, &s.packed, x, MOST, int8 == 1, sets[i / N_CASES]);
            multiply(z, &s.rows, x, MOST, int8 == 1, sets[i / N_CASES]);
            assert_memory_equal(y, z, sizeof y);
            for (int t = 0; t < MOST; t += 7) { /* a row alone, as decode takes it */
                multiply(z, &s.rows, x + (size_t)t * COLS, 1, int8 == 1, sets[i / N_CASES]);
                assert_memory_equal(y + t * ROWS, z, ROWS * sizeof *z);
            }
        }
        store_free(&s);
        free(x);
    }
}

/* ---- a sum of 4,096 terms of mixed sign ----
 *
 * u = 2^-24. In a chain of fp32 additions each term is rounded once as a product and at most n - 1 times as part of a sum, so
 * (Higham 2002, 3.1)   |computed - sum w x| <= gamma(n) sum |w x|,   gamma(m) = m u / (1 - m u).   An FMA rounds less often.
 *
 * w is what is stored. Then:
 *   fp32, fp16              gamma(n)          converting fp16 is exact
 *   int8, fp32 activations  gamma(n + 1)      scale * q is rounded once
 *   int8 x int8             sums of a block are exact integers (at most 32 * 127 * 128 < 2^24); scale * scale, their product with the sum,
 *                           and one addition a block are rounded: gamma(n/32 + 2) sum |w x'|, x' the quantised activations; and
 *                           |x - x'| <= s/2 (1 + 2^-20), s = max|x| / 127 of the block: the rounding of q, and of x * (127 / max)
 *
 * Against what was given to be stored (v), |v - w|:
 *   fp16                    2^-11 |v| (normal numbers), or 2^-25
 *   int8 (d = max|v| / 127) d/2 for the rounding of q, and 127 |d - d16| <= 127 * 2^-11 d for that of d to fp16; llama2.c's fp32 d: d/2 */
enum { TERMS = 4096 };
static double gamma_of(double m) {
    return m * 0x1p-24 / (1 - m * 0x1p-24);
}

typedef struct {
    double stored, given; /* sums, in double, of what is stored and of what was given */
    double bound_stored, bound_given;
} expectation;

static double quantised_bound(const float *x, const float *w, bool int8) {
    double bound = 0, magnitude = 0;
    for (int k = 0; k < TERMS; k += 32) {
        double top = 0, weights = 0;
        for (int i = k; i < k + 32; i++) top = fmax(top, fabs((double)x[i]));
        for (int i = k; i < k + 32; i++) weights += fabs((double)w[i]);
        bound += top / 127 / 2 * (1 + 0x1p-20) * weights;
        for (int i = k; i < k + 32; i++) magnitude += fabs((double)w[i]) * (fabs((double)x[i]) + top / 127 / 2);
    }
    return int8 ? bound + gamma_of(TERMS / 32 + 2) * magnitude : 0;
}

static double storage_error(storage_case c, const float *v, int k) {
    if (c.type == DTYPE_F32) return 0;
    if (c.type == DTYPE_F16) return fmax(0x1p-11 * fabs((double)v[k]), 0x1p-25);
    int block = c.type == DTYPE_I8G ? c.group : 32;
    double top = 0;
    for (int i = k / block * block; i < (k / block + 1) * block; i++) top = fmax(top, fabs((double)v[i]));
    return top / 127 * (0.5 + 1e-4 + (c.type == DTYPE_Q8_0 ? 127 * 0x1p-11 : 0));
}

static expectation expect(storage_case c, const float *given, const float *w, const float *x, bool int8) {
    expectation e = {0};
    double magnitude = 0, lost = 0;
    for (int k = 0; k < TERMS; k++) {
        e.stored += (double)w[k] * (double)x[k];
        e.given += (double)given[k] * (double)x[k];
        magnitude += fabs((double)w[k] * (double)x[k]);
        lost += storage_error(c, given, k) * fabs((double)x[k]);
    }
    bool decoded = c.type == DTYPE_Q8_0 || c.type == DTYPE_I8G;
    e.bound_stored = int8 ? quantised_bound(x, w, true) : gamma_of(TERMS + decoded) * magnitude;
    e.bound_given = e.bound_stored + lost;
    return e;
}

/* Terms of mixed sign; `cancel`: each followed, 2,048 terms later, by its opposite, so that nothing is left of large sums but rounding. */
static void fill_terms(float *w, float *x, bool cancel, uint64_t *seed) {
    for (int k = 0; k < TERMS; k++) {
        w[k] = random_unit(seed);
        x[k] = random_unit(seed) * (k % 5 == 0 ? 40.0f : 1.0f);
        if (!cancel) continue;
        w[k] = k < TERMS / 2 ? 0.5f + fabsf(w[k]) / 2 : w[k - TERMS / 2];
        x[k] = k < TERMS / 2 ? 0.5f + fabsf(x[k]) : -x[k - TERMS / 2];
    }
}

static void a_sum_of_4096_terms_of_mixed_sign_is_within_its_derived_bound(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    uint64_t seed = 9;
    for (int i = 0; i < N_CASES * 2; i++) {
        storage_case c = cases[i / 2];
        enum { ROWS = 19 };
        float *given = room((size_t)ROWS * TERMS * sizeof *given), *x = room(TERMS * sizeof *x), w[TERMS], y[ROWS];
        for (int r = 0; r < ROWS; r++) fill_terms(given + (size_t)r * TERMS, x, i % 2 == 1, &seed);
        if (i % 2 == 1) { /* x was made anew with each row: all rows the last one's, so that all cancel */
            for (int r = 0; r < ROWS - 1; r++)
                memcpy(given + (size_t)r * TERMS, given + (size_t)(ROWS - 1) * TERMS, TERMS * sizeof *x);
        }
        stored s = store(c, ROWS, TERMS, given);
        for (int set = 0; set < n_sets; set++) {
            for (int int8 = 0; int8 < (c.type == DTYPE_Q8_0 ? 2 : 1); int8++) {
                double worst = 0;
                multiply(y, &s.packed, x, 1, int8 == 1, sets[set]);
                for (int r = 0; r < ROWS; r++) {
                    matrix_row_f32(w, &s.packed, r);
                    expectation e = expect(c, given + (size_t)r * TERMS, w, x, int8 == 1);
                    assert_true(fabs((double)y[r] - e.stored) <= e.bound_stored);
                    assert_true(fabs((double)y[r] - e.given) <= e.bound_given);
                    worst = fmax(worst, fabs((double)y[r] - e.stored));
                }
                if (i % 2 == 0) assert_true(worst > 0); /* it is fp32 that adds, not double */
            }
        }
        store_free(&s);
        free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_that_weights_are_stored_in_has_its_row_whole),
        cmocka_unit_test(products_have_the_bits_of_the_plain_dot),
        cmocka_unit_test(mapped_rows_and_panels_give_the_same_bits_in_every_set),
        cmocka_unit_test(a_sum_of_4096_terms_of_mixed_sign_is_within_its_derived_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
