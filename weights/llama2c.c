/* llama2.c's .bin files, all three versions. There are no names in them: the tensors get those of Meta's checkpoints.
 *
 *   version 0   | 7 i32: dim hidden_dim n_layers n_heads n_kv_heads vocab_size seq_len |
 *               | fp32: tok_embeddings | attention_norm | wq | wk | wv | wo | ffn_norm | w1 | w2 | w3 | norm | (rotation table) | [output] |
 *               vocab_size < 0: the head has weights of its own (output); each item holds all layers, one after the other
 *   version 1   | "24ka" | i32 1 | the 7 i32 | u8: head is the embedding | zeros up to 256 |
 *               | fp32: attention_norm | ffn_norm | norm | tok_embeddings | wq | wk | wv | wo | w1 | w2 | w3 | [output] |
 *   version 2   | "24ka" | i32 2 | the 7 i32 | u8 | i32 group | zeros up to 256 |
 *               | fp32: attention_norm | ffn_norm | norm |
 *               | tok_embeddings | wq | ... | w3 | [output], each (of each layer): int8 elements, then an fp32 scale a group |
 *
 * Source: export.py, run.c and runq.c of llama2.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/container.h"
#include "weights/cursor.h"

enum { MAGIC = 0x616b3432, HEADER_BYTES = 256 };

typedef struct {
    int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
} header_numbers;

typedef struct {
    header_numbers h; /* vocab_size > 0 */
    int version, group;
    bool tied;
    size_t start; /* of the weights */
} header;

/* The tensors, and the order they lie in. [rows, cols]; cols 0: a vector of `rows`. */
typedef enum { DIM, HIDDEN, Q_DIM, KV_DIM, VOCAB, NO_DIM } extent;
typedef struct {
    const char *name;
    bool per_layer;
    extent rows, cols;
} item;

static const item attention_norm = {"attention_norm", true, DIM, NO_DIM}, ffn_norm = {"ffn_norm", true, DIM, NO_DIM};
static const item wq = {"attention.wq", true, Q_DIM, DIM}, wk = {"attention.wk", true, KV_DIM, DIM},
                  wv = {"attention.wv", true, KV_DIM, DIM};
static const item wo = {"attention.wo", true, DIM, Q_DIM};
static const item w1 = {"feed_forward.w1", true, HIDDEN, DIM}, w2 = {"feed_forward.w2", true, DIM, HIDDEN};
static const item w3 = {"feed_forward.w3", true, HIDDEN, DIM};
static const item tok_embeddings = {"tok_embeddings", false, VOCAB, DIM}, norm = {"norm", false, DIM, NO_DIM};
static const item output = {"output", false, VOCAB, DIM};
static const item rotation = {NULL, false, NO_DIM, NO_DIM}; /* version 0: cos and sin, [seq_len, head_dim/2] each; not read */

static const item *const order_0[] = {&tok_embeddings, &attention_norm, &wq,     &wk, &wv, &wo, &ffn_norm, &w1, &w2, &w3,
                                      &norm,           &rotation,       &output, NULL};
static const item *const order_1[] = {&attention_norm, &ffn_norm, &norm, &tok_embeddings, &wq, &wk, &wv, &wo, &w1, &w2, &w3,
                                      &output,         NULL};

static size_t extent_of(const header *h, extent x) {
    size_t dim = (size_t)h->h.dim;
    switch (x) {
    case DIM:
    case Q_DIM:
        return dim;
    case HIDDEN:
        return (size_t)h->h.hidden_dim;
    case KV_DIM:
        return dim / (size_t)h->h.n_heads * (size_t)h->h.n_kv_heads;
    case VOCAB:
        return (size_t)h->h.vocab_size;
    case NO_DIM:
        break;
    }
    return 1;
}

/* Elements of one tensor of an item, and how many tensors there are. */
static bool item_elems(const header *h, const item *i, size_t *n, size_t *count) {
    if (i == &rotation) {
        *count = 2;
        return size_mul((size_t)h->h.seq_len, (size_t)(h->h.dim / h->h.n_heads / 2), n);
    }
    *count = i->per_layer ? (size_t)h->h.n_layers : 1;
    return size_mul(extent_of(h, i->rows), extent_of(h, i->cols), n);
}

static bool quantised(const header *h, const item *i) {
    return h->version == 2 && i->cols != NO_DIM;
}

static bool tensor_bytes_of(const header *h, const item *i, size_t n, size_t *bytes) {
    if (!quantised(h, i)) return size_mul(n, sizeof(float), bytes);
    size_t scales;
    return size_mul(n / (size_t)h->group, sizeof(float), &scales) && size_add(n, scales, bytes);
}

static const item *const *order_of(const header *h) {
    return h->version == 0 ? order_0 : order_1;
}

static bool skipped(const header *h, const item *i) {
    return i == &output && h->tied;
}

/* The whole file's size as the header has it. False: beyond 64 bits. */
static bool file_size(const header *h, size_t *size) {
    *size = h->start;
    for (const item *const *i = order_of(h); *i != NULL; i++) {
        size_t n, count, bytes, all;
        if (skipped(h, *i)) continue;
        if (!item_elems(h, *i, &n, &count) || !tensor_bytes_of(h, *i, n, &bytes) || !size_mul(bytes, count, &all) ||
            !size_add(*size, all, size))
            return false;
    }
    return true;
}

static status check_numbers(const header *h, error *e) {
    const header_numbers *n = &h->h;
    const struct {
        const char *name;
        int32_t value;
    } positive[] = {{"dim", n->dim},         {"hidden_dim", n->hidden_dim}, {"n_layers", n->n_layers},
                    {"n_heads", n->n_heads}, {"n_kv_heads", n->n_kv_heads}, {"vocab_size", n->vocab_size},
                    {"seq_len", n->seq_len}};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (positive[i].value <= 0)
            return error_set(e, ERR_FORMAT, "llama2.c header: %s is %d", positive[i].name, positive[i].value);
    if (n->dim % n->n_heads != 0)
        return error_set(e, ERR_FORMAT, "llama2.c header: dim %d does not divide into %d heads", n->dim, n->n_heads);
    if (n->n_heads % n->n_kv_heads != 0)
        return error_set(e, ERR_FORMAT, "llama2.c header: %d heads do not divide among %d K/V heads", n->n_heads,
                         n->n_kv_heads);
    if (n->dim / n->n_heads % 2 != 0)
        return error_set(e, ERR_FORMAT, "llama2.c header: a head of %d elements has no pairs to rotate", n->dim / n->n_heads);
    if (h->version == 2 && (h->group <= 0 || n->dim % h->group != 0))
        return error_set(e, ERR_FORMAT, "llama2.c header: dim %d does not divide into groups of %d", n->dim, h->group);
    return OK;
}

static status read_header(const uint8_t *data, size_t size, header *h, error *e) {
    cursor c = {.data = data, .size = size};
    uint32_t magic;
    *h = (header){.version = 0};
    if (cursor_u32(&c, &magic) && magic == MAGIC) {
        int32_t version, group = 0;
        uint8_t tied;
        if (!cursor_i32(&c, &version) || !cursor_copy(&c, &h->h, sizeof h->h) || !cursor_u8(&c, &tied) ||
            !cursor_i32(&c, &group) || size < HEADER_BYTES)
            return error_set(e, ERR_FORMAT, "llama2.c: the file ends in the header");
        if (version != 1 && version != 2)
            return error_set(e, ERR_UNSUPPORTED, "llama2.c: version %d (0, 1 and 2 are read)", version);
        if (tied > 1) return error_set(e, ERR_FORMAT, "llama2.c header: the flag of the shared head is %u", tied);
        h->version = version;
        h->group = version == 2 ? group : 0;
        h->tied = tied == 1;
        h->start = HEADER_BYTES;
    } else {
        c.at = 0;
        if (!cursor_copy(&c, &h->h, sizeof h->h)) return error_set(e, ERR_FORMAT, "llama2.c: the file ends in the header");
        h->tied = h->h.vocab_size > 0;
        if (h->h.vocab_size == INT32_MIN) return error_set(e, ERR_FORMAT, "llama2.c header: vocab_size is %d", h->h.vocab_size);
        if (h->h.vocab_size < 0) h->h.vocab_size = -h->h.vocab_size;
        h->start = sizeof h->h;
    }
    return check_numbers(h, e);
}

/* Without a magic number, a header is known by its numbers: surely when the file has just their size. */
static recognition recognise(const uint8_t *data, size_t size) {
    header h;
    size_t expected;
    uint32_t magic;
    int32_t numbers[7];
    if (size >= 4 && (memcpy(&magic, data, 4), magic == MAGIC)) return SURELY_MINE;
    if (size < 20) return NOT_MINE;
    if (read_header(data, size, &h, NULL) == OK && file_size(&h, &expected) && expected == size) return SURELY_MINE;
    memcpy(numbers, data, size < sizeof numbers ? size : sizeof numbers);
    int likely = 0; /* of the first five: sizes of a model, one of them spoilt perhaps */
    for (int i = 0; i < 5; i++) likely += numbers[i] > 0 && numbers[i] <= 1 << 20;
    return likely >= 3 && numbers[3] > 0 && numbers[3] <= 65536 ? MAYBE_MINE : NOT_MINE;
}

/* One tensor of an item, at *at, which moves on. */
static status add_tensor(reader *r, int shard, const header *h, const item *i, size_t layer, size_t *at, error *e) {
    char name[64];
    size_t n, count, bytes = 0;
    int length = i->per_layer ? snprintf(name, sizeof name, "layers.%zu.%s.weight", layer, i->name)
                              : snprintf(name, sizeof name, "%s.weight", i->name);
    if (!item_elems(h, i, &n, &count) || !tensor_bytes_of(h, i, n, &bytes))
        return error_set(e, ERR_FORMAT, "tensor %s: its size overflows", name);
    tensor t = {.type = DTYPE_F32, .type_name = "float32", .shard = shard, .n_dims = i->cols == NO_DIM ? 1 : 2};
    t.shape[0] = (int64_t)extent_of(h, i->rows);
    t.shape[1] = t.n_dims == 2 ? (int64_t)extent_of(h, i->cols) : 0;
    if (quantised(h, i)) {
        t.type = DTYPE_I8G;
        t.type_name = "int8 in groups";
        t.group = h->group;
        t.scales_offset = *at + n;
    }
    t.offset = *at;
    t.span = bytes;
    *at += bytes;
    if (!tensor_row_major(&t)) return error_set(e, ERR_FORMAT, "tensor %s: its size overflows", name);
    return reader_add(r, name, (size_t)length, &t, e);
}

static status fill_meta(json_t *meta, const header *h, error *e) {
    const header_numbers *n = &h->h;
    json_t *all = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "version", h->version, "dim", n->dim, "hidden_dim",
                            n->hidden_dim, "n_layers", n->n_layers, "n_heads", n->n_heads, "n_kv_heads", n->n_kv_heads,
                            "vocab_size", n->vocab_size, "max_seq_len", n->seq_len, "shared_classifier", h->tied);
    bool good = all != NULL && json_object_update(meta, all) == 0;
    if (h->version == 2) good = json_object_set_new(meta, "group_size", json_integer(h->group)) == 0 && good;
    json_decref(all);
    return good ? OK : error_set(e, ERR_MEMORY, "no memory");
}

static status open_llama2c(reader *r, int shard, error *e) {
    const source *s = &r->sources[shard];
    header h;
    size_t expected, at;
    status result = read_header(s->data, s->size, &h, e);
    if (result != OK) return result;
    if (!file_size(&h, &expected))
        return error_set(e, ERR_FORMAT, "llama2.c: the file is too short: its header asks for more than 64 bits can say");
    if (s->size != expected)
        return error_set(e, ERR_FORMAT, "llama2.c: the file is too %s: its header asks for %zu bytes, it has %zu",
                         s->size < expected ? "short" : "long", expected, s->size);
    at = h.start;
    for (const item *const *i = order_of(&h); *i != NULL; i++) {
        size_t n = 0, count = 0, bytes = 0;
        if (skipped(&h, *i)) continue;
        if (*i == &rotation) {
            if (item_elems(&h, *i, &n, &count) && tensor_bytes_of(&h, *i, n, &bytes)) at += count * bytes;
            continue;
        }
        size_t layers = (*i)->per_layer ? (size_t)h.h.n_layers : 1;
        for (size_t layer = 0; layer < layers && result == OK; layer++) result = add_tensor(r, shard, &h, *i, layer, &at, e);
        if (result != OK) return result;
    }
    return fill_meta(r->c->meta, &h, e);
}

const container_format container_llama2c = {.kind = CHECKPOINT_LLAMA2C, .recognise = recognise, .open = open_llama2c};
