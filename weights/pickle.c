#include "weights/pickle.h"

#include <stdio.h>
#include <stdlib.h>

#include "weights/pickle_ops.h"

/* One instruction. X(code, name, what it does) */
#define OPCODE_LIST(X)                                                                                                         \
    X(0x80, PROTO, op_protocol(m))                                                                                             \
    X(0x95, FRAME, op_skip(m, 8)) /* a length that readers of streams want */                                                  \
    X('N', NONE, machine_push_node(m, (pickle_node){.kind = PICKLE_NONE}))                                                     \
    X(0x88, NEWTRUE, machine_push_node(m, (pickle_node){.kind = PICKLE_BOOL, .i = 1}))                                         \
    X(0x89, NEWFALSE, machine_push_node(m, (pickle_node){.kind = PICKLE_BOOL, .i = 0}))                                        \
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
    X(']', EMPTY_LIST, machine_push_node(m, (pickle_node){.kind = PICKLE_LIST}))                                               \
    X(0x8f, EMPTY_SET, machine_push_node(m, (pickle_node){.kind = PICKLE_LIST}))                                               \
    X('}', EMPTY_DICT, machine_push_node(m, (pickle_node){.kind = PICKLE_DICT}))                                               \
    X(')', EMPTY_TUPLE, machine_push_node(m, (pickle_node){.kind = PICKLE_TUPLE}))                                             \
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
    X(0x94, MEMOIZE, op_memoize_at(m, m->next_memo))                                                                           \
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
        return op_unknown(m, op);
    }
}

static bool run(machine *m) {
    /* Node and cell 0 mean "none". */
    if (!machine_push_node(m, (pickle_node){.kind = PICKLE_NOTHING})) return false;
    if (!machine_reserve(m, &m->p->cells, &m->p->cells_capacity, 1, sizeof *m->p->cells)) return false;
    m->p->n_cells = 1;
    m->n_stack = 0;
    for (;;) {
        uint8_t op;
        if (!cursor_u8(&m->in, &op)) return machine_fail(m, "it ends without a STOP");
        if (op == '.') break;
        if (!step(m, op)) return false;
    }
    m->p->used = m->in.at;
    return machine_pop(m, &m->p->root);
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
