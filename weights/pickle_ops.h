/* pickle_ops.h - the stack machine that reads a pickle, and its instructions. Private to pickle.c and pickle_ops.c.
 *
 * Every function returns false when the pickle is wrong, with the message in m->e. */
#ifndef TALLY_PICKLE_OPS_H
#define TALLY_PICKLE_OPS_H

#include "weights/cursor.h"
#include "weights/pickle.h"

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

/* The machine (pickle_machine.c). */
bool machine_fail(machine *m, const char *what); /* false, with "pickle, byte N: what" */
bool machine_fail_short(machine *m);
/* Makes room for n items of an array, whose address is at `array`. New room is zeroed and charged to the reader's budget. */
bool machine_reserve(machine *m, void *array, uint32_t *capacity, uint64_t n, size_t item);
uint32_t machine_floor(const machine *m); /* the height down to which an instruction may pop: the last mark */
bool machine_push(machine *m, pickle_ref v);
bool machine_pop(machine *m, pickle_ref *v);
bool machine_peek(machine *m, pickle_ref *v);
bool machine_pop_mark(machine *m, uint32_t *height); /* the height at the last mark, which is removed */
bool machine_push_node(machine *m, pickle_node node);
bool machine_append(machine *m, pickle_ref container, pickle_ref v);
/* Appends the stack from `height` up to a container of that kind, and pops it. */
bool machine_append_from(machine *m, pickle_ref container, pickle_kind kind, uint32_t height);
/* Pops the stack down to `height` into a new node of that kind, which is pushed. */
bool machine_collect(machine *m, pickle_kind kind, uint32_t height);

/* The instructions (pickle_ops.c), by the names of OPCODE_LIST in pickle.c. */
bool op_bytes(machine *m, pickle_kind kind, int width);
bool op_int(machine *m, int width);
bool op_long(machine *m, int width);
bool op_float(machine *m);
bool op_global(machine *m);
bool op_stack_global(machine *m);
bool op_persistent(machine *m);
bool op_reduce(machine *m);
bool op_build(machine *m);
bool op_memoize_at(machine *m, uint64_t index);
bool op_put(machine *m, int width);
bool op_get(machine *m, int width);
bool op_mark(machine *m);
bool op_collect(machine *m, pickle_kind kind);
bool op_extend(machine *m, pickle_kind kind);
bool op_tuple(machine *m, uint32_t n);
bool op_add(machine *m, pickle_kind kind, uint32_t n);
bool op_pop_mark(machine *m);
bool op_pop(machine *m);
bool op_dup(machine *m);
bool op_skip(machine *m, size_t n);
bool op_protocol(machine *m);
bool op_unknown(machine *m, uint8_t op);

#endif
