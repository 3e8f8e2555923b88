/* json_weights.c - weights as JSON text: an object of nested lists of numbers, by the tensors' names.
 *
 *   {"tok.weight": [[-0.1117, -0.4966, ...], ...], "head.bias": [0.25, ...], "config": {"d": 32, "heads": 4}}
 *
 * Objects may be nested: names are joined with '.'. A list of numbers (of any depth, all rows alike) is a tensor of float64;
 * everything else is metadata, and so is all of a member named "config". The text is scanned here without a tree of it: a tree of
 * a hundred million numbers would take ten times the file's size. The rest goes through jansson. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"
#include "weights/json_scan.h"

enum { MAX_OBJECTS = 16, MAX_NAME = 1024 };

typedef struct {
    reader *r;
    int shard;
    char name[MAX_NAME];
    size_t n_name;
    error *e;
} weights_scan;

static recognition recognise(const uint8_t *data, size_t size) {
    json_scan s = {.at = (const char *)data, .end = (const char *)data + size};
    if (!json_scan_char(&s, '{')) return NOT_MINE;
    json_scan_space(&s);
    return s.at < s.end && (*s.at == '"' || *s.at == '}') ? SURELY_MINE : NOT_MINE;
}

static status bad(weights_scan *w, const char *what) {
    return error_set(w->e, ERR_FORMAT, "%s%s", w->n_name > 0 ? w->name : "JSON", what);
}

/* The shape of a list of numbers at s->at, whose rows must agree. *is_tensor false: something else stands in it. */
static status list_shape(weights_scan *w, json_scan *s, tensor *t, bool *is_tensor) {
    int64_t count[TENSOR_MAX_DIMS] = {0};
    int depth = 0, leaf = 0; /* leaf: the depth at which numbers stand, 0: none seen */
    *is_tensor = true;
    for (int d = 0; d < TENSOR_MAX_DIMS; d++) t->shape[d] = -1;
    do {
        if (json_scan_char(s, '[')) {
            if (depth == TENSOR_MAX_DIMS) return bad(w, ": more than 8 dimensions");
            if (depth + 1 > leaf && leaf > 0) return bad(w, ": a list among numbers");
            count[depth++] = 0;
            if (!json_scan_peek(s, ']')) continue; /* its first item */
        } else if (json_scan_number(s)) {
            if (leaf > 0 && leaf != depth) return bad(w, ": rows of different depth");
            leaf = depth;
            count[depth - 1]++;
        } else {
            *is_tensor = false;
            return OK;
        }
        /* After an item: the ends of lists, then a comma. */
        while (depth > 0 && json_scan_char(s, ']')) {
            int64_t n = count[--depth];
            if (t->shape[depth] >= 0 && t->shape[depth] != n) return bad(w, ": rows of different lengths");
            t->shape[depth] = n;
            if (depth + 1 > t->n_dims) t->n_dims = depth + 1;
            if (depth > 0) count[depth - 1]++;
        }
        if (depth > 0 && !json_scan_char(s, ',')) {
            *is_tensor = false; /* something else, or not JSON: jansson says */
            return OK;
        }
    } while (depth > 0);
    if (leaf > 0 && leaf != t->n_dims) return bad(w, ": rows of different depth");
    return OK;
}

static status add_list(weights_scan *w, json_scan *s, bool *is_tensor) {
    tensor t = {.type = DTYPE_F64, .type_name = "number", .shard = w->shard};
    const char *start = s->at;
    status result = list_shape(w, s, &t, is_tensor);
    if (result != OK || !*is_tensor) {
        s->at = start;
        return result;
    }
    if (!tensor_row_major(&t)) return bad(w, ": its shape overflows 64 bits");
    t.offset = (size_t)(start - (const char *)w->r->sources[w->shard].data);
    t.span = (size_t)(s->at - start);
    return reader_add(w->r, w->name, w->n_name, &t, w->e);
}

/* A member of the metadata. Takes the value. */
static status set_meta(weights_scan *w, json_t *meta, const char *key, size_t n, json_t *value) {
    if (json_object_getn(meta, key, n) != NULL) {
        json_decref(value);
        return bad(w, ": is there twice");
    }
    if (json_object_setn_new_nocheck(meta, key, n, value) != 0)
        return error_set(w->e, ERR_MEMORY, "no memory for its metadata");
    return OK;
}

/* Anything but weights, as jansson reads it. */
static status add_value(weights_scan *w, json_scan *s, json_t *meta, const char *key, size_t n_key) {
    const char *start = s->at;
    json_t *value;
    if (!json_scan_value(s)) return bad(w, ": is no JSON value, or is cut off");
    status result = json_load_bounded(&value, w->r, start, (size_t)(s->at - start), JSON_DECODE_ANY | JSON_ALLOW_NUL, w->e);
    if (result != OK) return error_prefix(w->e, w->n_name > 0 ? w->name : "JSON");
    return set_meta(w, meta, key, n_key, value);
}

/* A member's name, with its escapes undone. */
static status read_key(weights_scan *w, json_scan *s, char key[MAX_NAME], size_t *n) {
    const char *start = s->at;
    json_error_t problem;
    *n = 0;
    if (!json_scan_text(s)) return bad(w, ": a member without a name");
    if (s->at - start > MAX_NAME) return error_set(w->e, ERR_LIMIT, "%.60s...: a name of more than %d bytes", start, MAX_NAME);
    json_t *text = json_loadb(start, (size_t)(s->at - start), JSON_DECODE_ANY, &problem);
    if (text == NULL) return error_set(w->e, ERR_FORMAT, "JSON: a name is no text: %s", problem.text);
    *n = json_string_length(text);
    memcpy(key, json_string_value(text), *n);
    key[*n] = '\0';
    json_decref(text);
    return json_scan_char(s, ':') ? OK : bad(w, ": a name without a value");
}

static status scan_object(weights_scan *w, json_scan *s, int depth, json_t *meta);

/* One member's value: weights, an object that may hold weights, or metadata. */
static status scan_member(weights_scan *w, json_scan *s, int depth, json_t *meta, const char *key, size_t n) {
    bool is_tensor = false;
    if (json_scan_peek(s, '{') && depth < MAX_OBJECTS && strcmp(key, "config") != 0) {
        json_t *inner = json_object();
        if (inner == NULL) return error_set(w->e, ERR_MEMORY, "no memory for its metadata");
        size_t before = w->r->c->n_tensors;
        status result = scan_object(w, s, depth + 1, inner);
        bool only_tensors = json_object_size(inner) == 0 && w->r->c->n_tensors > before;
        if (result != OK || only_tensors) {
            json_decref(inner);
            return result;
        }
        return set_meta(w, meta, key, n, inner);
    }
    if (json_scan_peek(s, '[')) {
        status result = add_list(w, s, &is_tensor);
        if (result != OK || is_tensor) return result;
    }
    return add_value(w, s, meta, key, n);
}

static status scan_object(weights_scan *w, json_scan *s, int depth, json_t *meta) {
    size_t n_name = w->n_name;
    if (!json_scan_char(s, '{')) return bad(w, ": is no object");
    if (!reader_charge(w->r, JSON_COST_OBJECT, w->e)) return ERR_LIMIT;
    if (json_scan_char(s, '}')) return OK;
    do {
        char key[MAX_NAME];
        size_t n;
        json_scan_space(s);
        status result = read_key(w, s, key, &n);
        if (result != OK) return result;
        if (n_name + n + 2 > MAX_NAME) return error_set(w->e, ERR_LIMIT, "%.60s...: its name is too long", w->name);
        if (n_name > 0) w->name[w->n_name++] = '.';
        memcpy(w->name + w->n_name, key, n + 1);
        w->n_name += n;
        if (!reader_charge(w->r, JSON_COST_MEMBER + n, w->e)) return ERR_LIMIT;
        result = scan_member(w, s, depth, meta, key, n);
        if (result != OK) return result;
        w->n_name = n_name;
        w->name[n_name] = '\0';
    } while (json_scan_char(s, ','));
    return json_scan_char(s, '}') ? OK : bad(w, ": a comma or a closing brace is missing (is the file cut off?)");
}

static status open_json(reader *r, int shard, error *e) {
    const source *src = &r->sources[shard];
    json_scan s = {.at = (const char *)src->data, .end = (const char *)src->data + src->size};
    weights_scan *w = calloc(1, sizeof *w);
    if (w == NULL) return error_set(e, ERR_MEMORY, "no memory");
    w->r = r;
    w->shard = shard;
    w->e = e;
    status result = OK;
    if (!reader_charge(r, src->size, e)) result = ERR_LIMIT;
    if (result == OK) result = scan_object(w, &s, 0, r->c->meta);
    json_scan_space(&s);
    if (result == OK && s.at != s.end) result = error_set(e, ERR_FORMAT, "JSON: text after the end of the object");
    free(w);
    if (result == OK && json_is_object(json_object_get(r->c->meta, "weight_map"))) result = folder_open_index(r, e);
    return result;
}

/* The numbers one after another, brackets and commas aside: the shape was checked when the file was opened. */
static status read_tensor(source *src, const tensor *t, tensor_bytes *out, error *e) {
    const char *text = (const char *)src->data + t->offset, *end = text + t->span;
    double *values = malloc(t->n_bytes > 0 ? t->n_bytes : 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a decimal point, whatever the program has set */
    out->owned = values;
    out->data = values;
    status result = values == NULL || c_locale == (locale_t)0
                        ? error_set(e, ERR_MEMORY, "tensor %s: no memory for %zu bytes", t->name, t->n_bytes)
                        : OK;
    for (size_t n = 0; result == OK && n < t->n_elems; n++) {
        while (text < end && *text != '-' && (*text < '0' || *text > '9')) text++;
        char *after;
        values[n] = strtod_l(text, &after, c_locale); /* the number ends before `end`, where a bracket stands */
        text = after;
        if (!isfinite(values[n])) result = error_set(e, ERR_FORMAT, "tensor %s: number %zu is beyond float64", t->name, n);
    }
    if (c_locale != (locale_t)0) freelocale(c_locale);
    return result;
}

const container_format container_json = {
    .kind = CHECKPOINT_JSON, .recognise = recognise, .open = open_json, .read = read_tensor};
