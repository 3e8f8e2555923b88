#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/pickle.h"

enum { MAX_DEPTH = 64, MAX_NAME = 1024 };

typedef struct {
    const pickle_visitor *v;
    char name[MAX_NAME];
    size_t n_name;
    size_t charged; /* for JSON, so far */
    error *e;
} walk;

static status visit(walk *w, pickle_ref node, int depth, json_t **out);

static status no_memory(walk *w) {
    return error_set(w->e, ERR_MEMORY, "no memory for its metadata");
}

static status charge(walk *w, size_t bytes) {
    if (!reader_charge(w->v->r, bytes, w->e)) return ERR_LIMIT;
    w->charged += bytes;
    return OK;
}

/* A dict's key as text. Returns its length, or -1: too long. */
static int key_text(const pickle *p, pickle_ref key, char *out, size_t size) {
    const pickle_node *k = &p->nodes[key];
    switch (k->kind) {
    case PICKLE_TEXT:
    case PICKLE_BYTES:
        if (k->n >= size) return -1;
        memcpy(out, p->bytes + k->at, k->n);
        return (int)k->n;
    case PICKLE_INT:
        return snprintf(out, size, "%lld", (long long)k->i);
    case PICKLE_BOOL:
        return snprintf(out, size, "%s", k->i ? "True" : "False");
    case PICKLE_NONE:
        return snprintf(out, size, "None");
    case PICKLE_FLOAT:
        return snprintf(out, size, "%.17g", k->f);
    case PICKLE_TUPLE: { /* ("a", "b") becomes "a b": pairs of a merge table */
        int n = 0;
        for (uint32_t cell = k->first; cell != 0; cell = p->cells[cell].next) {
            if (n > 0 && (size_t)n < size) out[n++] = ' ';
            if (p->nodes[p->cells[cell].value].kind == PICKLE_TUPLE) return -1;
            int more = key_text(p, p->cells[cell].value, out + n, size - (size_t)n);
            if (more < 0 || (size_t)(n + more) >= size) return -1;
            n += more;
        }
        return n;
    }
    default:
        return -1;
    }
}

/* Appends ".part" to the name of where the walk is. */
static status enter(walk *w, const char *part, size_t n) {
    if (w->n_name + n + 2 > MAX_NAME)
        return error_set(w->e, ERR_LIMIT, "%.60s...: the names of its parts are too long", w->name);
    if (w->n_name > 0) w->name[w->n_name++] = '.';
    memcpy(w->name + w->n_name, part, n);
    w->n_name += n;
    w->name[w->n_name] = '\0';
    return OK;
}

static void leave(walk *w, size_t n_name) {
    w->n_name = n_name;
    w->name[n_name] = '\0';
}

static status visit_scalar(walk *w, const pickle_node *node, pickle_ref ref, json_t **out) {
    const pickle *p = w->v->p;
    char text[128];
    bool is_text = node->kind == PICKLE_TEXT || node->kind == PICKLE_BYTES;
    bool is_word = node->kind == PICKLE_GLOBAL || node->kind == PICKLE_BIG;
    status result = charge(w, is_text ? JSON_COST_TEXT + node->n : is_word ? JSON_COST_TEXT + sizeof text : JSON_COST_NUMBER);
    if (result != OK) return result;
    switch (node->kind) {
    case PICKLE_NONE:
        *out = json_null();
        break;
    case PICKLE_BOOL:
        *out = json_boolean(node->i);
        break;
    case PICKLE_INT:
        *out = json_integer(node->i);
        break;
    case PICKLE_FLOAT:
        *out = json_number(node->f);
        break;
    case PICKLE_TEXT:
    case PICKLE_BYTES:
        *out = json_bytes(p->bytes + node->at, node->n);
        break;
    case PICKLE_GLOBAL:
        pickle_global_name(p, ref, text, sizeof text);
        *out = json_string(text);
        break;
    case PICKLE_BIG:
        snprintf(text, sizeof text, "integer of %u bytes", node->n);
        *out = json_string(text);
        break;
    default:
        *out = json_null();
        break; /* a storage that no tensor took */
    }
    return *out != NULL ? OK : no_memory(w);
}

/* Items keep their places: null stands for a tensor. *n_values: items that are not tensors. */
static status visit_list(walk *w, const pickle_node *node, int depth, json_t *list, int *n_values) {
    const pickle *p = w->v->p;
    size_t n_name = w->n_name;
    int i = 0;
    for (uint32_t cell = node->first; cell != 0; cell = p->cells[cell].next, i++) {
        char index[16];
        json_t *item = NULL;
        int n = snprintf(index, sizeof index, "%d", i);
        status result = enter(w, index, (size_t)n);
        if (result == OK) result = charge(w, JSON_COST_ITEM);
        if (result == OK) result = visit(w, p->cells[cell].value, depth + 1, &item);
        leave(w, n_name);
        if (result != OK) return result;
        *n_values += item != NULL;
        if (json_array_append_new(list, item != NULL ? item : json_null()) != 0) return no_memory(w);
    }
    return OK;
}

static bool is_optimizer(const char *key, int n, int depth) {
    return depth == 0 && n >= 5 && memcmp(key, "optim", 5) == 0;
}

static status visit_dict(walk *w, const pickle_node *node, int depth, json_t *dict, int *n_values) {
    const pickle *p = w->v->p;
    size_t n_name = w->n_name;
    for (uint32_t cell = node->first; cell != 0;) {
        const pickle_cell *key = &p->cells[cell], *value = &p->cells[key->next];
        char text[MAX_NAME];
        json_t *item = NULL;
        int n = key_text(p, key->value, text, sizeof text);
        if (n < 0)
            return error_set(w->e, ERR_UNSUPPORTED, "%s: a key that is no short text or number",
                             w->n_name > 0 ? w->name : "pickle");
        size_t charged = w->charged;
        status result = enter(w, text, (size_t)n);
        if (result == OK) result = charge(w, JSON_COST_MEMBER + (size_t)n);
        if (result == OK) result = visit(w, value->value, depth + 1, &item);
        leave(w, n_name);
        if (result == ERR_LIMIT && is_optimizer(text, n, depth)) {
            reader_refund(w->v->r, w->charged - charged);
            w->charged = charged;
            result = OK;
        }
        if (result != OK) return result;
        *n_values += item != NULL;
        if (item != NULL && json_object_setn_new_nocheck(dict, text, (size_t)n, item) != 0) return no_memory(w);
        cell = value->next;
    }
    return OK;
}

static status visit_tensor(walk *w, pickle_ref ref) {
    tensor t;
    pickle_storage storage;
    const char *shown = w->n_name > 0 ? w->name : "(the whole file)";
    if (memchr(w->name, 0, w->n_name) != NULL)
        return error_set(w->e, ERR_FORMAT, "tensor %s: its name has a zero byte in it", shown);
    status result = pickle_tensor_read(w->v->p, ref, shown, &t, &storage, w->e);
    if (result == OK) result = w->v->found(w->v->user, &t, &storage, w->name, w->e);
    return result;
}

/* *out stays NULL for a tensor, and for a container that holds nothing but tensors. */
static status visit(walk *w, pickle_ref ref, int depth, json_t **out) {
    const pickle_node *node = &w->v->p->nodes[ref];
    *out = NULL;
    if (node->kind == PICKLE_TENSOR) return visit_tensor(w, ref);
    bool is_dict = node->kind == PICKLE_DICT || node->kind == PICKLE_OBJECT;
    if (!is_dict && node->kind != PICKLE_LIST && node->kind != PICKLE_TUPLE) return visit_scalar(w, node, ref, out);
    if (depth == MAX_DEPTH)
        return error_set(w->e, ERR_LIMIT, "%.60s: is nested more than %d deep, or contains itself", w->name, MAX_DEPTH);
    status result = charge(w, is_dict ? JSON_COST_OBJECT : JSON_COST_ARRAY);
    if (result != OK) return result;
    json_t *container = is_dict ? json_object() : json_array();
    if (container == NULL) return no_memory(w);
    int n_values = 0;
    result = is_dict ? visit_dict(w, node, depth, container, &n_values) : visit_list(w, node, depth, container, &n_values);
    if (result != OK || (n_values == 0 && node->first != 0)) {
        json_decref(container);
        return result;
    }
    *out = container;
    return OK;
}

status pickle_visit(const pickle_visitor *v, error *e) {
    walk *w = calloc(1, sizeof *w);
    if (w == NULL) return error_set(e, ERR_MEMORY, "no memory");
    w->v = v;
    w->e = e;
    json_t *root;
    status result = visit(w, v->p->root, 0, &root);
    free(w);
    if (result != OK || root == NULL) return result;
    if (json_is_object(root)) {
        if (json_object_update(v->r->c->meta, root) != 0) result = error_set(e, ERR_MEMORY, "no memory for its metadata");
        json_decref(root);
    } else if (json_object_set_new(v->r->c->meta, "value", root) != 0) {
        result = error_set(e, ERR_MEMORY, "no memory for its metadata");
    }
    return result;
}
