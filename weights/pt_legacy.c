/* pt_legacy.c - PyTorch files before 1.6 (and _use_new_zipfile_serialization=False): pickles one after the other, then storages.
 *
 *   | pickle: 0x1950a86a20f9469cfc6c | pickle: 1001 | pickle: {"little_endian": True, ...} | pickle: the data |
 *   | pickle: ["KEY", ...]           | for each key:  n (u64), then n elements                                 |
 *
 * The type of a key's elements is in the data's pickle, where tensors name their storage. */
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/cursor.h"
#include "weights/pickle.h"

static const uint8_t magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static recognition recognise(const uint8_t *data, size_t size) {
    if (size < 2 || data[0] != 0x80) return NOT_MINE;
    return memmem(data, size < 40 ? size : 40, magic, sizeof magic) != NULL ? SURELY_MINE : NOT_MINE;
}

typedef struct {
    reader *r;
    int shard;
    json_t *places; /* KEY -> where its elements start */
} legacy;

static status next_pickle(reader *r, cursor *c, pickle *p, error *e) {
    status result = pickle_read(p, r, c->data + c->at, cursor_left(c), e);
    if (result != OK) return result;
    c->at += p->used;
    if (reader_charge(r, p->used, e)) return OK; /* the pages walked through */
    pickle_free(p);
    return ERR_LIMIT;
}

/* The three pickles before the data. */
static status read_preamble(reader *r, cursor *c, error *e) {
    pickle p;
    for (int i = 0; i < 3; i++) {
        status result = next_pickle(r, c, &p, e);
        if (result != OK) return result;
        const pickle_node *root = &p.nodes[p.root];
        if (i == 1 && (root->kind != PICKLE_INT || root->i != 1001))
            result = error_set(e, ERR_UNSUPPORTED, "legacy: its protocol is not 1001");
        for (uint32_t cell = i == 2 && root->kind == PICKLE_DICT ? root->first : 0; cell != 0 && result == OK;) {
            const pickle_cell *key = &p.cells[cell], *value = &p.cells[key->next];
            const pickle_node *k = &p.nodes[key->value], *v = &p.nodes[value->value];
            if (k->kind == PICKLE_TEXT && k->n == 13 && memcmp(p.bytes + k->at, "little_endian", 13) == 0 &&
                v->kind == PICKLE_BOOL && !v->i)
                result = error_set(e, ERR_UNSUPPORTED, "legacy: big-endian (save it again on a little-endian machine)");
            cell = value->next;
        }
        pickle_free(&p);
        if (result != OK) return result;
    }
    return OK;
}

/* The bytes that each storage's elements take, by its key: from the storages that tensors name. */
static status collect_sizes(const pickle *p, json_t *sizes, error *e) {
    for (uint32_t i = 1; i < p->n_nodes; i++) {
        pickle_storage s;
        if (p->nodes[i].kind != PICKLE_STORAGE) continue;
        status result = pickle_storage_read(p, i, &s, e);
        if (result != OK) return result;
        int64_t bytes = s.n * s.type->bytes;
        const json_t *known = json_object_getn(sizes, s.key, s.key_bytes);
        if (known != NULL && json_integer_value(known) != bytes)
            return error_set(e, ERR_FORMAT, "storage %.*s: has two sizes", (int)(s.key_bytes < 100 ? s.key_bytes : 100), s.key);
        if (known != NULL) continue;
        if (!reader_charge(p->r, 2 * (JSON_COST_MEMBER + JSON_COST_NUMBER + s.key_bytes), e)) return ERR_LIMIT;
        if (json_object_setn_new_nocheck(sizes, s.key, s.key_bytes, json_integer(bytes)) != 0)
            return error_set(e, ERR_MEMORY, "no memory");
    }
    return OK;
}

/* After the pickles: where each storage lies. `keys`: the list of them; sizes become places. */
static status find_places(const pickle *keys, json_t *sizes, json_t *places, cursor *c, error *e) {
    const pickle_node *list = &keys->nodes[keys->root];
    if (list->kind != PICKLE_LIST) return error_set(e, ERR_FORMAT, "legacy: no list of storages");
    for (uint32_t cell = list->first; cell != 0; cell = keys->cells[cell].next) {
        const pickle_node *key = &keys->nodes[keys->cells[cell].value];
        if (key->kind != PICKLE_TEXT) return error_set(e, ERR_FORMAT, "legacy: a storage's key is no text");
        const char *name = (const char *)keys->bytes + key->at;
        int shown = (int)(key->n < 100 ? key->n : 100);
        const json_t *size = json_object_getn(sizes, name, key->n);
        uint64_t n;
        const uint8_t *elements;
        if (size == NULL) return error_set(e, ERR_FORMAT, "legacy: storage %.*s belongs to no tensor", shown, name);
        if (!cursor_u64(c, &n))
            return error_set(e, ERR_FORMAT, "legacy: storage %.*s is missing (is the file cut off?)", shown, name);
        uint64_t bytes = (uint64_t)json_integer_value(size);
        size_t place = c->at;
        if (!cursor_take(c, bytes, &elements))
            return error_set(e, ERR_FORMAT, "legacy: storage %.*s: %llu bytes, %zu are left (is the file cut off?)", shown,
                             name, (unsigned long long)bytes, cursor_left(c));
        if (n > bytes || (n == 0) != (bytes == 0) || (n > 0 && bytes % n != 0))
            return error_set(e, ERR_FORMAT, "legacy: storage %.*s: two numbers of elements", shown, name);
        if (json_object_setn_new_nocheck(places, name, key->n, json_integer((json_int_t)place)) != 0)
            return error_set(e, ERR_MEMORY, "no memory");
    }
    return OK;
}

static status add_tensor(void *user, tensor *t, const pickle_storage *storage, const char *name, error *e) {
    legacy *l = user;
    const json_t *place = json_object_getn(l->places, storage->key, storage->key_bytes);
    if (place == NULL)
        return error_set(e, ERR_FORMAT, "tensor %s: its storage %.*s is not in the file", name,
                         (int)(storage->key_bytes < 100 ? storage->key_bytes : 100), storage->key);
    t->shard = l->shard;
    t->offset += (size_t)json_integer_value(place);
    return reader_add(l->r, name, strlen(name), t, e);
}

/* The data's pickle is read; behind it at c: the keys and the storages. */
static status open_data(legacy *l, const pickle *data, cursor *c, error *e) {
    pickle keys = {0};
    json_t *sizes = json_object();
    l->places = json_object();
    status result = sizes != NULL && l->places != NULL ? OK : error_set(e, ERR_MEMORY, "no memory");
    if (result == OK) result = collect_sizes(data, sizes, e);
    if (result == OK) result = next_pickle(l->r, c, &keys, e);
    if (result == OK) result = find_places(&keys, sizes, l->places, c, e);
    if (result == OK && cursor_left(c) > 0)
        result = error_set(e, ERR_FORMAT, "legacy: %zu bytes after the last storage", cursor_left(c));
    if (result == OK) result = pickle_visit(&(pickle_visitor){.p = data, .r = l->r, .user = l, .found = add_tensor}, e);
    pickle_free(&keys);
    json_decref(sizes);
    json_decref(l->places);
    return result;
}

static status open_legacy(reader *r, int shard, error *e) {
    cursor c = {.data = r->sources[shard].data, .size = r->sources[shard].size};
    legacy l = {.r = r, .shard = shard};
    pickle data = {0};
    status result = read_preamble(r, &c, e);
    if (result == OK) result = next_pickle(r, &c, &data, e);
    if (result == OK) result = open_data(&l, &data, &c, e);
    pickle_free(&data);
    return result;
}

const container_format container_pt_legacy = {.kind = CHECKPOINT_PT_LEGACY, .recognise = recognise, .open = open_legacy};
