/* pickle_ops.c - what each instruction of a pickle does. */
#include "weights/pickle_ops.h"

#include <string.h>

static bool push_bytes(machine *m, pickle_kind kind, uint64_t n) {
    const uint8_t *bytes;
    size_t at = m->in.at;
    if (!cursor_take(&m->in, n, &bytes)) return machine_fail(m, "a text is longer than the pickle");
    return machine_push_node(m, (pickle_node){.kind = kind, .at = (uint32_t)at, .n = (uint32_t)n});
}

/* Texts and bytes: a length of 1, 4 or 8 bytes, then as many. */
bool op_bytes(machine *m, pickle_kind kind, int width) {
    uint64_t n = 0;
    if (!cursor_copy(&m->in, &n, (size_t)width)) return machine_fail_short(m);
    return push_bytes(m, kind, n);
}

bool op_int(machine *m, int width) {
    int64_t value = 0;
    if (!cursor_copy(&m->in, &value, (size_t)width)) return machine_fail_short(m);
    if (width == 4) value = (int32_t)value; /* the narrower ones are unsigned */
    return machine_push_node(m, (pickle_node){.kind = PICKLE_INT, .i = value});
}

/* Two's complement of n bytes, lowest first. */
bool op_long(machine *m, int width) {
    uint64_t n = 0;
    const uint8_t *bytes;
    if (!cursor_copy(&m->in, &n, (size_t)width)) return machine_fail_short(m);
    if (n > 8) return push_bytes(m, PICKLE_BIG, n);
    if (!cursor_take(&m->in, n, &bytes)) return machine_fail_short(m);
    int64_t value = n > 0 && (bytes[n - 1] & 0x80) ? -1 : 0;
    memcpy(&value, bytes, (size_t)n);
    return machine_push_node(m, (pickle_node){.kind = PICKLE_INT, .i = value});
}

bool op_float(machine *m) {
    uint64_t bits;
    double value;
    if (!cursor_u64(&m->in, &bits)) return machine_fail_short(m);
    bits = __builtin_bswap64(bits); /* the one big-endian number of a pickle */
    memcpy(&value, &bits, sizeof value);
    return machine_push_node(m, (pickle_node){.kind = PICKLE_FLOAT, .f = value});
}

static bool push_global(machine *m, const char *module, size_t n_module, const char *name, size_t n_name) {
    for (int i = 0; pickle_globals[i].module != NULL; i++) {
        const pickle_global *g = &pickle_globals[i];
        if (strlen(g->module) == n_module && strlen(g->name) == n_name && memcmp(g->module, module, n_module) == 0 &&
            memcmp(g->name, name, n_name) == 0)
            return machine_push_node(m, (pickle_node){.kind = PICKLE_GLOBAL, .i = i});
    }
    int shown_module = (int)(n_module < 100 ? n_module : 100), shown_name = (int)(n_name < 100 ? n_name : 100);
    error_set(m->e, ERR_UNSUPPORTED,
              "pickle, byte %zu: asks for %.*s.%.*s, which is not run (save the state_dict alone: tensors, numbers and texts)",
              m->in.at, shown_module, module, shown_name, name);
    return false;
}

bool op_global(machine *m) {
    const char *line[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        line[i] = (const char *)m->in.data + m->in.at;
        const char *end = memchr(line[i], '\n', cursor_left(&m->in));
        if (end == NULL) return machine_fail(m, "a name without an end");
        n[i] = (size_t)(end - line[i]);
        m->in.at += n[i] + 1;
    }
    return push_global(m, line[0], n[0], line[1], n[1]);
}

bool op_stack_global(machine *m) {
    pickle_ref name, module;
    if (!machine_pop(m, &name) || !machine_pop(m, &module)) return false;
    const pickle_node *a = &m->p->nodes[module], *b = &m->p->nodes[name];
    if (a->kind != PICKLE_TEXT || b->kind != PICKLE_TEXT) return machine_fail(m, "a name that is no text");
    const char *text = (const char *)m->in.data;
    return push_global(m, text + a->at, a->n, text + b->at, b->n);
}

bool op_persistent(machine *m) {
    pickle_ref id;
    if (!machine_pop(m, &id)) return false;
    if (m->p->nodes[id].kind != PICKLE_TUPLE) return machine_fail(m, "a storage that is no tuple");
    return machine_push_node(
        m, (pickle_node){.kind = PICKLE_STORAGE, .first = m->p->nodes[id].first, .last = m->p->nodes[id].last});
}

/* OrderedDict(): empty. OrderedDict([[key, value], ...]) as Python 2 wrote it. */
static bool make_dict(machine *m, pickle_ref arguments) {
    if (!machine_push_node(m, (pickle_node){.kind = PICKLE_DICT})) return false;
    pickle_ref dict = m->stack[m->n_stack - 1], pairs = pickle_item(m->p, arguments, 0);
    if (pairs == 0) return true;
    if (m->p->nodes[pairs].kind != PICKLE_LIST) return machine_fail(m, "a dict of what is no list");
    for (uint32_t cell = m->p->nodes[pairs].first; cell != 0; cell = m->p->cells[cell].next) {
        pickle_ref key = pickle_item(m->p, m->p->cells[cell].value, 0), value = pickle_item(m->p, m->p->cells[cell].value, 1);
        if (key == 0 || value == 0) return machine_fail(m, "a dict of what are no pairs");
        if (!machine_append(m, dict, key) || !machine_append(m, dict, value)) return false;
    }
    return true;
}

/* The first argument itself, of that kind; an empty container where there is none. */
static bool first_argument(machine *m, pickle_ref arguments, pickle_kind kind) {
    pickle_ref v = pickle_item(m->p, arguments, 0);
    if (v == 0 && kind != PICKLE_TENSOR) return machine_push_node(m, (pickle_node){.kind = kind});
    if (v == 0 || m->p->nodes[v].kind != kind) return machine_fail(m, "a wrong argument of a known name");
    return machine_push(m, v);
}

bool op_reduce(machine *m) {
    pickle_ref arguments, callee;
    if (!machine_pop(m, &arguments) || !machine_pop(m, &callee)) return false;
    const pickle_node *f = &m->p->nodes[callee], *a = &m->p->nodes[arguments];
    if (f->kind != PICKLE_GLOBAL || a->kind != PICKLE_TUPLE)
        return machine_fail(m, "it calls what is no name, or not with a tuple");
    switch (pickle_globals[f->i].role) {
    case GLOBAL_DICT:
        return make_dict(m, arguments);
    case GLOBAL_NAMESPACE:
        return machine_push_node(m, (pickle_node){.kind = PICKLE_OBJECT});
    case GLOBAL_SET:
        return first_argument(m, arguments, PICKLE_LIST);
    case GLOBAL_TUPLE:
        return first_argument(m, arguments, PICKLE_TUPLE);
    case GLOBAL_PARAMETER:
        return first_argument(m, arguments, PICKLE_TENSOR);
    case GLOBAL_TENSOR:
        return machine_push_node(m, (pickle_node){.kind = PICKLE_TENSOR, .first = a->first, .last = a->last});
    case GLOBAL_VALUE:
        return machine_push(m, callee);
    case GLOBAL_STORAGE:
        break;
    }
    return machine_fail(m, "it calls a type of storage");
}

/* The attributes of an object. A Namespace's are its contents; others (_metadata of a state_dict's OrderedDict) are not used. */
bool op_build(machine *m) {
    pickle_ref state, object;
    if (!machine_pop(m, &state) || !machine_peek(m, &object)) return false;
    pickle_node *o = &m->p->nodes[object], *s = &m->p->nodes[state];
    if (o->kind == PICKLE_TENSOR || o->kind == PICKLE_DICT) return true;
    if (o->kind != PICKLE_OBJECT || s->kind != PICKLE_DICT) return machine_fail(m, "it gives attributes to what can have none");
    *o = *s;
    return true;
}

bool op_memoize_at(machine *m, uint64_t index) {
    pickle_ref v;
    if (!machine_peek(m, &v)) return false;
    if (index > m->in.size) return machine_fail(m, "a memo number beyond the pickle's size"); /* writers count from 0 */
    if (!machine_reserve(m, &m->memo, &m->memo_capacity, index + 1, sizeof *m->memo)) return false;
    if (m->memo[index] == 0) m->next_memo++;
    m->memo[index] = v;
    if (index >= m->n_memo) m->n_memo = (uint32_t)index + 1;
    return true;
}

bool op_put(machine *m, int width) {
    uint64_t index = 0;
    return cursor_copy(&m->in, &index, (size_t)width) ? op_memoize_at(m, index) : machine_fail_short(m);
}

bool op_get(machine *m, int width) {
    uint64_t index = 0;
    if (!cursor_copy(&m->in, &index, (size_t)width)) return machine_fail_short(m);
    if (index >= m->n_memo || m->memo[index] == 0) return machine_fail(m, "it recalls what it did not store");
    return machine_push(m, m->memo[index]);
}

bool op_mark(machine *m) {
    if (!machine_reserve(m, &m->marks, &m->marks_capacity, (uint64_t)m->n_marks + 1, sizeof *m->marks)) return false;
    m->marks[m->n_marks++] = m->n_stack;
    return true;
}

/* Up to the last mark: a new container, or more items for the one below it. */
bool op_collect(machine *m, pickle_kind kind) {
    uint32_t height;
    return machine_pop_mark(m, &height) && machine_collect(m, kind, height);
}

bool op_extend(machine *m, pickle_kind kind) {
    uint32_t height;
    if (!machine_pop_mark(m, &height)) return false;
    if (height <= machine_floor(m)) return machine_fail(m, "it takes from an empty stack");
    return machine_append_from(m, m->stack[height - 1], kind, height);
}

/* n items on top of the stack: a tuple of them, or an item for the container below them. */
bool op_tuple(machine *m, uint32_t n) {
    if (m->n_stack < n) return machine_fail(m, "it takes from an empty stack");
    return machine_collect(m, PICKLE_TUPLE, m->n_stack - n);
}

bool op_add(machine *m, pickle_kind kind, uint32_t n) {
    if (m->n_stack < n + 1 || m->n_stack - n - 1 < machine_floor(m)) return machine_fail(m, "it takes from an empty stack");
    return machine_append_from(m, m->stack[m->n_stack - n - 1], kind, m->n_stack - n);
}

bool op_pop_mark(machine *m) {
    return machine_pop_mark(m, &m->n_stack);
}

bool op_pop(machine *m) {
    pickle_ref ignored;
    if (m->n_stack == machine_floor(m) && m->n_marks > 0) return op_pop_mark(m);
    return machine_pop(m, &ignored);
}

bool op_dup(machine *m) {
    pickle_ref v;
    return machine_peek(m, &v) && machine_push(m, v);
}

bool op_skip(machine *m, size_t n) {
    const uint8_t *bytes;
    return cursor_take(&m->in, n, &bytes) || machine_fail_short(m);
}

bool op_protocol(machine *m) {
    uint8_t version;
    if (!cursor_u8(&m->in, &version)) return machine_fail_short(m);
    return version <= 5 || machine_fail(m, "its protocol is newer than 5");
}

bool op_unknown(machine *m, uint8_t op) {
    error_set(m->e, ERR_UNSUPPORTED, "pickle, byte %zu: instruction 0x%02x, which no state_dict needs", m->in.at - 1, op);
    return false;
}
