/* One row's attention in every instruction set: against the formula in double, and bit for bit against the set's own products and softmax.
 * K and V of all heads lie in one stretch that ends at a guard page; what a head's last block has no key for is NaN. */
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

enum { BLOCK = 16, MOST_KEYS = 256, MOST_BLOCKS = MOST_KEYS / BLOCK, MOST_HEADS = 9, MOST_GROUP = 7, MOST_DIM = 136 };
enum { MOST_ROWS = MOST_HEADS * MOST_GROUP };

/* A head: its blocks of K, then its blocks of V, one after another; heads follow one another. */
typedef struct {
    row_attention a;
    bool half;
    const void *keys[MOST_BLOCKS], *values[MOST_BLOCKS];
    unsigned char *cache;
    size_t block_bytes;
} problem;

static size_t elem_bytes(const problem *p) {
    return p->half ? 2 : 4;
}

static void put(problem *p, size_t at, float v) {
    uint16_t h = f32_to_f16(v);
    if (p->half) {
        memcpy(p->cache + 2 * at, &h, 2);
    } else {
        memcpy(p->cache + 4 * at, &v, 4);
    }
}
static double get(const problem *p, size_t at) {
    uint16_t h;
    float v;
    if (p->half) return memcpy(&h, p->cache + 2 * at, 2), (double)f16_to_f32(h);
    return memcpy(&v, p->cache + 4 * at, 4), (double)v;
}

/* Element e of key i of a head, as an index into the cache. V ends with the last key, so that the last head's end is the guard's. */
static size_t key_at(const problem *p, int head, int i, int e) {
    size_t first = (size_t)head * p->a.head_bytes / elem_bytes(p), block = p->block_bytes / elem_bytes(p);
    return first + (size_t)(i / BLOCK) * block + (size_t)e * p->a.k_stride + (size_t)(i % BLOCK);
}
static size_t value_at(const problem *p, int head, int i, int e) {
    size_t first = (size_t)head * p->a.head_bytes / elem_bytes(p), block = p->block_bytes / elem_bytes(p);
    size_t n_blocks = (size_t)(p->a.n_keys + BLOCK - 1) / BLOCK;
    return first + n_blocks * block + (size_t)i * (size_t)p->a.head_dim + (size_t)e;
}

/* Short blocks have a stride of their own only where there is one: pages smaller than a block. */
static void problem_fill(problem *p, const guarded *memory, uint64_t *seed) {
    row_attention *a = &p->a;
    int n_blocks = (a->n_keys + BLOCK - 1) / BLOCK;
    a->k_stride = n_blocks == 1 && random_below(seed, 2) == 0 ? (size_t)a->n_keys : BLOCK;
    p->block_bytes = a->k_stride * (size_t)a->head_dim * elem_bytes(p);
    a->head_bytes = (size_t)n_blocks * p->block_bytes + (size_t)a->n_keys * (size_t)a->head_dim * elem_bytes(p);
    p->cache = guarded_end(memory, a->head_bytes * (size_t)a->n_heads);
    memset(p->cache, 0xff, a->head_bytes * (size_t)a->n_heads);
    for (int h = 0; h < a->n_heads; h++) {
        for (int i = 0; i < a->n_keys; i++) {
            for (int e = 0; e < a->head_dim; e++) {
                put(p, key_at(p, h, i, e), random_unit(seed));
                put(p, value_at(p, h, i, e), random_unit(seed));
            }
        }
    }
    for (int b = 0; b < n_blocks; b++) {
        p->keys[b] = p->cache + (size_t)b * p->block_bytes;
        p->values[b] = p->cache + value_at(p, 0, b * BLOCK, 0) * elem_bytes(p);
    }
    a->keys = p->keys;
    a->values = p->values;
}

static problem problem_make(uint64_t *seed, bool half, const float *q) {
    static const int dims[] = {1, 5, 8, 16, 24, 31, 64, 80, 128, MOST_DIM},
                     lengths[] = {1, 2, 11, 15, 16, 17, 33, 64, 65, 100, 255, 256};
    problem p = {.half = half};
    p.a = (row_attention){.q = q,
                          .ld_scores = MOST_KEYS,
                          .n_heads = 1 + random_below(seed, MOST_HEADS),
                          .group = 1 + random_below(seed, MOST_GROUP),
                          .head_dim = dims[random_below(seed, sizeof dims / sizeof *dims)],
                          .n_keys = lengths[random_below(seed, sizeof lengths / sizeof *lengths)],
                          .scale = 0.3f,
                          .softcap = random_below(seed, 3) == 0 ? 2.0f : 0.0f};
    return p;
}

/* The formula of attention.h for row r: o [head_dim], and the largest score. */
static void by_formula(const problem *p, int r, double *o, double *max) {
    const row_attention *a = &p->a;
    double s[MOST_KEYS], sum = 0;
    *max = -INFINITY;
    for (int i = 0; i < a->n_keys; i++) {
        s[i] = 0;
        for (int e = 0; e < a->head_dim; e++) s[i] += (double)a->q[r * a->head_dim + e] * get(p, key_at(p, r / a->group, i, e));
        s[i] *= (double)a->scale;
        if (a->softcap != 0) s[i] = (double)a->softcap * tanh(s[i] / (double)a->softcap);
        if (s[i] > *max) *max = s[i];
    }
    for (int i = 0; i < a->n_keys; i++) sum += s[i] = exp(s[i] - *max);
    for (int e = 0; e < a->head_dim; e++) {
        o[e] = 0;
        for (int i = 0; i < a->n_keys; i++) o[e] += s[i] / sum * get(p, value_at(p, r / a->group, i, e));
    }
}

/* Head by head by the set's own loops. */
static void by_parts(const row_attention *a, const kernel_set *k, bool half) {
    void (*product)(const panel_product *) = half ? k->product_f16 : k->product_f32;
    for (int h = 0; h < a->n_heads; h++) {
        panel_product scores = row_attention_scores(a, h), values = row_attention_values(a, h);
        product(&scores);
        for (int i = 0; i < a->group; i++) {
            int row = h * a->group + i;
            k->softmax(a->scores + (size_t)i * a->ld_scores, a->n_keys, a->scale, a->softcap, &a->max[row], &a->sum[row]);
        }
        product(&values);
    }
}

static void problem_check(problem *p, const kernel_set *k, float *scores) {
    static float o[2][MOST_ROWS * MOST_DIM], max[2][MOST_ROWS], sum[2][MOST_ROWS];
    row_attention *a = &p->a;
    int n_rows = a->n_heads * a->group;
    a->scores = scores;
    for (int way = 0; way < 2; way++) {
        a->o = o[way], a->max = max[way], a->sum = sum[way];
        memset(o[way], 0xff, sizeof o[way]);
        if (way == 1) {
            by_parts(a, k, p->half);
        } else if (p->half) {
            k->attend_f16(a);
        } else {
            k->attend_f32(a);
        }
    }
    size_t row_bytes = (size_t)n_rows * sizeof(float);
    assert_memory_equal(o[0], o[1], sizeof o[0]); /* and nothing was written past the rows */
    assert_memory_equal(max[0], max[1], row_bytes);
    assert_memory_equal(sum[0], sum[1], row_bytes);
    for (int r = 0; r < n_rows; r++) {
        double want[MOST_DIM], top;
        by_formula(p, r, want, &top);
        assert_true(fabs((double)max[0][r] - top) < 1e-5 * (1 + fabs(top)));
        for (int e = 0; e < a->head_dim; e++) assert_true(fabs((double)o[0][r * a->head_dim + e] - want[e]) < 2e-5);
    }
}

static void one_rows_attention_is_the_formula_and_the_products_bit_for_bit(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    static float q[MOST_ROWS * MOST_DIM], scores[ATTEND_HEADS * MOST_GROUP * MOST_KEYS];
    guarded memory = guarded_make((size_t)2 * MOST_HEADS * MOST_KEYS * MOST_DIM * sizeof(float));
    uint64_t seed = 21;
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) q[i] = random_unit(&seed);
    for (int round = 0; round < 60; round++) {
        problem p = problem_make(&seed, round % 2 == 1, q);
        problem_fill(&p, &memory, &seed);
        for (int i = 0; i < n_sets; i++) problem_check(&p, sets[i], scores);
    }
    guarded_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rows_attention_is_the_formula_and_the_products_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
