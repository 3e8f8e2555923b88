/* The byte layouts of matrix.h, checked address by address, and rows taken out again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/matrix.h"

static const struct {
    dtype type;
    int group;
} storage[] = {{DTYPE_F32, 0}, {DTYPE_F16, 0}, {DTYPE_Q8_0, 0}, {DTYPE_I8G, 4}, {DTYPE_I8G, 7}, {DTYPE_I8G, 64}};
enum { N_STORAGE = sizeof storage / sizeof *storage };

static const int rows_of[] = {1, 15, 16, 17, 48}, cols_of[] = {1, 31, 32, 33, 64, 100};

/* Random bytes are as good as any weights for moving them about; the odd offset stands for a mapped file. */
static unsigned char *random_bytes(size_t n, unsigned seed) {
    unsigned char *p = malloc(n + 1);
    assert_non_null(p);
    for (size_t i = 0; i < n + 1; i++) p[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    return p;
}

static matrix rows_matrix(dtype type, int group, int n_rows, int n_cols, const void *data, const void *scales) {
    matrix w = {.type = type, .group = group, .n_rows = n_rows, .n_cols = n_cols, .data = data, .scales = scales};
    assert_true(matrix_row_bytes(type, group, (size_t)n_cols, &w.row_bytes));
    return w;
}

/* Packs all panels of w into one new array. */
static unsigned char *pack_all(const matrix *w) {
    unsigned char *out = malloc(matrix_bytes(w));
    assert_non_null(out);
    size_t stride = w->type == DTYPE_I8G ? (size_t)w->n_cols : w->row_bytes;
    size_t n_scales = w->type == DTYPE_I8G ? (w->row_bytes - stride) / sizeof(float) : 0;
    for (int p = 0; p < matrix_n_panels(w); p++) {
        size_t first = (size_t)p * PANEL_ROWS;
        panel_pack(out + first * w->row_bytes, w->type, w->group, matrix_panel_width(w, p), w->n_cols,
                   (const unsigned char *)w->data + first * stride, stride,
                   n_scales ? (const float *)w->scales + first * n_scales : NULL, n_scales);
    }
    return out;
}

static void a_row_comes_out_of_the_panels_as_it_went_in(void **state) {
    (void)state;
    for (int s = 0; s < N_STORAGE; s++)
        for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++)
            for (size_t j = 0; j < sizeof cols_of / sizeof *cols_of; j++) {
                size_t n_scales = (size_t)(cols_of[j] / 4 + 1) * (size_t)rows_of[i];
                unsigned char *bytes = random_bytes((size_t)rows_of[i] * 4 * ((size_t)cols_of[j] + 34), 7);
                unsigned char *scales = random_bytes(n_scales * sizeof(float), 11);
                matrix rows = rows_matrix(storage[s].type, storage[s].group, rows_of[i], cols_of[j], bytes + 1, scales);
                matrix packed = rows;
                unsigned char *panels = pack_all(&rows), a[1024], b[1024];
                packed.packed = true, packed.data = panels;
                for (int r = 0; r < rows.n_rows; r++) {
                    matrix_row_raw(a, &rows, r);
                    matrix_row_raw(b, &packed, r);
                    assert_memory_equal(a, b, rows.row_bytes);
                    if (rows.type != DTYPE_I8G) assert_memory_equal(a, bytes + 1 + (size_t)r * rows.row_bytes, rows.row_bytes);
                }
                free(panels), free(bytes), free(scales);
            }
}

/* Element (r, k) of a panel of w rows lies at k * w + r. */
static void fp32_and_fp16_elements_lie_at_k_times_width_plus_row(void **state) {
    (void)state;
    enum {
        ROWS = 19,
        COLS = 45
    }; /* in fp32 two cache lines, three times 16 bytes, and one column more; in fp16 half of that */
    uint32_t words[ROWS][COLS];
    uint16_t halves[ROWS][COLS];
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < COLS; k++) words[r][k] = halves[r][k] = (uint16_t)(r * 100 + k);
    matrix w4 = rows_matrix(DTYPE_F32, 0, ROWS, COLS, words, NULL), w2 = rows_matrix(DTYPE_F16, 0, ROWS, COLS, halves, NULL);
    unsigned char *p4 = pack_all(&w4), *p2 = pack_all(&w2);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < COLS; k++) {
            size_t at = r < 16 ? (size_t)(k * 16 + r) : (size_t)(16 * COLS + k * 3 + (r - 16));
            assert_memory_equal(p4 + 4 * at, &words[r][k], 4);
            assert_memory_equal(p2 + 2 * at, &halves[r][k], 2);
        }
    free(p4), free(p2);
}

/* A block of w rows: w scales of 2 bytes, then 8 groups of w words of 4 int8. */
static void q8_0_blocks_hold_scales_and_then_words_of_four(void **state) {
    (void)state;
    enum { ROWS = 18, BLOCKS = 2 };
    unsigned char *bytes = random_bytes(ROWS * BLOCKS * 34, 3);
    matrix w = rows_matrix(DTYPE_Q8_0, 0, ROWS, 32 * BLOCKS, bytes, NULL);
    unsigned char *panels = pack_all(&w);
    for (int r = 0; r < ROWS; r++)
        for (int b = 0; b < BLOCKS; b++) {
            const unsigned char *file = bytes + (r * BLOCKS + b) * 34;
            int width = r < 16 ? 16 : 2, lane = r % 16;
            const unsigned char *block = panels + (r < 16 ? 0 : 16 * BLOCKS * 34) + b * 34 * width;
            assert_memory_equal(block + 2 * lane, file, 2);
            for (int k = 0; k < 32; k++)
                assert_int_equal(block[2 * width + (k / 4) * 4 * width + 4 * lane + k % 4], file[2 + k]);
        }
    free(panels), free(bytes);
}

static void llama2c_groups_hold_fp32_scales_and_then_columns(void **state) {
    (void)state;
    enum { ROWS = 17, COLS = 10, GROUP = 4 }; /* groups of 4, 4, 2 */
    signed char q[ROWS][COLS];
    float scales[ROWS][3];
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++) q[r][k] = (signed char)(r * 7 - k * 5);
        for (int g = 0; g < 3; g++) scales[r][g] = (float)(r + 1) / (float)(1 << g);
    }
    matrix w = rows_matrix(DTYPE_I8G, GROUP, ROWS, COLS, q, scales), packed = w;
    unsigned char *panels = pack_all(&w);
    packed.packed = true, packed.data = panels;
    for (int r = 0; r < ROWS; r++) {
        int width = r < 16 ? 16 : 1, lane = r % 16;
        const unsigned char *at = panels + (r < 16 ? 0 : 16 * (COLS + 12));
        float row[COLS];
        for (int g = 0; g < 3; g++) {
            int n = g < 2 ? 4 : 2;
            assert_memory_equal(at + 4 * lane, &scales[r][g], 4);
            for (int k = 0; k < n; k++) assert_int_equal((signed char)at[4 * width + k * width + lane], q[r][4 * g + k]);
            at += (4 + n) * width;
        }
        matrix_row_f32(row, &packed, r);
        for (int k = 0; k < COLS; k++) assert_true(row[k] == scales[r][k / 4] * (float)q[r][k]);
        matrix_row_f32(row, &w, r);
        for (int k = 0; k < COLS; k++) assert_true(row[k] == scales[r][k / 4] * (float)q[r][k]);
    }
    free(panels);
}

/* n / 16 is exact in fp16, and in Q8_0 with d = 1/16. */
static void a_row_as_fp32_is_the_same_packed_or_not(void **state) {
    (void)state;
    enum { ROWS = 21, COLS = 40 };
    float f32[ROWS][COLS];
    unsigned char f16[ROWS][COLS * 2], q8[ROWS][2 * 34];
    for (int r = 0; r < ROWS; r++) {
        memset(q8[r], 0, sizeof q8[r]);
        for (int b = 0; b < 2; b++) memcpy(&q8[r][34 * b], &(uint16_t){0x2C00}, 2); /* 2^-4 */
        for (int k = 0; k < COLS; k++) {
            int n = (r * 31 + k * 17) % 255 - 127;
            f32[r][k] = (float)n / 16;
            memcpy(&f16[r][2 * k], &(uint16_t){f32_to_f16(f32[r][k])}, 2);
            q8[r][34 * (k / 32) + 2 + k % 32] = (unsigned char)n;
        }
    }
    matrix w[] = {rows_matrix(DTYPE_F32, 0, ROWS, COLS, f32, NULL), rows_matrix(DTYPE_F16, 0, ROWS, COLS, f16, NULL),
                  rows_matrix(DTYPE_Q8_0, 0, ROWS, COLS, q8, NULL)};
    for (int i = 0; i < 3; i++) {
        unsigned char *panels = pack_all(&w[i]);
        for (int packed = 0; packed < 2; packed++) {
            if (packed) w[i].packed = true, w[i].data = panels;
            for (int r = 0; r < ROWS; r++) {
                float row[COLS];
                matrix_row_f32(row, &w[i], r);
                assert_memory_equal(row, f32[r], sizeof row);
            }
        }
        free(panels);
    }
}

static void row_bytes_count_scales_and_refuse_overflow(void **state) {
    (void)state;
    size_t n;
    assert_true(matrix_row_bytes(DTYPE_F32, 0, 33, &n) && n == 132);
    assert_true(matrix_row_bytes(DTYPE_F16, 0, 33, &n) && n == 66);
    assert_true(matrix_row_bytes(DTYPE_Q8_0, 0, 33, &n) && n == 68);
    assert_true(matrix_row_bytes(DTYPE_I8G, 4, 33, &n) && n == 33 + 4 * 9);
    assert_false(matrix_row_bytes(DTYPE_I8G, 0, 33, &n));
    assert_false(matrix_row_bytes(DTYPE_BF16, 0, 33, &n));
    assert_false(matrix_row_bytes(DTYPE_F32, 0, SIZE_MAX / 2, &n));
    assert_false(matrix_row_bytes(DTYPE_I8G, 1, SIZE_MAX / 4 + 1, &n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_out_of_the_panels_as_it_went_in),
        cmocka_unit_test(fp32_and_fp16_elements_lie_at_k_times_width_plus_row),
        cmocka_unit_test(q8_0_blocks_hold_scales_and_then_words_of_four),
        cmocka_unit_test(llama2c_groups_hold_fp32_scales_and_then_columns),
        cmocka_unit_test(a_row_as_fp32_is_the_same_packed_or_not),
        cmocka_unit_test(row_bytes_count_scales_and_refuse_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
