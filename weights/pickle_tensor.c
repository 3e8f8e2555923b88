#include <string.h>

#include "kernels/sizes.h"
#include "weights/pickle.h"

static bool int_value(const pickle *p, pickle_ref v, int64_t *out) {
    *out = p->nodes[v].i;
    return p->nodes[v].kind == PICKLE_INT;
}

/* View metadata of legacy files: None, or (name, offset, elements). */
static bool read_view(const pickle *p, pickle_ref view, pickle_storage *out) {
    out->view_offset = 0;
    out->view_elems = out->n;
    if (view == 0 || p->nodes[view].kind == PICKLE_NONE) return true;
    int64_t offset, n;
    if (!int_value(p, pickle_item(p, view, 1), &offset) || !int_value(p, pickle_item(p, view, 2), &n)) return false;
    if (offset < 0 || n < 0 || !span_fits((uint64_t)offset, (uint64_t)n, (uint64_t)out->n)) return false;
    out->view_offset = offset;
    out->view_elems = n;
    return true;
}

/* ('storage', type, key, location, n[, view]) */
status pickle_storage_read(const pickle *p, pickle_ref v, pickle_storage *out, error *e) {
    const pickle_node *word = &p->nodes[pickle_item(p, v, 0)], *type = &p->nodes[pickle_item(p, v, 1)];
    const pickle_node *key = &p->nodes[pickle_item(p, v, 2)];
    bool good = word->kind == PICKLE_TEXT && word->n == 7 && memcmp(p->bytes + word->at, "storage", 7) == 0;
    good = good && type->kind == PICKLE_GLOBAL && pickle_globals[type->i].role == GLOBAL_STORAGE && key->kind == PICKLE_TEXT;
    if (!good) return error_set(e, ERR_FORMAT, "a storage without its type or key");
    *out = (pickle_storage){.type = &pickle_globals[type->i], .key = (const char *)p->bytes + key->at, .key_bytes = key->n};
    int key_shown = (int)(key->n < 100 ? key->n : 100);
    if (!int_value(p, pickle_item(p, v, 4), &out->n) || out->n < 0)
        return error_set(e, ERR_FORMAT, "storage %.*s: its number of elements is wrong", key_shown, out->key);
    if (out->n > INT64_MAX / out->type->bytes)
        return error_set(e, ERR_FORMAT, "storage %.*s: %lld elements overflow 64 bits", key_shown, out->key, (long long)out->n);
    if (!read_view(p, pickle_item(p, v, 5), out))
        return error_set(e, ERR_FORMAT, "storage %.*s: its view does not lie inside it", key_shown, out->key);
    return OK;
}

/* A tuple of ints into list; their number, or -1. */
static int read_ints(const pickle *p, pickle_ref tuple, int64_t list[TENSOR_MAX_DIMS]) {
    if (p->nodes[tuple].kind != PICKLE_TUPLE) return -1;
    int n = 0;
    for (uint32_t cell = p->nodes[tuple].first; cell != 0; cell = p->cells[cell].next, n++)
        if (n == TENSOR_MAX_DIMS || !int_value(p, p->cells[cell].value, &list[n])) return -1;
    return n;
}

/* The index of the element that lies furthest, in elements from the first. False: something is negative or overflows. */
static bool furthest(const tensor *t, int64_t *last, bool *empty) {
    *last = 0;
    *empty = false;
    for (int d = 0; d < t->n_dims; d++) {
        int64_t reach;
        if (t->shape[d] < 0 || t->stride[d] < 0) return false;
        if (t->shape[d] == 0) *empty = true;
        if (t->shape[d] <= 1) continue;
        if (__builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &reach) || __builtin_add_overflow(*last, reach, last))
            return false;
    }
    if (*empty) *last = 0;
    return true;
}

/* (storage, offset, shape, strides, ...) */
status pickle_tensor_read(const pickle *p, pickle_ref v, const char *name, tensor *t, pickle_storage *storage, error *e) {
    *t = (tensor){0};
    pickle_ref s = pickle_item(p, v, 0);
    int64_t offset, last;
    bool empty;
    if (p->nodes[s].kind != PICKLE_STORAGE) return error_set(e, ERR_FORMAT, "tensor %s: has no storage", name);
    if (pickle_storage_read(p, s, storage, e) != OK) return error_set(e, ERR_FORMAT, "tensor %s: has a broken storage", name);
    int n_shape = read_ints(p, pickle_item(p, v, 2), t->shape), n_stride = read_ints(p, pickle_item(p, v, 3), t->stride);
    if (n_shape < 0 || n_stride < 0)
        return error_set(e, ERR_FORMAT, "tensor %s: its shape or strides are not up to %d integers", name, TENSOR_MAX_DIMS);
    if (n_shape != n_stride)
        return error_set(e, ERR_FORMAT, "tensor %s: %d dimensions with %d strides", name, n_shape, n_stride);
    if (!int_value(p, pickle_item(p, v, 1), &offset) || offset < 0)
        return error_set(e, ERR_FORMAT, "tensor %s: its offset is no integer, or negative", name);
    t->type = storage->type->type;
    t->type_name = storage->type->type_name;
    t->n_dims = n_shape;
    if (!furthest(t, &last, &empty))
        return error_set(e, ERR_FORMAT, "tensor %s: a negative dimension or stride, or sizes that overflow 64 bits", name);
    int64_t limit = storage->view_elems, wanted = empty ? 0 : 1;
    if (offset > limit || last > limit - offset - wanted)
        return error_set(e, ERR_FORMAT, "tensor %s: reaches element %lld + %lld of a storage of %lld", name, (long long)offset,
                         (long long)last, (long long)limit);
    size_t bytes = (size_t)storage->type->bytes, n = 1;
    t->offset = (size_t)(storage->view_offset + offset) * bytes;
    t->span = empty ? 0 : (size_t)(last + 1) * bytes;
    for (int d = 0; d < t->n_dims; d++)
        if (!size_mul(n, (size_t)t->shape[d], &n))
            return error_set(e, ERR_FORMAT, "tensor %s: the shape overflows 64 bits", name);
    if (!size_mul(n, bytes, &t->n_bytes)) return error_set(e, ERR_FORMAT, "tensor %s: its size overflows 64 bits", name);
    return OK;
}
