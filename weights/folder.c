/* folder.c - checkpoints of more than one file: Hugging Face folders, and indexes of shards.
 *
 *   FOLDER/config.json                     the configuration: becomes the metadata
 *   FOLDER/model.safetensors               the weights: the first of these names that is there
 *   FOLDER/model.safetensors.index.json    {"weight_map": {"TENSOR": "SHARD FILE", ...}}
 *   FOLDER/pytorch_model.bin[.index.json]
 *   FOLDER/ckpt.pt                         nanoGPT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weights/container.h"

/* FOLDER/NAME, which the caller frees; NULL: out of memory. */
static char *join(const char *folder, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", folder, name) >= 0 ? path : NULL;
}

status folder_open(reader *r, error *e) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "ckpt.pt",           "model.pt"};
    const char *folder = r->c->folder;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = join(folder, names[i]);
        if (path == NULL) return error_set(e, ERR_MEMORY, "%s: no memory", folder);
        bool there = access(path, F_OK) == 0;
        status result = there ? reader_open_source(r, path, e) : OK;
        free(path);
        if (there) return result;
    }
    return error_set(
        e, ERR_IO,
        "%s: a folder without weights (looked for model.safetensors, pytorch_model.bin, their .index.json, ckpt.pt and "
        "model.pt)",
        folder);
}

/* A shard must be a file of the same folder. */
static bool plain_name(const char *name) {
    return name != NULL && name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static status open_shard(reader *r, json_t *opened, const char *name, error *e) {
    char *path = join(r->c->folder, name);
    status result = path != NULL ? OK : error_set(e, ERR_MEMORY, "no memory");
    if (result == OK) result = reader_open_source(r, path, e);
    if (result == OK && r->c->kind != CHECKPOINT_SAFETENSORS && r->c->kind != CHECKPOINT_PT_ZIP &&
        r->c->kind != CHECKPOINT_PT_LEGACY)
        result = error_set(e, ERR_FORMAT, "%s: is no shard of a checkpoint", path);
    if (result == OK && json_object_set_new_nocheck(opened, name, json_integer(r->n_sources - 1)) != 0)
        result = error_set(e, ERR_MEMORY, "no memory");
    free(path);
    return result;
}

/* Opens every shard of the map once, then looks for each tensor where the map says it is. */
static status open_shards(reader *r, json_t *map, json_t *opened, error *e) {
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file) {
        const char *shard = json_string_value(file);
        if (!plain_name(shard) || json_string_length(file) != strlen(shard))
            return error_set(e, ERR_FORMAT, "tensor %s: its shard \"%s\" is not a file's name in the same folder", name,
                             shard != NULL ? shard : "(no text)");
        if (json_object_get(opened, shard) != NULL) continue;
        status result = open_shard(r, opened, shard, e);
        if (result != OK) return result;
    }
    json_object_foreach(map, name, file) {
        const tensor *t = checkpoint_find(r->c, name);
        const char *shard = json_string_value(file);
        if (t == NULL || t->shard != json_integer_value(json_object_get(opened, shard)))
            return error_set(e, ERR_FORMAT, "tensor %s: is not in %s, where the index says", name, shard);
    }
    return OK;
}

status folder_open_index(reader *r, error *e) {
    json_t *map = json_incref(json_object_get(r->c->meta, "weight_map")), *opened = json_object();
    json_object_clear(r->c->meta);
    status result = opened == NULL ? error_set(e, ERR_MEMORY, "no memory") : OK;
    if (result == OK && r->n_sources > 1) result = error_set(e, ERR_FORMAT, "an index inside an index");
    if (result == OK && r->c->n_tensors > 0) result = error_set(e, ERR_FORMAT, "an index with weights in it");
    if (result == OK) result = open_shards(r, map, opened, e);
    json_decref(map);
    json_decref(opened);
    return result;
}

status folder_read_config(reader *r, error *e) {
    char *path = join(r->c->folder, "config.json");
    if (path == NULL) return error_set(e, ERR_MEMORY, "no memory");
    const uint8_t *data = NULL;
    size_t size = 0;
    json_t *config = NULL;
    status result = OK;
    if (access(path, F_OK) == 0) {
        result = file_map(path, &data, &size, e);
        if (result == OK) result = json_load_bounded(&config, r, data, size, 0, e);
        if (result == OK && !json_is_object(config)) result = error_set(e, ERR_FORMAT, "is no JSON object");
        if (result == OK && json_object_update(r->c->meta, config) != 0) result = error_set(e, ERR_MEMORY, "no memory");
        if (result != OK) error_prefix(e, path);
    }
    json_decref(config);
    file_unmap(data, size);
    free(path);
    return result;
}
