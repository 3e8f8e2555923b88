#include "kernels/kv_format.h"

#include <math.h>
#include <string.h>

#include "kernels/finite.h"

static bool f32_write(unsigned char *to, const float *x, int n, size_t stride, unsigned char *scale,
                      const kernel_set *kernels) {
    (void)scale, (void)kernels;
    if (stride == 1) {
        memcpy(to, x, (size_t)n * sizeof *x);
    } else {
        for (int e = 0; e < n; e++) memcpy(to + (size_t)e * stride * sizeof *x, &x[e], sizeof *x);
    }
    return all_finite(x, (size_t)n);
}

static void f32_to_f32(float *out, const void *in, size_t n, const kernel_set *kernels) {
    (void)kernels;
    memcpy(out, in, n * sizeof *out);
}

static void f32_product(const panel_product *p, const kernel_set *kernels) {
    kernels->product_f32(p);
}
static void f32_attend(const row_attention *a, const kernel_set *kernels) {
    kernels->attend_f32(a);
}

/* Elements are converted WRITE_PIECE at a time; then a value's are copied, and a key's spread. */
enum { WRITE_PIECE = 256 };

static bool f16_write(unsigned char *to, const float *x, int n, size_t stride, unsigned char *scale,
                      const kernel_set *kernels) {
    (void)scale;
    uint16_t h[WRITE_PIECE];
    unsigned bad = 0;
    for (int i = 0, m; i < n; i += m, to += (size_t)m * stride * sizeof *h) {
        m = n - i < WRITE_PIECE ? n - i : WRITE_PIECE;
        kernels->f32_to_f16(h, x + i, (size_t)m);
        for (int e = 0; e < m; e++) bad |= (h[e] & 0x7c00u) == 0x7c00u;
        if (stride == 1) {
            memcpy(to, h, (size_t)m * sizeof *h);
        } else {
            for (int e = 0; e < m; e++) memcpy(to + (size_t)e * stride * sizeof *h, &h[e], sizeof *h);
        }
    }
    return bad == 0;
}

static void f16_to_f32_all(float *out, const void *in, size_t n, const kernel_set *kernels) {
    kernels->f16_to_f32(out, in, n);
}

static void f16_product(const panel_product *p, const kernel_set *kernels) {
    kernels->product_f16(p);
}
static void f16_attend(const row_attention *a, const kernel_set *kernels) {
    kernels->attend_f16(a);
}

/* The scale is rounded to fp16 first, so that a quotient may pass 127 by a little. A NaN or an infinity becomes the scale's. */
static bool int8_write(unsigned char *to, const float *x, int n, size_t stride, unsigned char *scale,
                       const kernel_set *kernels) {
    (void)kernels;
    float top = 0;
    for (int e = 0; e < n; e++) top = fabsf(x[e]) > top || x[e] != x[e] ? fabsf(x[e]) : top;
    uint16_t h = f32_to_f16(all_finite(x, (size_t)n) ? top / 127.0f : NAN);
    memcpy(scale, &h, sizeof h);
    float s = f16_to_f32(h), inverse = s > 0 ? 1.0f / s : 0.0f;
    for (int e = 0; e < n; e++) {
        float q = x[e] * inverse;
        q = q >= 127.0f ? 127.0f : q <= -127.0f ? -127.0f : q == q ? rintf(q) : 0.0f;
        to[(size_t)e * stride] = (unsigned char)(int8_t)q;
    }
    return s - s == 0.0f;
}

static void int8_to_f32(float *out, const void *in, size_t n, const kernel_set *kernels) {
    (void)kernels;
    for (size_t i = 0; i < n; i++) out[i] = (float)((const int8_t *)in)[i];
}

static void int8_product(const panel_product *p, const kernel_set *kernels) {
    kernels->product_i8(p);
}

const kv_format kv_f32 = {"f32", 4, 0, 0, f32_write, f32_to_f32, f32_product, f32_attend};
static const kv_format kv_f16 = {"f16", 2, 0, 0, f16_write, f16_to_f32_all, f16_product, f16_attend};
/* To store an element: the largest magnitude, the quotient, the rounding. */
static const kv_format kv_int8 = {"int8", 1, sizeof(uint16_t), 3, int8_write, int8_to_f32, int8_product, NULL};

const kv_format *kv_format_of(dtype type) {
    return type == DTYPE_F32 ? &kv_f32 : type == DTYPE_F16 ? &kv_f16 : type == DTYPE_Q8_0 ? &kv_int8 : NULL;
}
