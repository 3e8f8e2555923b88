/* pickle.h - a pickle read as data. Private to weights/.
 *
 * A pickle is a program for a stack machine that can call any Python function. This machine knows only the instructions that
 * build numbers, texts, lists, tuples and dicts, and only the few names of pickle_globals by which torch writes tensors; it
 * turns those into nodes and calls nothing. Any other instruction or name is refused, and the message says which.
 *
 *   ... 63 'torch._utils\n_rebuild_tensor_v2\n'  GLOBAL      push the name
 *       28 28 58 07000000 'storage' ... 74 51    BINPERSID   push a storage: ('storage', type, key, location, n)
 *       4b 00 4b 02 4b 03 86 ...             74  TUPLE       push (storage, offset, (2, 3), (3, 1), ...)
 *       52                                       REDUCE      pop both, push the tensor node
 *
 * Source: the comments of Python's pickletools; torch/_utils.py for the tensors. Protocols 2 to 5. */
#ifndef TALLY_PICKLE_H
#define TALLY_PICKLE_H

#include "weights/container.h"

typedef enum {
    PICKLE_NOTHING, /* node 0 */
    PICKLE_NONE,
    PICKLE_BOOL,  /* i */
    PICKLE_INT,   /* i */
    PICKLE_BIG,   /* an integer beyond 64 bits: at, n: its bytes, lowest first */
    PICKLE_FLOAT, /* f */
    PICKLE_TEXT,  /* at, n: UTF-8 in the pickle itself */
    PICKLE_BYTES, /* at, n */
    PICKLE_LIST,  /* first: its items; sets too */
    PICKLE_TUPLE,
    PICKLE_DICT,    /* first: key, value, key, value ... ; OrderedDict and Namespace too */
    PICKLE_OBJECT,  /* a Namespace before its attributes are given: then a DICT */
    PICKLE_GLOBAL,  /* i: index into pickle_globals */
    PICKLE_STORAGE, /* first: the items of its persistent id */
    PICKLE_TENSOR   /* first: the items of its arguments */
} pickle_kind;

/* What a known name stands for. */
typedef enum {
    GLOBAL_DICT,
    GLOBAL_NAMESPACE, /* argparse.Namespace, a configuration class: a dict that is filled by BUILD */
    GLOBAL_SET,
    GLOBAL_TUPLE, /* torch.Size */
    GLOBAL_TENSOR,
    GLOBAL_PARAMETER, /* a tensor in a wrapping */
    GLOBAL_STORAGE,
    GLOBAL_VALUE /* torch.float32, torch.device: shown by name, never used */
} global_role;

typedef struct {
    const char *module, *name;
    global_role role;
    dtype type;            /* storages */
    const char *type_name; /* torch's word for it */
    int bytes;             /* an element */
} pickle_global;
extern const pickle_global pickle_globals[];

typedef uint32_t pickle_ref; /* a node's index; 0: none */

typedef struct {
    pickle_kind kind;
    union {
        int64_t i;
        double f;
        struct {
            uint32_t at, n;
        };
        struct {
            uint32_t first, last; /* cells */
        };
    };
} pickle_node;
_Static_assert(sizeof(pickle_node) == 16, "a pickle of n bytes makes up to n of these");

typedef struct {
    pickle_ref value;
    uint32_t next; /* 0: the last */
} pickle_cell;

typedef struct {
    const uint8_t *bytes;
    size_t size, used; /* used: bytes up to and with STOP */
    pickle_node *nodes;
    pickle_cell *cells;
    uint32_t n_nodes, n_cells, nodes_capacity, cells_capacity;
    pickle_ref root;
    reader *r; /* whose budget pays */
    size_t charged;
} pickle;

/* Runs the pickle at the start of bytes, which must outlive p. On failure p is empty. */
status pickle_read(pickle *p, reader *r, const uint8_t *bytes, size_t size, error *e);
void pickle_free(pickle *p);

/* Item number i of a list, tuple, storage or tensor: 0 where there are fewer. O(i): for the short ones. */
pickle_ref pickle_item(const pickle *p, pickle_ref v, int i);
/* "module.name" of a GLOBAL. */
void pickle_global_name(const pickle *p, pickle_ref v, char *out, size_t size);

/* A storage: a flat array in the file that tensors are views of. */
typedef struct {
    const pickle_global *type;
    const char *key; /* its name in the file, key_bytes long */
    size_t key_bytes;
    int64_t n;                       /* elements in the file */
    int64_t view_offset, view_elems; /* the part that tensors see: all of it but in old legacy files */
} pickle_storage;
status pickle_storage_read(const pickle *p, pickle_ref v, pickle_storage *out, error *e);

/* A tensor's parts, checked: kinds, ranks, signs, and that every element lies inside the storage. Fills type, type_name, n_dims,
 * shape, stride, n_bytes (DTYPE_OTHER), and offset and span: bytes from the storage's start, and from the first element to the
 * end of the last. */
status pickle_tensor_read(const pickle *p, pickle_ref v, const char *name, tensor *t, pickle_storage *storage, error *e);

/* Walks the tree: every tensor goes to `found` with its name (keys and indices joined by '.'), everything else becomes JSON in
 * r->c->meta. State of optimizers is listed like all else, and its JSON is left out when it is too big. */
typedef struct {
    const pickle *p;
    reader *r;
    void *user;
    status (*found)(void *user, tensor *t, const pickle_storage *storage, const char *name, error *e);
} pickle_visitor;
status pickle_visit(const pickle_visitor *v, error *e);

#endif
