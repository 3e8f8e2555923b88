/* gguf.c - the tensors of a GGUF file (bytes: gguf.h). */
#include "weights/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"

enum { MAX_DIMS = 4, DEFAULT_ALIGNMENT = 32 };

/* By number. DTYPE_OTHER: the size is known, so that the tensor can be listed; it is not decoded. No name: removed, or unknown. */
static const struct {
    const char *name;
    dtype type;
    int elems, bytes; /* of a block */
} types[] = {
    [0] = {"F32", DTYPE_F32, 1, 4},
    [1] = {"F16", DTYPE_F16, 1, 2},
    [2] = {"Q4_0", DTYPE_Q4_0, 32, 18},
    [3] = {"Q4_1", DTYPE_Q4_1, 32, 20},
    [6] = {"Q5_0", DTYPE_Q5_0, 32, 22},
    [7] = {"Q5_1", DTYPE_Q5_1, 32, 24},
    [8] = {"Q8_0", DTYPE_Q8_0, 32, 34},
    [9] = {"Q8_1", DTYPE_OTHER, 32, 36},
    [10] = {"Q2_K", DTYPE_Q2_K, 256, 84},
    [11] = {"Q3_K", DTYPE_Q3_K, 256, 110},
    [12] = {"Q4_K", DTYPE_Q4_K, 256, 144},
    [13] = {"Q5_K", DTYPE_Q5_K, 256, 176},
    [14] = {"Q6_K", DTYPE_Q6_K, 256, 210},
    [15] = {"Q8_K", DTYPE_OTHER, 256, 292},
    [16] = {"IQ2_XXS", DTYPE_OTHER, 256, 66},
    [17] = {"IQ2_XS", DTYPE_OTHER, 256, 74},
    [18] = {"IQ3_XXS", DTYPE_OTHER, 256, 98},
    [19] = {"IQ1_S", DTYPE_OTHER, 256, 50},
    [20] = {"IQ4_NL", DTYPE_OTHER, 32, 18},
    [21] = {"IQ3_S", DTYPE_OTHER, 256, 110},
    [22] = {"IQ2_S", DTYPE_OTHER, 256, 82},
    [23] = {"IQ4_XS", DTYPE_OTHER, 256, 136},
    [24] = {"I8", DTYPE_I8, 1, 1},
    [25] = {"I16", DTYPE_I16, 1, 2},
    [26] = {"I32", DTYPE_I32, 1, 4},
    [27] = {"I64", DTYPE_I64, 1, 8},
    [28] = {"F64", DTYPE_F64, 1, 8},
    [29] = {"IQ1_M", DTYPE_OTHER, 256, 56},
    [30] = {"BF16", DTYPE_BF16, 1, 2},
    [34] = {"TQ1_0", DTYPE_OTHER, 256, 54},
    [35] = {"TQ2_0", DTYPE_OTHER, 256, 66},
    [39] = {"MXFP4", DTYPE_OTHER, 32, 17},
};

static recognition recognise(const uint8_t *data, size_t size) {
    if (size < 4) return NOT_MINE;
    return memcmp(data, "GGUF", 4) == 0 || memcmp(data, "FUGG", 4) == 0 ? SURELY_MINE : NOT_MINE;
}

/* Shape, outermost first, and type; the bytes that they ask for. */
static status read_shape_and_type(gguf *g, const char *name, tensor *t, size_t *bytes) {
    uint32_t n_dims, type;
    if (!cursor_u32(&g->in, &n_dims)) return error_set(g->e, ERR_FORMAT, "tensor %s: the file ends in its description", name);
    if (n_dims > MAX_DIMS) return error_set(g->e, ERR_FORMAT, "tensor %s: %u dimensions, more than %d", name, n_dims, MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        uint64_t extent;
        if (!cursor_u64(&g->in, &extent)) return error_set(g->e, ERR_FORMAT, "tensor %s: the file ends in its shape", name);
        if (extent > INT64_MAX)
            return error_set(g->e, ERR_FORMAT, "tensor %s: dimension %d is %llu", name, d, (unsigned long long)extent);
        t->shape[d] = (int64_t)extent;
    }
    if (!cursor_u32(&g->in, &type)) return error_set(g->e, ERR_FORMAT, "tensor %s: the file ends at its type", name);
    if (type >= sizeof types / sizeof *types || types[type].name == NULL)
        return error_set(g->e, ERR_UNSUPPORTED, "tensor %s: has type %u, which GGUF does not have (any more)", name, type);
    t->type = types[type].type;
    t->type_name = types[type].name;
    size_t row = t->n_dims > 0 ? (size_t)t->shape[t->n_dims - 1] : 1, block = (size_t)types[type].elems;
    if (row % block != 0)
        return error_set(g->e, ERR_FORMAT, "tensor %s: rows of %zu elements are not whole blocks of %zu (%s)", name, row, block,
                         t->type_name);
    bool fits = tensor_row_major(t) && size_mul(row / block, (size_t)types[type].bytes, bytes);
    for (int d = 0; d < t->n_dims - 1; d++) fits = fits && size_mul(*bytes, (size_t)t->shape[d], bytes);
    return fits ? OK : error_set(g->e, ERR_FORMAT, "tensor %s: its size overflows 64 bits", name);
}

static status read_tensor(gguf *g) {
    const uint8_t *bytes;
    size_t n;
    char name[128];
    tensor t = {.shard = g->shard};
    uint64_t offset;
    status result = gguf_text(g, "a tensor's name", &bytes, &n);
    if (result != OK) return result;
    if (n >= sizeof name) return error_set(g->e, ERR_LIMIT, "tensor %.40s...: a name of %zu bytes", (const char *)bytes, n);
    memcpy(name, bytes, n);
    name[n] = '\0';
    if (strlen(name) != n) return error_set(g->e, ERR_FORMAT, "tensor %s: a zero byte in its name", name);
    result = read_shape_and_type(g, name, &t, &t.span);
    if (result != OK) return result;
    if (!cursor_u64(&g->in, &offset)) return error_set(g->e, ERR_FORMAT, "tensor %s: the file ends at its offset", name);
    if (offset % g->alignment != 0)
        return error_set(g->e, ERR_FORMAT, "tensor %s: its offset %llu is no multiple of %llu", name,
                         (unsigned long long)offset, (unsigned long long)g->alignment);
    if (!span_fits(offset, t.span, g->in.size))
        return error_set(g->e, ERR_FORMAT, "tensor %s: %zu bytes from byte %llu of the data, in a file of %zu (is it cut off?)",
                         name, t.span, (unsigned long long)offset, g->in.size);
    t.offset = (size_t)offset;
    t.n_bytes = t.span;
    return reader_add(g->r, name, n, &t, g->e);
}

static int by_offset(const void *a, const void *b) {
    const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

/* Offsets become positions in the file; every tensor lies in it, and on no other. */
static status place_tensors(gguf *g, size_t first) {
    checkpoint *c = g->r->c;
    size_t n = c->n_tensors - first, padding = (size_t)(-(uint64_t)g->in.at & (g->alignment - 1)), start;
    if (n == 0) return OK;
    if (!size_add(g->in.at, padding, &start) || start > g->in.size)
        return gguf_fail(g, ERR_FORMAT, "the file ends before the tensors' data");
    tensor **sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL) return error_set(g->e, ERR_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++) sorted[i] = &c->tensors[first + i];
    qsort(sorted, n, sizeof *sorted, by_offset);
    status result = OK;
    for (size_t i = 0; i < n && result == OK; i++) {
        tensor *t = sorted[i];
        if (!span_fits(t->offset, t->span, g->in.size - start))
            result = error_set(g->e, ERR_FORMAT,
                               "tensor %s: %zu bytes from byte %zu of the data, which has %zu (is the file cut off?)", t->name,
                               t->span, t->offset, g->in.size - start);
        else if (i > 0 && t->span > 0 && t->offset + start < sorted[i - 1]->offset + sorted[i - 1]->span)
            result = error_set(g->e, ERR_FORMAT, "tensor %s: lies on tensor %s", t->name, sorted[i - 1]->name);
        t->offset += start;
    }
    free(sorted);
    return result;
}

static status read_all(gguf *g) {
    const uint8_t *magic;
    uint32_t version;
    uint64_t n_tensors, n_keys;
    size_t first = g->r->c->n_tensors;
    if (!cursor_take(&g->in, 4, &magic) || !cursor_u32(&g->in, &version))
        return gguf_fail(g, ERR_FORMAT, "the file ends in the header");
    if (memcmp(magic, "FUGG", 4) == 0) return gguf_fail(g, ERR_UNSUPPORTED, "a big-endian file");
    if (version != 2 && version != 3)
        return error_set(g->e, ERR_UNSUPPORTED, "GGUF version %u%s (2 and 3 are read)", version,
                         version == 0x02000000 || version == 0x03000000 ? ", big-endian" : "");
    if (!cursor_u64(&g->in, &n_tensors) || !cursor_u64(&g->in, &n_keys))
        return gguf_fail(g, ERR_FORMAT, "the file ends in the header");
    status result = gguf_read_keys(g, n_keys);
    if (result != OK) return result;
    if (n_tensors > cursor_left(&g->in) / 24) /* an empty name, no dimensions, a type, an offset */
        return error_set(g->e, ERR_FORMAT, "GGUF: %llu tensors in a file of %zu bytes", (unsigned long long)n_tensors,
                         g->in.size);
    for (uint64_t i = 0; i < n_tensors && result == OK; i++) result = read_tensor(g);
    return result == OK ? place_tensors(g, first) : result;
}

static status open_gguf(reader *r, int shard, error *e) {
    const source *s = &r->sources[shard];
    gguf g = {.r = r, .shard = shard, .in = {.data = s->data, .size = s->size}, .alignment = DEFAULT_ALIGNMENT, .e = e};
    status result = read_all(&g);
    for (int i = 0; i < 256; i++) json_decref(g.small[i]);
    return result;
}

const container_format container_gguf = {.kind = CHECKPOINT_GGUF, .recognise = recognise, .open = open_gguf};
