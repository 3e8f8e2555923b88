/* linear(): the bits of a row do not depend on how many rows come with it, on packing, or on threads' shares, on either side of every
 * place where linear.c or a kernel set changes its way (tiles, conversion ahead, AMX, slices of columns). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/linear.h"
#include "tests/kernel_sets.h"

enum {
    N_ROWS_W = 150,
    N_COLS = 1100,
    MOST_ROWS = 131
}; /* 9 panels and one of 6; more columns than a slice of decoded panels */
static const dtype storages[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
static const int row_counts[] = {1, 2, 5, 6, 7, 12, 13, 15, 16, 17, 31, 33, 127, 128, MOST_ROWS};

typedef struct {
    matrix rows, packed;
    void *data, *panels;
} stored;

static stored store(dtype type, uint64_t *seed) {
    stored s = {
        .rows = {
            .type = type, .n_rows = N_ROWS_W, .n_cols = N_COLS, .flops_term = TERM_FLOPS_FFN, .bytes_term = TERM_BYTES_FFN}};
    assert_true(matrix_row_bytes(type, 0, N_COLS, &s.rows.row_bytes));
    s.data = malloc(matrix_bytes(&s.rows));
    s.panels = malloc(matrix_bytes(&s.rows));
    assert_non_null(s.data);
    assert_non_null(s.panels);
    for (int r = 0; r < N_ROWS_W; r++) {
        float row[N_COLS];
        for (int k = 0; k < N_COLS; k++) row[k] = random_unit(seed);
        dtype_info(type)->encode((unsigned char *)s.data + (size_t)r * s.rows.row_bytes, row, N_COLS);
    }
    s.rows.data = s.data;
    s.packed = s.rows;
    s.packed.packed = true;
    s.packed.data = s.panels;
    for (int p = 0; p < matrix_n_panels(&s.rows); p++) {
        size_t at = (size_t)p * PANEL_ROWS * s.rows.row_bytes;
        panel_pack((unsigned char *)s.panels + at, type, 0, matrix_panel_width(&s.rows, p), N_COLS,
                   (unsigned char *)s.data + at, s.rows.row_bytes, NULL, 0);
    }
    return s;
}

typedef struct {
    linear_mode mode;
    team team;
    worker w;
} runner;

static runner runner_make(const kernel_set *set, bool int8) {
    size_t blocks = (size_t)MOST_ROWS * ((N_COLS + 31) / 32);
    runner r = {.mode = {.int8_activations = int8}, .w = {.n_workers = 1, .kernels = set}};
    r.mode.quantised = (q8_rows){.q = malloc(blocks * 32), .scale = malloc(blocks * 4), .sum = malloc(blocks * 4)};
    r.w.scratch_bytes = (linear_scratch_bytes(MOST_ROWS) + 63) / 64 * 64;
    r.w.scratch = aligned_alloc(64, r.w.scratch_bytes);
    assert_true(r.mode.quantised.q != NULL && r.mode.quantised.scale != NULL && r.mode.quantised.sum != NULL &&
                r.w.scratch != NULL);
    return r;
}
static void runner_free(runner *r) {
    free(r->mode.quantised.q);
    free(r->mode.quantised.scale);
    free(r->mode.quantised.sum);
    free(r->w.scratch);
}

static void run(runner *r, float *y, const matrix *m, const float *x, int n_rows) {
    memset(y, 0xff, (size_t)n_rows * N_ROWS_W * sizeof *y);
    r->w.team = &r->team;
    linear(&(linear_output){m, y, 0}, 1, x, n_rows, &r->mode, &r->w);
}

static void a_row_has_the_same_bits_alone_and_among_any_number_packed_or_not(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    uint64_t seed = 11;
    float *x = malloc(sizeof(float) * MOST_ROWS * N_COLS), *y = malloc(sizeof(float) * MOST_ROWS * N_ROWS_W),
          *alone = malloc(sizeof(float) * MOST_ROWS * N_ROWS_W);
    assert_true(x != NULL && y != NULL && alone != NULL);
    for (int i = 0; i < MOST_ROWS * N_COLS; i++) x[i] = random_unit(&seed);
    for (size_t t = 0; t < sizeof storages / sizeof *storages; t++) {
        stored m = store(storages[t], &seed);
        for (int s = 0; s < n_sets; s++) {
            for (int int8 = 0; int8 < 2; int8++) {
                runner r = runner_make(sets[s], int8 == 1);
                for (int i = 0; i < MOST_ROWS; i++) run(&r, alone + (size_t)i * N_ROWS_W, &m.packed, x + (size_t)i * N_COLS, 1);
                for (size_t c = 0; c < 2 * sizeof row_counts / sizeof *row_counts; c++) {
                    int n = row_counts[c / 2];
                    run(&r, y, c % 2 ? &m.rows : &m.packed, x, n);
                    if (memcmp(y, alone, (size_t)n * N_ROWS_W * sizeof *y) != 0)
                        fail_msg("%s, %s, int8 %d, %d rows, packed %d: other bits than alone", dtype_info(storages[t])->name,
                                 sets[s]->name, int8, n, c % 2 == 0);
                }
                runner_free(&r);
            }
        }
        free(m.data);
        free(m.panels);
    }
    free(x);
    free(y);
    free(alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_has_the_same_bits_alone_and_among_any_number_packed_or_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
