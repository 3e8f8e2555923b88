/* safetensors.c - Hugging Face's format.
 *
 *   byte 0          8                                          8 + n              end
 *        | n (u64)  | {"NAME": {"dtype": "F32", "shape": [2,3], | the tensors' bytes, |
 *        |          |  "data_offsets": [0, 24]}, ...}           | without holes       |
 *
 * Offsets count from byte 8 + n. "__metadata__" holds texts. Nothing is aligned when the writer does not pad the header. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/container.h"
#include "weights/cursor.h"

enum { MAX_HEADER = 100000000 }; /* the format's own limit */

static const struct {
    const char *name;
    dtype type;
    int bits;
} types[] = {
    {"F32", DTYPE_F32, 32},      {"F16", DTYPE_F16, 16},      {"BF16", DTYPE_BF16, 16},    {"F64", DTYPE_F64, 64},
    {"I8", DTYPE_I8, 8},         {"U8", DTYPE_U8, 8},         {"I16", DTYPE_I16, 16},      {"U16", DTYPE_U16, 16},
    {"I32", DTYPE_I32, 32},      {"U32", DTYPE_U32, 32},      {"I64", DTYPE_I64, 64},      {"U64", DTYPE_U64, 64},
    {"BOOL", DTYPE_BOOL, 8},     {"F8_E4M3", DTYPE_OTHER, 8}, {"F8_E5M2", DTYPE_OTHER, 8}, {"F8_E8M0", DTYPE_OTHER, 8},
    {"F6_E2M3", DTYPE_OTHER, 6}, {"F6_E3M2", DTYPE_OTHER, 6}, {"F4", DTYPE_OTHER, 4},      {"C64", DTYPE_OTHER, 64},
};

/* Numbers come as doubles (JSON_DECODE_INT_AS_REAL), so that 2^64 - 8 is read, and refused with the tensor's name. */
static bool whole_number(const json_t *v, uint64_t *out) {
    double x = json_number_value(v);
    if (!json_is_number(v) || x != floor(x) || x < 0 || signbit(x) || x > 9007199254740992.0) return false;
    *out = (uint64_t)x;
    return true;
}

static recognition recognise(const uint8_t *data, size_t size) {
    uint64_t n;
    if (size < 8) return NOT_MINE;
    memcpy(&n, data, sizeof n);
    bool fits = n <= size - 8;
    if (fits && n > 0 && data[8] == '{') return SURELY_MINE;
    return n == size - 8 || (size > 8 && (data[8] == '{' || data[8] == '[')) ? MAYBE_MINE : NOT_MINE;
}

static status read_shape(const json_t *shape, const char *name, tensor *t, error *e) {
    size_t n = json_array_size(shape);
    if (!json_is_array(shape)) return error_set(e, ERR_FORMAT, "tensor %s: no list \"shape\"", name);
    if (n > TENSOR_MAX_DIMS)
        return error_set(e, ERR_LIMIT, "tensor %s: %zu dimensions, more than %d", name, n, TENSOR_MAX_DIMS);
    t->n_dims = (int)n;
    for (size_t d = 0; d < n; d++) {
        uint64_t extent;
        if (!whole_number(json_array_get(shape, d), &extent))
            return error_set(e, ERR_FORMAT, "tensor %s: dimension %zu of its shape is no size", name, d);
        t->shape[d] = (int64_t)extent;
    }
    return tensor_row_major(t) ? OK : error_set(e, ERR_FORMAT, "tensor %s: the shape overflows 64 bits", name);
}

/* Bytes of a tensor of the shape, to compare with its span. */
static bool shape_bytes(const tensor *t, int bits, size_t *bytes) {
    size_t n = (size_t)bits;
    for (int d = 0; d < t->n_dims; d++)
        if (!size_mul(n, (size_t)t->shape[d], &n)) return false;
    *bytes = n / 8;
    return n % 8 == 0;
}

static status read_tensor(const json_t *entry, const char *name, size_t data_size, tensor *t, error *e) {
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (type == NULL) return error_set(e, ERR_FORMAT, "tensor %s: no \"dtype\"", name);
    size_t i = 0, n = sizeof types / sizeof *types, bytes;
    while (i < n && strcmp(types[i].name, type) != 0) i++;
    if (i == n) return error_set(e, ERR_FORMAT, "tensor %s: unknown dtype \"%.40s\"", name, type);
    t->type = types[i].type;
    t->type_name = types[i].name;
    if (read_shape(json_object_get(entry, "shape"), name, t, e) != OK) return e != NULL ? e->code : ERR_FORMAT;
    uint64_t begin, end;
    if (json_array_size(offsets) != 2 || !whole_number(json_array_get(offsets, 0), &begin) ||
        !whole_number(json_array_get(offsets, 1), &end))
        return error_set(e, ERR_FORMAT, "tensor %s: \"data_offsets\" are not two offsets", name);
    if (begin > end)
        return error_set(e, ERR_FORMAT, "tensor %s: it ends at %llu, before it starts at %llu", name, (unsigned long long)end,
                         (unsigned long long)begin);
    if (end > data_size)
        return error_set(e, ERR_FORMAT, "tensor %s: ends at byte %llu of %zu (is the file cut off?)", name,
                         (unsigned long long)end, data_size);
    if (!shape_bytes(t, types[i].bits, &bytes))
        return error_set(e, ERR_FORMAT, "tensor %s: the shape overflows, or is no whole number of bytes", name);
    if (bytes != end - begin)
        return error_set(e, ERR_FORMAT, "tensor %s: %s of its shape takes %zu bytes, not the %llu it has", name, type, bytes,
                         (unsigned long long)(end - begin));
    t->offset = (size_t)begin;
    t->span = t->n_bytes = bytes;
    return OK;
}

static int by_offset(const void *a, const void *b) {
    const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

/* The tensors from number `first` on lie one after the other, from byte `start` to the file's end. */
static status check_tiling(const reader *r, size_t first, size_t start, size_t end, error *e) {
    size_t n = r->c->n_tensors - first, at = start;
    const tensor **sorted = malloc((n + 1) * sizeof *sorted);
    if (sorted == NULL) return error_set(e, ERR_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++) sorted[i] = &r->c->tensors[first + i];
    qsort(sorted, n, sizeof *sorted, by_offset);
    status result = OK;
    for (size_t i = 0; i < n && result == OK; i++) {
        if (sorted[i]->offset != at)
            result = error_set(e, ERR_FORMAT, "tensor %s: starts at byte %zu, the one before ends at %zu", sorted[i]->name,
                               sorted[i]->offset - start, at - start);
        at = sorted[i]->offset + sorted[i]->span;
    }
    free(sorted);
    if (result == OK && at != end) result = error_set(e, ERR_FORMAT, "%zu bytes that belong to no tensor", end - at);
    return result;
}

static status read_metadata(reader *r, json_t *texts, error *e) {
    const char *key;
    json_t *value;
    if (!json_is_object(texts)) return error_set(e, ERR_FORMAT, "\"__metadata__\" is no object");
    json_object_foreach(texts, key, value) if (!json_is_string(value)) return error_set(e, ERR_FORMAT,
                                                                                        "\"__metadata__\": %s is no text", key);
    return json_object_set(r->c->meta, "__metadata__", texts) == 0 ? OK : error_set(e, ERR_MEMORY, "no memory");
}

static status read_entries(reader *r, int shard, json_t *header, size_t start, error *e) {
    const source *s = &r->sources[shard];
    size_t first = r->c->n_tensors;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        status result;
        if (strcmp(name, "__metadata__") == 0) {
            result = read_metadata(r, entry, e);
        } else {
            tensor t = {.shard = shard};
            result = read_tensor(entry, name, s->size - start, &t, e);
            t.offset += start;
            if (result == OK) result = reader_add(r, name, strlen(name), &t, e);
        }
        if (result != OK) return result;
    }
    return check_tiling(r, first, start, s->size, e);
}

static status open_safetensors(reader *r, int shard, error *e) {
    const source *s = &r->sources[shard];
    cursor c = {.data = s->data, .size = s->size};
    uint64_t n;
    const uint8_t *text;
    json_t *header;
    if (!cursor_u64(&c, &n)) return error_set(e, ERR_FORMAT, "safetensors: no header length");
    if (n > MAX_HEADER)
        return error_set(e, ERR_FORMAT, "safetensors: a header of %llu bytes, more than %d", (unsigned long long)n, MAX_HEADER);
    if (!cursor_take(&c, n, &text))
        return error_set(e, ERR_FORMAT, "safetensors: a header of %llu bytes in a file of %zu (is it cut off?)",
                         (unsigned long long)n, s->size);
    if (n == 0 || text[0] != '{') return error_set(e, ERR_FORMAT, "safetensors: the header is no JSON object");
    status result = json_load_bounded(&header, r, text, (size_t)n, JSON_DECODE_INT_AS_REAL, e);
    if (result != OK) return error_prefix(e, "safetensors header");
    result = read_entries(r, shard, header, 8 + (size_t)n, e);
    json_decref(header);
    return result;
}

const container_format container_safetensors = {
    .kind = CHECKPOINT_SAFETENSORS, .recognise = recognise, .open = open_safetensors};
