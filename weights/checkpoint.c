#include "weights/checkpoint.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/sizes.h"
#include "weights/container.h"

enum { MEMORY_BEYOND_FILE = 48 << 20 };

static const container_format *const containers[] = {&container_gguf,        &container_pt_zip,    &container_llama2c,
                                                     &container_safetensors, &container_pt_legacy, &container_pickle,
                                                     &container_json};

const char *checkpoint_kind_name(checkpoint_kind kind) {
    static const char *const names[N_CHECKPOINT_KINDS] = {
        [CHECKPOINT_PT_ZIP] = "PyTorch", [CHECKPOINT_PT_LEGACY] = "PyTorch (legacy)", [CHECKPOINT_SAFETENSORS] = "safetensors",
        [CHECKPOINT_GGUF] = "GGUF",      [CHECKPOINT_LLAMA2C] = "llama2.c",           [CHECKPOINT_JSON] = "JSON",
        [CHECKPOINT_PICKLE] = "pickle",
    };
    return names[kind];
}

bool reader_charge(reader *r, size_t bytes, error *e) {
    if (bytes <= r->budget) {
        r->budget -= bytes;
        return true;
    }
    error_set(e, ERR_LIMIT, "would take more memory than the file's size and 48 MiB");
    return false;
}

void reader_refund(reader *r, size_t bytes) {
    r->budget += bytes;
}

bool tensor_row_major(tensor *t) {
    int64_t n = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        t->stride[d] = n;
        int64_t extent = t->shape[d] > 0 ? t->shape[d] : 1; /* an empty tensor has the strides of a full one */
        if (__builtin_mul_overflow(n, extent, &n)) return false;
    }
    return true;
}

/* n_elems and n_bytes from shape and type. */
static status tensor_size(tensor *t, const char *name, error *e) {
    size_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        if (t->shape[d] < 0)
            return error_set(e, ERR_FORMAT, "tensor %s: dimension %d is %lld", name, d, (long long)t->shape[d]);
    for (int d = 0; d < t->n_dims; d++)
        if (!size_mul(n, (size_t)t->shape[d], &n))
            return error_set(e, ERR_FORMAT, "tensor %s: the shape overflows 64 bits", name);
    t->n_elems = n;
    if (t->type == DTYPE_OTHER) return OK;
    size_t row = t->n_dims > 0 ? (size_t)t->shape[t->n_dims - 1] : 1, row_bytes;
    if (!dtype_row_bytes(t->type, row, &row_bytes) || !size_mul(row_bytes, row > 0 ? n / row : 0, &t->n_bytes))
        return error_set(e, ERR_FORMAT, "tensor %s: its size overflows 64 bits", name);
    if (t->group > 0) t->n_bytes += n / (size_t)t->group * sizeof(float);
    return OK;
}

/* What one tensor takes in memory: the struct, its name, its entry in the index. */
static bool charge_tensor(reader *r, size_t name_bytes, error *e) {
    return reader_charge(r, 2 * sizeof(tensor) + 2 * name_bytes + JSON_COST_MEMBER + JSON_COST_NUMBER, e);
}

static status tensors_reserve(reader *r, error *e) {
    checkpoint *c = r->c;
    if (c->n_tensors < r->capacity) return OK;
    size_t capacity = r->capacity > 0 ? 2 * r->capacity : 64;
    tensor *bigger = realloc(c->tensors, capacity * sizeof *bigger);
    if (bigger == NULL) return error_set(e, ERR_MEMORY, "no memory for %zu tensors", capacity);
    c->tensors = bigger;
    r->capacity = capacity;
    return OK;
}

status reader_add(reader *r, const char *name, size_t n, tensor *t, error *e) {
    checkpoint *c = r->c;
    if (memchr(name, '\0', n) != NULL)
        return error_set(e, ERR_FORMAT, "tensor number %zu: a zero byte in its name", c->n_tensors);
    if (!charge_tensor(r, n, e)) return e != NULL ? e->code : ERR_LIMIT;
    if (tensors_reserve(r, e) != OK) return ERR_MEMORY;
    char *copy = strndup(name, n);
    if (copy == NULL) return error_set(e, ERR_MEMORY, "no memory for a tensor's name");
    status result = tensor_size(t, copy, e);
    const source *s = &r->sources[t->shard];
    if (result == OK && t->n_bytes > s->size && t->n_bytes - s->size > MEMORY_BEYOND_FILE)
        result = error_set(e, ERR_FORMAT, "tensor %s: claims %zu bytes, the file has %zu", copy, t->n_bytes, s->size);
    if (result == OK && json_object_get(r->index, copy) != NULL)
        result = error_set(e, ERR_FORMAT, "tensor %s: is there twice", copy);
    if (result == OK && json_object_set_new_nocheck(r->index, copy, json_integer((json_int_t)c->n_tensors)) != 0)
        result = error_set(e, ERR_MEMORY, "no memory for the index of tensors");
    if (result != OK) {
        free(copy);
        return result;
    }
    t->name = copy;
    c->tensors[c->n_tensors++] = *t;
    return OK;
}

/* The container that is surest; NULL: none knows it. */
static const container_format *find_container(const uint8_t *data, size_t size) {
    const container_format *best = NULL;
    recognition sureness = NOT_MINE;
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
        recognition r = size > 0 ? containers[i]->recognise(data, size) : NOT_MINE;
        if (r > sureness) best = containers[i], sureness = r;
    }
    return best;
}

static status source_start(reader *r, source *s, error *e) {
    s->container = find_container(s->data, s->size);
    if (s->size == 0) return error_set(e, ERR_FORMAT, "is empty");
    if (s->container == NULL && s->size < 8)
        return error_set(e, ERR_FORMAT, "has only %zu bytes: no checkpoint is so short", s->size);
    if (s->container == NULL)
        return error_set(e, ERR_FORMAT,
                         "is no checkpoint of a kind that Tally knows (PyTorch, safetensors, GGUF, llama2.c, JSON weights)");
    if (!size_add(r->budget, s->size, &r->budget)) r->budget = SIZE_MAX;
    r->c->kind = s->container->kind;
    return s->container->open(r, r->n_sources - 1, e);
}

static source *source_new(reader *r, const char *path, error *e) {
    source *bigger = realloc(r->sources, (size_t)(r->n_sources + 1) * sizeof *bigger);
    char *copy = strdup(path);
    if (bigger != NULL) r->sources = bigger;
    if (bigger == NULL || copy == NULL) {
        free(copy);
        error_set(e, ERR_MEMORY, "no memory for one more file");
        return NULL;
    }
    source *s = &r->sources[r->n_sources++];
    *s = (source){.path = copy};
    return s;
}

status reader_open_source(reader *r, const char *path, error *e) {
    source *s = source_new(r, path, e);
    if (s == NULL) return error_prefix(e, path);
    status result = file_map(path, &s->data, &s->size, e);
    s->mapped = s->data != NULL;
    if (result == OK) {
        const source mapped = *s; /* an index opens its shards: there are more sources afterwards, elsewhere */
        result = source_start(r, s, e);
        if (mapped.mapped) file_forget(mapped.data, mapped.data, mapped.size); /* what was read of it is a tree by now */
    }
    if (result != OK && e != NULL && strncmp(e->message, path, strlen(path)) != 0) error_prefix(e, path);
    return result;
}

/* The folder part of a path: "." where it has none. */
static char *folder_of(const char *path, bool is_folder) {
    const char *slash = strrchr(path, '/');
    if (is_folder) return strdup(path);
    if (slash == NULL) return strdup(".");
    return strndup(path, slash > path ? (size_t)(slash - path) : 1);
}

static status reader_new(reader **out, const char *path, bool is_folder, error *e) {
    reader *r = calloc(1, sizeof *r);
    checkpoint *c = calloc(1, sizeof *c);
    *out = r;
    if (r == NULL || c == NULL) {
        free(r), free(c);
        *out = NULL;
        return error_set(e, ERR_MEMORY, "%s: no memory", path);
    }
    r->c = c;
    r->budget = MEMORY_BEYOND_FILE;
    r->index = json_object();
    *c = (checkpoint){.path = strdup(path), .folder = folder_of(path, is_folder), .meta = json_object(), .reader = r};
    if (c->path != NULL && c->folder != NULL && c->meta != NULL && r->index != NULL) return OK;
    checkpoint_close(c);
    *out = NULL;
    return error_set(e, ERR_MEMORY, "%s: no memory", path);
}

/* Formats that hold tensors only have their configuration beside them. */
static bool needs_config(const checkpoint *c) {
    size_t own = json_object_size(c->meta);
    if (json_object_get(c->meta, "__metadata__") != NULL) own--;
    return own == 0 && (c->kind == CHECKPOINT_SAFETENSORS || c->kind == CHECKPOINT_PT_ZIP || c->kind == CHECKPOINT_PT_LEGACY);
}

status checkpoint_open(checkpoint **out, const char *path, error *e) {
    struct stat info;
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    reader *r;
    *out = NULL;
    if (reader_new(&r, path, is_folder, e) != OK) return ERR_MEMORY;
    status result = is_folder ? folder_open(r, e) : reader_open_source(r, path, e);
    if (result == OK && needs_config(r->c)) result = folder_read_config(r, e);
    if (result != OK) {
        checkpoint_close(r->c);
        return result;
    }
    *out = r->c;
    return OK;
}

status checkpoint_open_bytes(checkpoint **out, const char *name, const void *data, size_t size, error *e) {
    reader *r;
    *out = NULL;
    if (reader_new(&r, name, false, e) != OK) return ERR_MEMORY;
    source *s = source_new(r, name, e);
    status result = s != NULL ? OK : ERR_MEMORY;
    if (result == OK) {
        s->data = data;
        s->size = size;
        result = source_start(r, s, e);
    }
    if (result != OK) {
        error_prefix(e, name);
        checkpoint_close(r->c);
        return result;
    }
    *out = r->c;
    return OK;
}

void checkpoint_close(checkpoint *c) {
    if (c == NULL) return;
    reader *r = c->reader;
    for (size_t i = 0; i < c->n_tensors; i++) free(c->tensors[i].name);
    for (int i = 0; i < r->n_sources; i++) {
        source *s = &r->sources[i];
        if (s->state != NULL) s->container->close(s->state);
        if (s->mapped) file_unmap(s->data, s->size);
        free(s->path);
    }
    json_decref(r->index);
    json_decref(c->meta);
    free(r->sources);
    free(c->tensors);
    free(c->path);
    free(c->folder);
    free(r);
    free(c);
}

const tensor *checkpoint_find(const checkpoint *c, const char *name) {
    const reader *r = c->reader;
    const json_t *position = json_object_get(r->index, name);
    return position != NULL ? &c->tensors[json_integer_value(position)] : NULL;
}

status tensor_read(checkpoint *c, const tensor *t, tensor_bytes *out, error *e) {
    reader *r = c->reader;
    source *s = &r->sources[t->shard];
    *out = (tensor_bytes){0};
    if (s->container->read == NULL) {
        *out = (tensor_bytes){.data = s->data + t->offset, .in_place = true};
        if (s->mapped) out->map = s->data, out->n_mapped = t->span;
        if (t->group > 0) out->scales = s->data + t->scales_offset;
        return OK;
    }
    status result = s->container->read(s, t, out, e);
    if (result != OK) {
        tensor_release(out);
        return error_prefix(e, s->path);
    }
    return OK;
}

void tensor_release(tensor_bytes *b) {
    free(b->owned);
    file_forget(b->map, b->data, b->n_mapped);
    *b = (tensor_bytes){0};
}
