#include "weights/pickle.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/cursor.h"

typedef struct {
    pickle *p;
    cursor in;
    pickle_ref *stack; /* [n_stack] */
    uint32_t *marks;   /* [n_marks]: heights of the stack */
    pickle_ref *memo;  /* [n_memo], 0: empty */
    uint32_t n_stack, stack_capacity, n_marks, marks_capacity, n_memo, memo_capacity;
    uint32_t next_memo; /* values stored: the number that MEMOIZE gives */
    error *e;
} machine;

static bool fail(machine *m, const char *what) {
    error_set(m->e, ERR_FORMAT, "pickle, byte %zu: %s", m->in.at, what);
    return false;
}

static bool fail_short(machine *m) {
    return fail(m, "it ends in the middle of an instruction");
}

/* Makes room for n items of an array. New room is zeroed. */
static bool reserve(machine *m, void *array, uint32_t *capacity, uint64_t n, size_t item) {
    if (n <= *capacity) return true;
    uint64_t bigger = n + n / 2 + 64;
    if (bigger > UINT32_MAX) return fail(m, "it is too large");
    size_t bytes = (size_t)(bigger - *capacity) * item;
    if (!reader_charge(m->p->r, bytes, m->e)) return false;
    m->p->charged += bytes;
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, (size_t)bigger * item);
    if (new == NULL) {
        error_set(m->e, ERR_MEMORY, "no memory for the pickle's values");
        return false;
    }
    memset((char *)new + *capacity *item, 0, bytes);
    memcpy(array, &new, sizeof new);
    *capacity = (uint32_t)bigger;
    return true;
}

static bool push(machine *m, pickle_ref v) {
    if (!reserve(m, &m->stack, &m->stack_capacity, (uint64_t)m->n_stack + 1, sizeof *m->stack)) return false;
    m->stack[m->n_stack++] = v;
    return true;
}

/* The lowest height that the current instruction may pop to. */
static uint32_t stack_floor(const machine *m) {
    return m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
}

static bool pop(machine *m, pickle_ref *v) {
    if (m->n_stack <= stack_floor(m)) return fail(m, "it takes from an empty stack");
    *v = m->stack[--m->n_stack];
    return true;
}

static bool peek(machine *m, pickle_ref *v) {
    if (m->n_stack <= stack_floor(m)) return fail(m, "it takes from an empty stack");
    *v = m->stack[m->n_stack - 1];
    return true;
}

/* The stack's height at the last MARK, which is removed. */
static bool pop_mark(machine *m, uint32_t *height) {
    if (m->n_marks == 0) return fail(m, "it takes up to a mark that is not there");
    *height = m->marks[--m->n_marks];
    return true;
}

static bool push_node(machine *m, pickle_node node) {
    pickle *p = m->p;
    if (!reserve(m, &p->nodes, &p->nodes_capacity, (uint64_t)p->n_nodes + 1, sizeof *p->nodes)) return false;
    p->nodes[p->n_nodes] = node;
    return push(m, p->n_nodes++);
}

static bool append(machine *m, pickle_ref container, pickle_ref v) {
    pickle *p = m->p;
    if (!reserve(m, &p->cells, &p->cells_capacity, (uint64_t)p->n_cells + 1, sizeof *p->cells)) return false;
    uint32_t cell = p->n_cells++;
    p->cells[cell] = (pickle_cell){.value = v};
    pickle_node *node = &p->nodes[container];
    if (node->first == 0)
        node->first = cell;
    else
        p->cells[node->last].next = cell;
    node->last = cell;
    return true;
}

/* Appends the stack from `height` up to a container of that kind, and pops it. */
static bool append_from(machine *m, pickle_ref container, pickle_kind kind, uint32_t height) {
    if (m->p->nodes[container].kind != kind)
        return fail(m, kind == PICKLE_DICT ? "it sets an item of what is no dict" : "it appends to what is no list");
    if (kind == PICKLE_DICT && (m->n_stack - height) % 2 != 0) return fail(m, "a key without a value");
    for (uint32_t i = height; i < m->n_stack; i++)
        if (!append(m, container, m->stack[i])) return false;
    m->n_stack = height;
    return true;
}

/* Pops the stack down to `height` into a new node of that kind. */
static bool collect(machine *m, pickle_kind kind, uint32_t height) {
    if (height < stack_floor(m) || height > m->n_stack) return fail(m, "it takes from an empty stack");
    uint32_t n = m->n_stack;
    if (!push_node(m, (pickle_node){.kind = kind})) return false;
    pickle_ref container = m->stack[n];
    m->n_stack = n;
    return append_from(m, container, kind, height) && push(m, container);
}

static bool push_bytes(machine *m, pickle_kind kind, uint64_t n) {
    const uint8_t *bytes;
    size_t at = m->in.at;
    if (!cursor_take(&m->in, n, &bytes)) return fail(m, "a text is longer than the pickle");
    return push_node(m, (pickle_node){.kind = kind, .at = (uint32_t)at, .n = (uint32_t)n});
}

/* Texts and bytes: a length of 1, 4 or 8 bytes, then as many. */
static bool op_bytes(machine *m, pickle_kind kind, int width) {
    uint64_t n = 0;
    if (!cursor_copy(&m->in, &n, (size_t)width)) return fail_short(m);
    return push_bytes(m, kind, n);
}

static bool op_int(machine *m, int width) {
    int64_t value = 0;
    if (!cursor_copy(&m->in, &value, (size_t)width)) return fail_short(m);
    if (width == 4) value = (int32_t)value; /* the narrower ones are unsigned */
    return push_node(m, (pickle_node){.kind = PICKLE_INT, .i = value});
}

/* Two's complement of n bytes, lowest first. */
static bool op_long(machine *m, int width) {
    uint64_t n = 0;
    const uint8_t *bytes;
    if (!cursor_copy(&m->in, &n, (size_t)width)) return fail_short(m);
    if (n > 8) return push_bytes(m, PICKLE_BIG, n);
    if (!cursor_take(&m->in, n, &bytes)) return fail_short(m);
    int64_t value = n > 0 && (bytes[n - 1] & 0x80) ? -1 : 0;
    memcpy(&value, bytes, (size_t)n);
    return push_node(m, (pickle_node){.kind = PICKLE_INT, .i = value});
}

static bool op_float(machine *m) {
    uint64_t bits;
    double value;
    if (!cursor_u64(&m->in, &bits)) return fail_short(m);
    bits = __builtin_bswap64(bits); /* the one big-endian number of a pickle */
    memcpy(&value, &bits, sizeof value);
    return push_node(m, (pickle_node){.kind = PICKLE_FLOAT, .f = value});
}

static bool push_global(machine *m, const char *module, size_t n_module, const char *name, size_t n_name) {
    for (int i = 0; pickle_globals[i].module != NULL; i++) {
        const pickle_global *g = &pickle_globals[i];
        if (strlen(g->module) == n_module && strlen(g->name) == n_name && memcmp(g->module, module, n_module) == 0 &&
            memcmp(g->name, name, n_name) == 0)
            return push_node(m, (pickle_node){.kind = PICKLE_GLOBAL, .i = i});
    }
    int shown_module = (int)(n_module < 100 ? n_module : 100), shown_name = (int)(n_name < 100 ? n_name : 100);
    error_set(m->e, ERR_UNSUPPORTED,
              "pickle, byte %zu: asks for %.*s.%.*s, which is not run (save the state_dict alone: tensors, numbers and texts)",
              m->in.at, shown_module, module, shown_name, name);
    return false;
}

static bool op_global(machine *m) {
    const char *line[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        line[i] = (const char *)m->in.data + m->in.at;
        const char *end = memchr(line[i], '\n', cursor_left(&m->in));
        if (end == NULL) return fail(m, "a name without an end");
        n[i] = (size_t)(end - line[i]);
        m->in.at += n[i] + 1;
    }
    return push_global(m, line[0], n[0], line[1], n[1]);
}

static bool op_stack_global(machine *m) {
    pickle_ref name, module;
    if (!pop(m, &name) || !pop(m, &module)) return false;
    const pickle_node *a = &m->p->nodes[module], *b = &m->p->nodes[name];
    if (a->kind != PICKLE_TEXT || b->kind != PICKLE_TEXT) return fail(m, "a name that is no text");
    const char *text = (const char *)m->in.data;
    return push_global(m, text + a->at, a->n, text + b->at, b->n);
}

static bool op_persistent(machine *m) {
    pickle_ref id;
    if (!pop(m, &id)) return false;
    if (m->p->nodes[id].kind != PICKLE_TUPLE) return fail(m, "a storage that is no tuple");
    return push_node(m, (pickle_node){.kind = PICKLE_STORAGE, .first = m->p->nodes[id].first, .last = m->p->nodes[id].last});
}

/* OrderedDict(): empty. OrderedDict([[key, value], ...]) as Python 2 wrote it. */
static bool make_dict(machine *m, pickle_ref arguments) {
    if (!push_node(m, (pickle_node){.kind = PICKLE_DICT})) return false;
    pickle_ref dict = m->stack[m->n_stack - 1], pairs = pickle_item(m->p, arguments, 0);
    if (pairs == 0) return true;
    if (m->p->nodes[pairs].kind != PICKLE_LIST) return fail(m, "a dict of what is no list");
    for (uint32_t cell = m->p->nodes[pairs].first; cell != 0; cell = m->p->cells[cell].next) {
        pickle_ref key = pickle_item(m->p, m->p->cells[cell].value, 0), value = pickle_item(m->p, m->p->cells[cell].value, 1);
        if (key == 0 || value == 0) return fail(m, "a dict of what are no pairs");
        if (!append(m, dict, key) || !append(m, dict, value)) return false;
    }
    return true;
}

/* The first argument itself, of that kind; an empty container where there is none. */
static bool first_argument(machine *m, pickle_ref arguments, pickle_kind kind) {
    pickle_ref v = pickle_item(m->p, arguments, 0);
    if (v == 0 && kind != PICKLE_TENSOR) return push_node(m, (pickle_node){.kind = kind});
    if (v == 0 || m->p->nodes[v].kind != kind) return fail(m, "a wrong argument of a known name");
    return push(m, v);
}

static bool op_reduce(machine *m) {
    pickle_ref arguments, callee;
    if (!pop(m, &arguments) || !pop(m, &callee)) return false;
    const pickle_node *f = &m->p->nodes[callee], *a = &m->p->nodes[arguments];
    if (f->kind != PICKLE_GLOBAL || a->kind != PICKLE_TUPLE) return fail(m, "it calls what is no name, or not with a tuple");
    switch (pickle_globals[f->i].role) {
    case GLOBAL_DICT:
        return make_dict(m, arguments);
    case GLOBAL_NAMESPACE:
        return push_node(m, (pickle_node){.kind = PICKLE_OBJECT});
    case GLOBAL_SET:
        return first_argument(m, arguments, PICKLE_LIST);
    case GLOBAL_TUPLE:
        return first_argument(m, arguments, PICKLE_TUPLE);
    case GLOBAL_PARAMETER:
        return first_argument(m, arguments, PICKLE_TENSOR);
    case GLOBAL_TENSOR:
        return push_node(m, (pickle_node){.kind = PICKLE_TENSOR, .first = a->first, .last = a->last});
    case GLOBAL_VALUE:
        return push(m, callee);
    case GLOBAL_STORAGE:
        break;
    }
    return fail(m, "it calls a type of storage");
}

/* The attributes of an object. A Namespace's are its contents; others (_metadata of a state_dict's OrderedDict) are not used. */
static bool op_build(machine *m) {
    pickle_ref state, object;
    if (!pop(m, &state) || !peek(m, &object)) return false;
    pickle_node *o = &m->p->nodes[object], *s = &m->p->nodes[state];
    if (o->kind == PICKLE_TENSOR || o->kind == PICKLE_DICT) return true;
    if (o->kind != PICKLE_OBJECT || s->kind != PICKLE_DICT) return fail(m, "it gives attributes to what can have none");
    *o = *s;
    return true;
}

static bool memo_put(machine *m, uint64_t index) {
    pickle_ref v;
    if (!peek(m, &v)) return false;
    if (index > m->in.size) return fail(m, "a memo number beyond the pickle's size"); /* writers count from 0 */
    if (!reserve(m, &m->memo, &m->memo_capacity, index + 1, sizeof *m->memo)) return false;
    if (m->memo[index] == 0) m->next_memo++;
    m->memo[index] = v;
    if (index >= m->n_memo) m->n_memo = (uint32_t)index + 1;
    return true;
}

static bool op_put(machine *m, int width) {
    uint64_t index = 0;
    return cursor_copy(&m->in, &index, (size_t)width) ? memo_put(m, index) : fail_short(m);
}

static bool op_get(machine *m, int width) {
    uint64_t index = 0;
    if (!cursor_copy(&m->in, &index, (size_t)width)) return fail_short(m);
    if (index >= m->n_memo || m->memo[index] == 0) return fail(m, "it recalls what it did not store");
    return push(m, m->memo[index]);
}

static bool op_mark(machine *m) {
    if (!reserve(m, &m->marks, &m->marks_capacity, (uint64_t)m->n_marks + 1, sizeof *m->marks)) return false;
    m->marks[m->n_marks++] = m->n_stack;
    return true;
}

/* Up to the last mark: a new container, or more items for the one below it. */
static bool op_collect(machine *m, pickle_kind kind) {
    uint32_t height;
    return pop_mark(m, &height) && collect(m, kind, height);
}

static bool op_extend(machine *m, pickle_kind kind) {
    uint32_t height;
    if (!pop_mark(m, &height)) return false;
    if (height <= stack_floor(m)) return fail(m, "it takes from an empty stack");
    return append_from(m, m->stack[height - 1], kind, height);
}

/* n items on top of the stack: a tuple of them, or an item for the container below them. */
static bool op_tuple(machine *m, uint32_t n) {
    if (m->n_stack < n) return fail(m, "it takes from an empty stack");
    return collect(m, PICKLE_TUPLE, m->n_stack - n);
}

static bool op_add(machine *m, pickle_kind kind, uint32_t n) {
    if (m->n_stack < n + 1 || m->n_stack - n - 1 < stack_floor(m)) return fail(m, "it takes from an empty stack");
    return append_from(m, m->stack[m->n_stack - n - 1], kind, m->n_stack - n);
}

static bool op_pop_mark(machine *m) {
    return pop_mark(m, &m->n_stack);
}

static bool op_pop(machine *m) {
    pickle_ref ignored;
    if (m->n_stack == stack_floor(m) && m->n_marks > 0) return op_pop_mark(m);
    return pop(m, &ignored);
}

static bool op_dup(machine *m) {
    pickle_ref v;
    return peek(m, &v) && push(m, v);
}

static bool op_skip(machine *m, size_t n) {
    const uint8_t *bytes;
    return cursor_take(&m->in, n, &bytes) || fail_short(m);
}

static bool op_protocol(machine *m) {
    uint8_t version;
    if (!cursor_u8(&m->in, &version)) return fail_short(m);
    return version <= 5 || fail(m, "its protocol is newer than 5");
}

static bool unknown(machine *m, uint8_t op) {
    error_set(m->e, ERR_UNSUPPORTED, "pickle, byte %zu: instruction 0x%02x, which no state_dict needs", m->in.at - 1, op);
    return false;
}

/* One instruction. X(code, name, what it does) */
#define OPCODE_LIST(X)                                                                                                         \
    X(0x80, PROTO, op_protocol(m))                                                                                             \
    X(0x95, FRAME, op_skip(m, 8)) /* a length that readers of streams want */                                                  \
    X('N', NONE, push_node(m, (pickle_node){.kind = PICKLE_NONE}))                                                             \
    X(0x88, NEWTRUE, push_node(m, (pickle_node){.kind = PICKLE_BOOL, .i = 1}))                                                 \
    X(0x89, NEWFALSE, push_node(m, (pickle_node){.kind = PICKLE_BOOL, .i = 0}))                                                \
    X('K', BININT1, op_int(m, 1))                                                                                              \
    X('M', BININT2, op_int(m, 2))                                                                                              \
    X('J', BININT, op_int(m, 4))                                                                                               \
    X(0x8a, LONG1, op_long(m, 1))                                                                                              \
    X(0x8b, LONG4, op_long(m, 4))                                                                                              \
    X('G', BINFLOAT, op_float(m))                                                                                              \
    X('U', SHORT_BINSTRING, op_bytes(m, PICKLE_TEXT, 1)) /* Python 2 */                                                        \
    X('T', BINSTRING, op_bytes(m, PICKLE_TEXT, 4))                                                                             \
    X(0x8c, SHORT_BINUNICODE, op_bytes(m, PICKLE_TEXT, 1))                                                                     \
    X('X', BINUNICODE, op_bytes(m, PICKLE_TEXT, 4))                                                                            \
    X(0x8d, BINUNICODE8, op_bytes(m, PICKLE_TEXT, 8))                                                                          \
    X('C', SHORT_BINBYTES, op_bytes(m, PICKLE_BYTES, 1))                                                                       \
    X('B', BINBYTES, op_bytes(m, PICKLE_BYTES, 4))                                                                             \
    X(0x8e, BINBYTES8, op_bytes(m, PICKLE_BYTES, 8))                                                                           \
    X('(', MARK, op_mark(m))                                                                                                   \
    X('0', POP, op_pop(m))                                                                                                     \
    X('1', POP_MARK, op_pop_mark(m))                                                                                           \
    X('2', DUP, op_dup(m))                                                                                                     \
    X(']', EMPTY_LIST, push_node(m, (pickle_node){.kind = PICKLE_LIST}))                                                       \
    X(0x8f, EMPTY_SET, push_node(m, (pickle_node){.kind = PICKLE_LIST}))                                                       \
    X('}', EMPTY_DICT, push_node(m, (pickle_node){.kind = PICKLE_DICT}))                                                       \
    X(')', EMPTY_TUPLE, push_node(m, (pickle_node){.kind = PICKLE_TUPLE}))                                                     \
    X('t', TUPLE, op_collect(m, PICKLE_TUPLE))                                                                                 \
    X('l', LIST, op_collect(m, PICKLE_LIST))                                                                                   \
    X(0x91, FROZENSET, op_collect(m, PICKLE_LIST))                                                                             \
    X('d', DICT, op_collect(m, PICKLE_DICT))                                                                                   \
    X(0x85, TUPLE1, op_tuple(m, 1))                                                                                            \
    X(0x86, TUPLE2, op_tuple(m, 2))                                                                                            \
    X(0x87, TUPLE3, op_tuple(m, 3))                                                                                            \
    X('a', APPEND, op_add(m, PICKLE_LIST, 1))                                                                                  \
    X('e', APPENDS, op_extend(m, PICKLE_LIST))                                                                                 \
    X(0x90, ADDITEMS, op_extend(m, PICKLE_LIST))                                                                               \
    X('s', SETITEM, op_add(m, PICKLE_DICT, 2))                                                                                 \
    X('u', SETITEMS, op_extend(m, PICKLE_DICT))                                                                                \
    X('q', BINPUT, op_put(m, 1))                                                                                               \
    X('r', LONG_BINPUT, op_put(m, 4))                                                                                          \
    X(0x94, MEMOIZE, memo_put(m, m->next_memo))                                                                                \
    X('h', BINGET, op_get(m, 1))                                                                                               \
    X('j', LONG_BINGET, op_get(m, 4))                                                                                          \
    X('c', GLOBAL, op_global(m))                                                                                               \
    X(0x93, STACK_GLOBAL, op_stack_global(m))                                                                                  \
    X('Q', BINPERSID, op_persistent(m))                                                                                        \
    X('R', REDUCE, op_reduce(m))                                                                                               \
    X(0x81, NEWOBJ, op_reduce(m)) /* the same for the classes that are known */                                                \
    X('b', BUILD, op_build(m))

static bool step(machine *m, uint8_t op) {
    switch (op) {
#define OPCODE_CASE(code, name, action)                                                                                        \
    case code:                                                                                                                 \
        return action;
        OPCODE_LIST(OPCODE_CASE)
#undef OPCODE_CASE
    default:
        return unknown(m, op);
    }
}

static bool run(machine *m) {
    /* Node and cell 0 mean "none". */
    if (!push_node(m, (pickle_node){.kind = PICKLE_NOTHING})) return false;
    if (!reserve(m, &m->p->cells, &m->p->cells_capacity, 1, sizeof *m->p->cells)) return false;
    m->p->n_cells = 1;
    m->n_stack = 0;
    for (;;) {
        uint8_t op;
        if (!cursor_u8(&m->in, &op)) return fail(m, "it ends without a STOP");
        if (op == '.') break;
        if (!step(m, op)) return false;
    }
    m->p->used = m->in.at;
    return pop(m, &m->p->root);
}

status pickle_read(pickle *p, reader *r, const uint8_t *bytes, size_t size, error *e) {
    *p = (pickle){.bytes = bytes, .size = size, .r = r};
    if (size >= UINT32_MAX) size = UINT32_MAX - 1; /* positions are 32 bits: the part that must be read fits */
    error local = {.code = ERR_MEMORY};
    machine m = {.p = p, .in = {.data = bytes, .size = size}, .e = &local};
    bool good = run(&m);
    free(m.stack);
    free(m.marks);
    free(m.memo);
    if (good) return OK;
    pickle_free(p);
    if (e != NULL) *e = local;
    return local.code;
}

void pickle_free(pickle *p) {
    free(p->nodes);
    free(p->cells);
    if (p->r != NULL) reader_refund(p->r, p->charged);
    *p = (pickle){0};
}

pickle_ref pickle_item(const pickle *p, pickle_ref v, int i) {
    pickle_kind kind = p->nodes[v].kind;
    if (kind != PICKLE_LIST && kind != PICKLE_TUPLE && kind != PICKLE_STORAGE && kind != PICKLE_TENSOR) return 0;
    uint32_t cell = p->nodes[v].first;
    for (; cell != 0 && i > 0; i--) cell = p->cells[cell].next;
    return cell != 0 ? p->cells[cell].value : 0;
}

void pickle_global_name(const pickle *p, pickle_ref v, char *out, size_t size) {
    const pickle_global *g = &pickle_globals[p->nodes[v].i];
    snprintf(out, size, "%s.%s", g->module, g->name);
}
