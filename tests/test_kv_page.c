/* test_kv_page.c - how K and V lie in a page, address by address, in every format and page size, and what storing them loses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kv_page.h"
#include "tests/kernel_sets.h"

enum { HEADS = 3, HD = 20, TOKENS = 41, MOST_PAGES = TOKENS };

static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
static const int page_sizes[] = {1, 2, 4, 16, 24, 40};

typedef struct {
    kv_layout layout;
    unsigned char *pages[MOST_PAGES];
    kv_view view;
    float k[TOKENS][HEADS][HD], v[TOKENS][HEADS][HD];
    meter meter;
} cache;

static cache *cache_make(dtype type, int page_size, uint64_t *seed) {
    cache *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_true(kv_layout_init(&c->layout, type, page_size, HEADS, HD));
    for (int p = 0; p * page_size < TOKENS; p++) {
        c->pages[p] = malloc(c->layout.page_bytes);
        assert_non_null(c->pages[p]);
        memset(c->pages[p], 0xff, c->layout.page_bytes); /* NaN in every format: nothing may be read that was not written */
    }
    c->view = (kv_view){.layout = &c->layout, .pages = c->pages, .n_cached = 30};
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < HEADS * HD; i++) {
            c->k[t][i / HD][i % HD] = random_unit(seed) * 5;
            c->v[t][i / HD][i % HD] = random_unit(seed) * 0.1f;
        }
        assert_true(kv_write(&c->view, t, &c->k[t][0][0], &c->v[t][0][0], &kernels_portable, &c->meter));
    }
    return c;
}

static void cache_free(cache *c) {
    for (int p = 0; p < MOST_PAGES; p++) free(c->pages[p]);
    free(c);
}

/* What storing x makes of it, by the formulas of kv_format.h. `scale`: of the token, head and side. */
static double stored_value(dtype type, float x, float scale) {
    if (type == DTYPE_F32) return (double)x;
    if (type == DTYPE_F16) return (double)f16_to_f32(f32_to_f16(x));
    double q = nearbyint((double)x / (double)scale);
    return (double)scale * fmax(-127, fmin(127, q));
}

static float scale_of(const float *x) {
    float top = 0;
    for (int i = 0; i < HD; i++) top = fmaxf(top, fabsf(x[i]));
    return f16_to_f32(f32_to_f16(top / 127.0f));
}

static double element_at(const cache *c, const unsigned char *at, float scale) {
    float f;
    uint16_t h;
    if (c->layout.type == DTYPE_F32) return memcpy(&f, at, sizeof f), (double)f;
    if (c->layout.type == DTYPE_F16) return memcpy(&h, at, sizeof h), (double)f16_to_f32(h);
    return (double)scale * *(const int8_t *)at;
}

static float scale_at(const unsigned char *at) {
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return f16_to_f32(h);
}

/* The picture of kv_page.h, as sums of sizes. */
static void a_page_holds_scales_then_keys_across_and_values_along(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 18; i++) {
        dtype type = types[i % 3];
        int P = page_sizes[i / 3],
            b = type == DTYPE_F32   ? 4
                : type == DTYPE_F16 ? 2
                                    : 1,
            scales = type == DTYPE_Q8_0 ? 4 * P : 0;
        cache *c = cache_make(type, P, &seed);
        assert_int_equal(c->layout.page_bytes, HEADS * (scales + 2 * P * HD * b));
        for (int t = 0; t < TOKENS; t++) {
            int slot = t % P, block = slot / 16, width = P - 16 * block < 16 ? P - 16 * block : 16;
            for (int h = 0; h < HEADS; h++) {
                const unsigned char *head = c->pages[t / P] + (size_t)h * c->layout.head_bytes;
                float k_scale = scale_of(c->k[t][h]), v_scale = scale_of(c->v[t][h]);
                if (scales > 0) assert_true(scale_at(head + 2 * slot) == k_scale);
                if (scales > 0) assert_true(scale_at(head + 2 * P + 2 * slot) == v_scale);
                for (int e = 0; e < HD; e++) {
                    const unsigned char *k = head + scales + (16 * block * HD + e * width + slot % 16) * b;
                    const unsigned char *v = head + scales + (P * HD + slot * HD + e) * b;
                    double want_k = stored_value(type, c->k[t][h][e], k_scale),
                           want_v = stored_value(type, c->v[t][h][e], v_scale);
                    /* int8: a quotient next to a half may be rounded either way, having been rounded to fp32 first */
                    double near_k = type == DTYPE_Q8_0 ? (double)k_scale : 0, near_v = type == DTYPE_Q8_0 ? (double)v_scale : 0;
                    double got_k = element_at(c, k, k_scale), got_v = element_at(c, v, v_scale);
                    if (got_k != want_k) assert_true(fabs(got_k - (double)c->k[t][h][e]) <= near_k * (0.5 + 1e-5));
                    if (got_v != want_v) assert_true(fabs(got_v - (double)c->v[t][h][e]) <= near_v * (0.5 + 1e-5));
                }
            }
        }
        cache_free(c);
    }
}

/* What the accessors hand out is the token asked for, runs end with a block or a page, and the bytes are posted as cached or own. */
static void the_accessors_hand_out_the_tokens_asked_for_and_post_them(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 18; i++) {
        cache *c = cache_make(types[i % 3], page_sizes[i / 3], &seed);
        int P = c->layout.page_size;
        size_t b = c->layout.elem_bytes, token = HD * b + (types[i % 3] == DTYPE_Q8_0 ? 2 : 0);
        assert_int_equal(c->meter.counts.n[TERM_BYTES_KV_WRITTEN], TOKENS * HEADS * 2 * token);
        assert_int_equal(c->meter.counts.n[TERM_KEYS_COMPUTED], TOKENS);
        assert_int_equal(c->meter.counts.n[TERM_FLOPS_QUANTISE], types[i % 3] == DTYPE_Q8_0 ? 3 * TOKENS * HEADS * 2 * HD : 0);
        for (int side = 0; side < 2; side++) {
            int from = 5, end = 39;
            meter m = {0};
            for (int at = from; at < end;) {
                kv_run r = side == 0 ? kv_keys(&c->view, 1, at, end, &m) : kv_values(&c->view, 1, at, end, &m);
                int left_in_page = P - at % P,
                    left = side == 0 && 16 - at % P % 16 < left_in_page ? 16 - at % P % 16 : left_in_page;
                assert_int_equal(r.n, left < end - at ? left : end - at);
                for (int n = 0; n < r.n; n++) {
                    const float *x = side == 0 ? c->k[at + n][1] : c->v[at + n][1];
                    float scale = r.scales != NULL ? scale_at((const unsigned char *)r.scales + 2 * n) : 1;
                    if (r.scales != NULL) assert_true(scale == scale_of(x));
                    for (int e = 0; e < HD; e++) {
                        size_t element = side == 0 ? (size_t)e * r.k_stride + (size_t)n : (size_t)n * r.k_stride + (size_t)e;
                        double got = element_at(c, (const unsigned char *)r.data + element * b, scale);
                        assert_true(fabs(got - (double)x[e]) <=
                                    (r.scales != NULL ? 0.51 * (double)scale : fmax(0x1p-11 * fabs((double)x[e]), 0x1p-25)));
                    }
                }
                at += r.n;
            }
            assert_int_equal(m.counts.n[TERM_BYTES_KV_CACHED], 25 * token); /* tokens 5..29 were there before */
            assert_int_equal(m.counts.n[TERM_BYTES_KV_OWN], 9 * token);
        }
        cache_free(c);
    }
}

/* Every set stores the same bytes. */
static void all_sets_store_the_same_bytes(void **state) {
    (void)state;
    const kernel_set *sets[MOST_SETS];
    int n = kernel_sets(sets);
    uint64_t seed = 3;
    for (int t = 0; t < 3; t++) {
        const kv_format *f = kv_format_of(types[t]);
        float x[300];
        for (int i = 0; i < 300; i++)
            x[i] = ldexpf(random_unit(&seed), random_below(&seed, 44) - 28); /* down to fp16's subnormals */
        unsigned char want[300 * 4 * 3], got[300 * 4 * 3], want_scale[2] = {0}, got_scale[2] = {0};
        for (int stride = 1; stride <= 3; stride += 2) {
            memset(want, 0, sizeof want), memset(got, 0, sizeof got);
            assert_true(f->write(want, x, 300, (size_t)stride, want_scale, &kernels_portable));
            for (int s = 0; s < n; s++) {
                assert_true(f->write(got, x, 300, (size_t)stride, got_scale, sets[s]));
                assert_memory_equal(want, got, sizeof want);
                assert_memory_equal(want_scale, got_scale, 2);
            }
        }
    }
}

static void what_a_format_cannot_hold_is_said(void **state) {
    (void)state;
    static const struct {
        float x;
        bool f32, f16, int8;
    } rows[] = {{65504, true, true, true},       {65519.996f, true, true, true},   {65520, true, false, true},
                {-70000, true, false, true},     {8.3e6f, true, false, true},      {8.33e6f, true, false, false},
                {INFINITY, false, false, false}, {-INFINITY, false, false, false}, {NAN, false, false, false},
                {-8.33e6f, true, false, false},  {1e-40f, true, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int at = 0; at < HD; at += HD - 1) {
            float x[HD] = {0.5f, -0.25f};
            unsigned char to[HD * 4], scale[2];
            float back;
            x[at] = rows[i].x;
            const bool holds[] = {rows[i].f32, rows[i].f16, rows[i].int8};
            for (int t = 0; t < 3; t++) {
                const kv_format *f = kv_format_of(types[t]);
                assert_int_equal(f->write(to, x, HD, 1, scale, &kernels_portable), holds[t]);
                f->to_f32(&back, to + (size_t)at * f->elem_bytes, 1, &kernels_portable);
                if (f->scale_bytes > 0) back *= scale_at(scale);
                assert_int_equal(isfinite(back) != 0, holds[t]); /* and reads back as no number */
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_holds_scales_then_keys_across_and_values_along),
        cmocka_unit_test(the_accessors_hand_out_the_tokens_asked_for_and_post_them),
        cmocka_unit_test(all_sets_store_the_same_bytes),
        cmocka_unit_test(what_a_format_cannot_hold_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
