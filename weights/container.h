/* container.h - what the readers of the single formats share. Private to weights/.
 *
 * A checkpoint is read from one or more sources (shards). Each source is a file's bytes, mapped, and the container that knows
 * their format. A container lists the tensors and the metadata when it is opened, and gives out bytes afterwards.
 *
 * Memory: the reader has a budget, the size of its files plus 48 MiB (the rest of the promised 64 MiB is for the program
 * itself). What a container allocates in step with a file's contents is charged before it is allocated, and so are the pages
 * of the map that it walks through. A small file thus cannot ask for much, whatever its numbers say. */
#ifndef TALLY_CONTAINER_H
#define TALLY_CONTAINER_H

#include "weights/checkpoint.h"

typedef struct reader reader;
typedef struct container_format container_format;

/* One file. */
typedef struct {
    char *path;
    const uint8_t *data; /* the whole file; NULL when it is empty */
    size_t size;
    bool mapped; /* else borrowed from the caller of checkpoint_open_bytes */
    const container_format *container;
    void *state; /* the container's own, given to its close */
} source;

struct reader {
    checkpoint *c;
    source *sources; /* [n_sources] */
    int n_sources;
    json_t *index;   /* tensor name -> its position in c->tensors */
    size_t capacity; /* of c->tensors */
    size_t budget;   /* bytes that may still be allocated */
};

/* How sure a container is, from the content, that a file is of its kind. */
typedef enum { NOT_MINE, MAYBE_MINE, SURELY_MINE } recognition;

struct container_format {
    checkpoint_kind kind;
    recognition (*recognise)(const uint8_t *data, size_t size);
    /* Adds the tensors (reader_add) and fills c->meta of source number `shard`. Messages without the file's name. */
    status (*open)(reader *r, int shard, error *e);
    /* NULL: the bytes lie in the map, at t->offset (and t->scales_offset). */
    status (*read)(source *s, const tensor *t, tensor_bytes *out, error *e);
    void (*close)(void *state);
};

extern const container_format container_gguf, container_pt_zip, container_llama2c, container_safetensors, container_pt_legacy,
    container_pickle, container_json;

/* Charges bytes to the budget; false (with a message) when they are more than what is left. */
bool reader_charge(reader *r, size_t bytes, error *e);
void reader_refund(reader *r, size_t bytes);

/* Adds a tensor; the name is copied (n bytes). shape, stride and n_dims are given. Computes n_elems and n_bytes unless the
 * type is DTYPE_OTHER (then n_bytes is given, n_elems is computed). Refuses: a name twice, a zero byte in a name, sizes that
 * overflow, a claim of more bytes than the file has. */
status reader_add(reader *r, const char *name, size_t n, tensor *t, error *e);

/* Row-major strides for t's shape. False when the number of elements overflows. */
bool tensor_row_major(tensor *t);

/* Opens one more source. The name in messages is `path`. */
status reader_open_source(reader *r, const char *path, error *e);

/* Maps a regular file read-only. An empty file gives data NULL. */
status file_map(const char *path, const uint8_t **data, size_t *size, error *e);
void file_unmap(const uint8_t *data, size_t size);
/* Lets the system take back the memory behind n bytes of a mapping that begins at map (NULL: nothing is done), and behind what the system
 * put there unasked before them: they are read from the file again when they are looked at again. */
void file_forget(const void *map, const void *data, size_t n);

/* Opens the weight files of a folder (c->folder). */
status folder_open(reader *r, error *e);
/* Opens the shards that c->meta's "weight_map" names, and takes the index out of c->meta. */
status folder_open_index(reader *r, error *e);
/* The config.json of c->folder into c->meta, when there is one. */
status folder_read_config(reader *r, error *e);

/* Parses JSON, after an estimate of the memory that it will take was charged. Duplicate keys are refused. */
status json_load_bounded(json_t **out, reader *r, const void *text, size_t size, size_t flags, error *e);

/* JSON values as hostile bytes may need them. The number: infinities and NaN, which JSON lacks, as text. NULL: out of memory. */
json_t *json_number(double x);
json_t *json_bytes(const void *bytes, size_t n); /* any bytes, valid UTF-8 or not */
/* About what jansson allocates for a value, and for one more member of an array or object. */
enum {
    JSON_COST_NUMBER = 32,
    JSON_COST_TEXT = 80,
    JSON_COST_ARRAY = 144,
    JSON_COST_OBJECT = 256,
    JSON_COST_ITEM = 16,
    JSON_COST_MEMBER = 112
};

/* checkpoint_open on bytes in memory, which stay the caller's: for tests and fuzzing (a sanitizer sees every byte past the end). */
status checkpoint_open_bytes(checkpoint **out, const char *name, const void *data, size_t size, error *e);

#endif
