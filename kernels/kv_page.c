#include "kernels/kv_page.h"

#include <math.h>
#include <string.h>

#include "kernels/sizes.h"

bool kv_layout_init(kv_layout *l, dtype type, int page_size, int n_kv_heads, int head_dim) {
    *l = (kv_layout){.type = type, .page_size = page_size, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
    l->elem_bytes = type == DTYPE_F32 ? 4 : type == DTYPE_F16 ? 2 : 1;
    size_t scales = type == DTYPE_Q8_0 ? 2 * sizeof(uint16_t) : 0, token;
    return size_mul(2 * l->elem_bytes, (size_t)head_dim, &token) && size_add(token, scales, &token) &&
           size_mul(token, (size_t)page_size, &l->head_bytes) && size_mul(l->head_bytes, (size_t)n_kv_heads, &l->page_bytes);
}

/* Where things of one head lie in its page. */
static unsigned char *head_base(const kv_view *kv, int head, int pos) {
    return kv->pages[pos / kv->layout->page_size] + (size_t)head * kv->layout->head_bytes;
}
static size_t scales_bytes(const kv_layout *l) {
    return l->type == DTYPE_Q8_0 ? 2 * sizeof(uint16_t) * (size_t)l->page_size : 0;
}
static size_t keys_offset(const kv_layout *l, int slot, int *width) {
    int block = slot / KV_BLOCK, left = l->page_size - block * KV_BLOCK;
    *width = left < KV_BLOCK ? left : KV_BLOCK;
    size_t elems = (size_t)block * KV_BLOCK * (size_t)l->head_dim + (size_t)(slot % KV_BLOCK);
    return scales_bytes(l) + elems * l->elem_bytes;
}
static size_t values_offset(const kv_layout *l, int slot) {
    return scales_bytes(l) + ((size_t)l->page_size + (size_t)slot) * (size_t)l->head_dim * l->elem_bytes;
}

/* One token of one head and side. Elements are converted WRITE_PIECE at a time, then a value's are copied and a key's spread, `stride`
 * elements from one to the next. */
enum { WRITE_PIECE = 256 };

static void halves_write(unsigned char *to, const float *x, int n, size_t stride, const kernel_set *kernels) {
    uint16_t h[WRITE_PIECE];
    for (int i = 0, m; i < n; i += m, to += (size_t)m * stride * sizeof *h) {
        m = n - i < WRITE_PIECE ? n - i : WRITE_PIECE;
        kernels->f32_to_f16(h, x + i, (size_t)m);
        if (stride == 1) {
            memcpy(to, h, (size_t)m * sizeof *h);
        } else {
            for (int e = 0; e < m; e++) memcpy(to + (size_t)e * stride * sizeof *h, &h[e], sizeof *h);
        }
    }
}

static void floats_write(unsigned char *to, const float *x, int n, size_t stride) {
    if (stride == 1) {
        memcpy(to, x, (size_t)n * sizeof *x);
    } else {
        for (int e = 0; e < n; e++) memcpy(to + (size_t)e * stride * sizeof *x, &x[e], sizeof *x);
    }
}

/* The scale is rounded to fp16 first, so that a quotient may pass 127 by a little. A NaN becomes the scale's. */
static void int8_write(unsigned char *to, const float *x, int n, size_t stride, unsigned char *scale) {
    float top = 0;
    for (int e = 0; e < n; e++) top = fabsf(x[e]) > top || x[e] != x[e] ? fabsf(x[e]) : top;
    uint16_t h = f32_to_f16(top / 127.0f);
    memcpy(scale, &h, sizeof h);
    float s = f16_to_f32(h), inverse = s > 0 ? 1.0f / s : 0.0f;
    for (int e = 0; e < n; e++) {
        float q = x[e] * inverse;
        q = q >= 127.0f ? 127.0f : q <= -127.0f ? -127.0f : q == q ? rintf(q) : 0.0f;
        to[(size_t)e * stride] = (unsigned char)(int8_t)q;
    }
}

void kv_write(const kv_view *kv, int pos, const float *k, const float *v, const kernel_set *kernels, meter *m) {
    const kv_layout *l = kv->layout;
    int slot = pos % l->page_size, hd = l->head_dim, width;
    size_t at_k = keys_offset(l, slot, &width), at_v = values_offset(l, slot);
    unsigned char *base = head_base(kv, 0, pos);
    for (int h = 0; h < l->n_kv_heads; h++, k += hd, v += hd, base += l->head_bytes) {
        if (l->type == DTYPE_F16) {
            halves_write(base + at_k, k, hd, (size_t)width, kernels);
            halves_write(base + at_v, v, hd, 1, kernels);
        } else if (l->type == DTYPE_F32) {
            floats_write(base + at_k, k, hd, (size_t)width);
            floats_write(base + at_v, v, hd, 1);
        } else {
            int8_write(base + at_k, k, hd, (size_t)width, base + 2 * (size_t)slot);
            int8_write(base + at_v, v, hd, 1, base + 2 * (size_t)(l->page_size + slot));
        }
    }
    size_t elems = 2 * (size_t)l->n_kv_heads * (size_t)l->head_dim;
    meter_post(m, TERM_BYTES_KV_WRITTEN, elems * l->elem_bytes + (l->type == DTYPE_Q8_0 ? 4 * (size_t)l->n_kv_heads : 0));
    if (l->type == DTYPE_Q8_0) meter_post(m, TERM_FLOPS_QUANTISE, 3 * elems);
    meter_post(m, TERM_KEYS_COMPUTED, 1);
}

/* Posts n tokens of one head and side, as far as they were cached before the step and as far as they are its own. */
static void post_read(const kv_view *kv, int pos, int n, meter *m) {
    const kv_layout *l = kv->layout;
    size_t token = (size_t)l->head_dim * l->elem_bytes + (l->type == DTYPE_Q8_0 ? sizeof(uint16_t) : 0);
    int cached = kv->n_cached - pos;
    cached = cached < 0 ? 0 : cached > n ? n : cached;
    meter_post(m, TERM_BYTES_KV_CACHED, (size_t)cached * token);
    meter_post(m, TERM_BYTES_KV_OWN, (size_t)(n - cached) * token);
}

kv_run kv_keys(const kv_view *kv, int head, int pos, int end, meter *m) {
    const kv_layout *l = kv->layout;
    int slot = pos % l->page_size, width;
    const unsigned char *base = head_base(kv, head, pos);
    kv_run r = {.data = base + keys_offset(l, slot, &width)};
    int together = width - slot % KV_BLOCK;
    r.n = end - pos < together ? end - pos : together;
    r.k_stride = (size_t)width;
    if (l->type == DTYPE_Q8_0) r.scales = (const uint16_t *)(const void *)base + slot;
    post_read(kv, pos, r.n, m);
    return r;
}

kv_run kv_values(const kv_view *kv, int head, int pos, int end, meter *m) {
    const kv_layout *l = kv->layout;
    int slot = pos % l->page_size, together = l->page_size - slot;
    const unsigned char *base = head_base(kv, head, pos);
    kv_run r = {.data = base + values_offset(l, slot), .k_stride = (size_t)l->head_dim};
    r.n = end - pos < together ? end - pos : together;
    if (l->type == DTYPE_Q8_0) r.scales = (const uint16_t *)(const void *)base + l->page_size + slot;
    post_read(kv, pos, r.n, m);
    return r;
}
