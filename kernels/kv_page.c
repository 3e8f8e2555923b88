#include "kernels/kv_page.h"

#include "kernels/sizes.h"

bool kv_layout_init(kv_layout *l, dtype type, int page_size, int n_kv_heads, int head_dim) {
    const kv_format *f = kv_format_of(type);
    *l = (kv_layout){.type = type, .format = f, .page_size = page_size, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
    l->elem_bytes = f->elem_bytes;
    return size_mul(f->elem_bytes, (size_t)head_dim, &l->token_bytes) &&
           size_add(l->token_bytes, f->scale_bytes, &l->token_bytes) &&
           size_mul(2 * l->token_bytes, (size_t)page_size, &l->head_bytes) &&
           size_mul(l->head_bytes, (size_t)n_kv_heads, &l->page_bytes);
}

/* Where things of one head lie in its page. */
static unsigned char *head_base(const kv_view *kv, int head, int pos) {
    return kv->pages[pos / kv->layout->page_size] + (size_t)head * kv->layout->head_bytes;
}
static size_t scales_bytes(const kv_layout *l) {
    return 2 * l->format->scale_bytes * (size_t)l->page_size;
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

bool kv_write(const kv_view *kv, int pos, const float *k, const float *v, const kernel_set *kernels, meter *m) {
    const kv_layout *l = kv->layout;
    const kv_format *f = l->format;
    int slot = pos % l->page_size, hd = l->head_dim, width;
    size_t at_k = keys_offset(l, slot, &width), at_v = values_offset(l, slot);
    size_t k_scale = (size_t)slot * f->scale_bytes, v_scale = (size_t)(l->page_size + slot) * f->scale_bytes;
    unsigned char *base = head_base(kv, 0, pos);
    bool finite = true;
    for (int h = 0; h < l->n_kv_heads; h++, k += hd, v += hd, base += l->head_bytes) {
        finite = f->write(base + at_k, k, hd, (size_t)width, base + k_scale, kernels) && finite;
        finite = f->write(base + at_v, v, hd, 1, base + v_scale, kernels) && finite;
    }
    size_t rows = 2 * (size_t)l->n_kv_heads, elems = rows * (size_t)hd;
    meter_post(m, TERM_BYTES_KV_WRITTEN, elems * f->elem_bytes + rows * f->scale_bytes);
    meter_post(m, TERM_FLOPS_QUANTISE, elems * (size_t)f->write_flops);
    meter_post(m, TERM_KEYS_COMPUTED, 1);
    return finite;
}

/* Posts n tokens of one side of some heads, as far as they were cached before the step and as far as they are its own. */
static void post_read(const kv_view *kv, int n_heads, int pos, int n, meter *m) {
    const kv_layout *l = kv->layout;
    size_t token = (size_t)n_heads * l->token_bytes;
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
    if (l->format->scale_bytes > 0) r.scales = (const uint16_t *)(const void *)base + slot;
    post_read(kv, 1, pos, r.n, m);
    return r;
}

kv_run kv_values(const kv_view *kv, int head, int pos, int end, meter *m) {
    const kv_layout *l = kv->layout;
    int slot = pos % l->page_size, together = l->page_size - slot;
    const unsigned char *base = head_base(kv, head, pos);
    kv_run r = {.data = base + values_offset(l, slot), .k_stride = (size_t)l->head_dim};
    r.n = end - pos < together ? end - pos : together;
    if (l->format->scale_bytes > 0) r.scales = (const uint16_t *)(const void *)base + l->page_size + slot;
    post_read(kv, 1, pos, r.n, m);
    return r;
}

/* Part of one block; or whole blocks from the beginning of one, where every page is full of whole blocks. */
static bool span_is_even(const kv_layout *l, int from, int to) {
    int last = to - 1, page = from / l->page_size, block = from % l->page_size / KV_BLOCK;
    if (last / l->page_size == page && last % l->page_size / KV_BLOCK == block) return true;
    return l->page_size % KV_BLOCK == 0 && from % KV_BLOCK == 0 && to - from <= KV_SPAN_BLOCKS * KV_BLOCK;
}

bool kv_span_get(kv_span *s, const kv_view *kv, int head, int n_heads, int from, int to, meter *m) {
    const kv_layout *l = kv->layout;
    int width = 0;
    if (!span_is_even(l, from, to)) return false;
    post_read(kv, 2 * n_heads, from, to - from, m);
    for (int pos = from, i = 0; pos < to; pos += KV_BLOCK, i++) {
        const unsigned char *base = head_base(kv, head, pos);
        s->keys[i] = base + keys_offset(l, pos % l->page_size, &width);
        s->values[i] = base + values_offset(l, pos % l->page_size);
    }
    s->k_stride = (size_t)width;
    return true;
}
