/* pickle_machine.c - the stack, the memo and the values of the machine that reads a pickle. */
#include "weights/pickle_ops.h"

#include <stdlib.h>
#include <string.h>

bool machine_fail(machine *m, const char *what) {
    error_set(m->e, ERR_FORMAT, "pickle, byte %zu: %s", m->in.at, what);
    return false;
}

bool machine_fail_short(machine *m) {
    return machine_fail(m, "it ends in the middle of an instruction");
}

bool machine_reserve(machine *m, void *array, uint32_t *capacity, uint64_t n, size_t item) {
    if (n <= *capacity) return true;
    uint64_t bigger = n + n / 2 + 64;
    if (bigger > UINT32_MAX) return machine_fail(m, "it is too large");
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
    return true; // cppcheck-suppress memleak ; it is kept at `array`
}

bool machine_push(machine *m, pickle_ref v) {
    if (!machine_reserve(m, &m->stack, &m->stack_capacity, (uint64_t)m->n_stack + 1, sizeof *m->stack)) return false;
    m->stack[m->n_stack++] = v;
    return true;
}

uint32_t machine_floor(const machine *m) {
    return m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
}

bool machine_pop(machine *m, pickle_ref *v) {
    if (m->n_stack <= machine_floor(m)) return machine_fail(m, "it takes from an empty stack");
    *v = m->stack[--m->n_stack];
    return true;
}

bool machine_peek(machine *m, pickle_ref *v) {
    if (m->n_stack <= machine_floor(m)) return machine_fail(m, "it takes from an empty stack");
    *v = m->stack[m->n_stack - 1];
    return true;
}

bool machine_pop_mark(machine *m, uint32_t *height) {
    if (m->n_marks == 0) return machine_fail(m, "it takes up to a mark that is not there");
    *height = m->marks[--m->n_marks];
    return true;
}

bool machine_push_node(machine *m, pickle_node node) {
    pickle *p = m->p;
    if (!machine_reserve(m, &p->nodes, &p->nodes_capacity, (uint64_t)p->n_nodes + 1, sizeof *p->nodes)) return false;
    p->nodes[p->n_nodes] = node;
    return machine_push(m, p->n_nodes++);
}

bool machine_append(machine *m, pickle_ref container, pickle_ref v) {
    pickle *p = m->p;
    if (!machine_reserve(m, &p->cells, &p->cells_capacity, (uint64_t)p->n_cells + 1, sizeof *p->cells)) return false;
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

bool machine_append_from(machine *m, pickle_ref container, pickle_kind kind, uint32_t height) {
    if (m->p->nodes[container].kind != kind)
        return machine_fail(m, kind == PICKLE_DICT ? "it sets an item of what is no dict" : "it appends to what is no list");
    if (kind == PICKLE_DICT && (m->n_stack - height) % 2 != 0) return machine_fail(m, "a key without a value");
    for (uint32_t i = height; i < m->n_stack; i++)
        if (!machine_append(m, container, m->stack[i])) return false;
    m->n_stack = height;
    return true;
}

bool machine_collect(machine *m, pickle_kind kind, uint32_t height) {
    if (height < machine_floor(m) || height > m->n_stack) return machine_fail(m, "it takes from an empty stack");
    uint32_t n = m->n_stack;
    if (!machine_push_node(m, (pickle_node){.kind = kind})) return false;
    pickle_ref container = m->stack[n];
    m->n_stack = n;
    return machine_append_from(m, container, kind, height) && machine_push(m, container);
}
