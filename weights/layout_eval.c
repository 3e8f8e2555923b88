/* layout_eval.c - the expressions of a layout's "config". See resolver.h for what each form means. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/layout.h"
#include "weights/pattern.h"
#include "weights/resolver.h"

enum { PATH_SIZE = 256, MAX_LIST = 4096 };

/* "{arch}" in a path stands for the value of general.architecture. */
static bool expand_path(char *out, const resolver *r, const char *path) {
    const char *at = strstr(path, "{arch}"), *arch = "";
    if (at == NULL) return snprintf(out, PATH_SIZE, "%s", path) < PATH_SIZE;
    json_t *value = json_object_get(r->meta, "general.architecture");
    if (json_is_string(value)) arch = json_string_value(value);
    return snprintf(out, PATH_SIZE, "%.*s%s%s", (int)(at - path), path, arch, at + strlen("{arch}")) < PATH_SIZE;
}

/* The first path that has a value which is not null. *found: its name, for messages. */
static json_t *lookup(const resolver *r, const json_t *paths, char *found) {
    size_t n = json_is_array(paths) ? json_array_size(paths) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *path = json_string_value(json_is_array(paths) ? json_array_get(paths, i) : paths);
        if (path == NULL || !expand_path(found, r, path)) continue;
        json_t *value = meta_find(r->meta, found);
        if (value != NULL && !json_is_null(value)) return json_incref(value);
    }
    return NULL;
}

/* A tensor's numbers as a list (rope factors). Small ones only. */
static json_t *tensor_list(resolver *r, const json_t *patterns) {
    const tensor *t = pattern_find(r->c, r->prefix, patterns, 0, 0);
    if (t == NULL) return NULL;
    resolver_use(r, t);
    if (t->n_dims != 1 || t->n_elems > MAX_LIST || (t->type != DTYPE_F32 && t->type != DTYPE_F16) || t->stride[0] != 1)
        return resolver_fail(r, ERR_MISMATCH, "tensor '%s' is not a short list of numbers", t->name);
    tensor_bytes bytes;
    r->st = tensor_read(r->c, t, &bytes, r->e);
    if (r->st != OK) return NULL;
    float numbers[MAX_LIST];
    dtype_info(t->type)->decode(numbers, bytes.data, t->n_elems);
    tensor_release(&bytes);
    json_t *out = resolver_made(r, json_array());
    for (size_t i = 0; out != NULL && r->st == OK && i < t->n_elems; i++) {
        if (isfinite(numbers[i]))
            resolver_append(r, out, json_real((double)numbers[i]));
        else
            resolver_fail(r, ERR_NUMERIC, "tensor '%s' holds a number that is not finite", t->name);
    }
    return out;
}

static json_t *presence(resolver *r, const json_t *expression) {
    bool has = pattern_find(r->c, r->prefix, json_object_get(expression, "has"), 0, 0) != NULL;
    json_t *branch = json_object_get(expression, has ? "then" : "else");
    return branch != NULL ? resolve_expression(r, branch) : NULL;
}

/* A value as the text that "map" knows it by. */
static void value_text(resolver *r, char *out, size_t size, const json_t *value) {
    char *dumped = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (dumped == NULL && !json_is_string(value)) resolver_fail(r, ERR_MEMORY, "no memory");
    snprintf(out, size, "%s", json_is_string(value) ? json_string_value(value) : dumped != NULL ? dumped : "?");
    free(dumped);
}

static json_t *mapped(resolver *r, json_t *value, const json_t *map, const char *key) {
    char text[PATH_SIZE];
    value_text(r, text, sizeof text, value);
    json_decref(value);
    if (r->st != OK) return NULL;
    json_t *to = json_object_get(map, text);
    if (to == NULL) to = json_object_get(map, "*");
    if (to == NULL) return resolver_fail(r, ERR_UNSUPPORTED, "%s is %s (not one that Tally knows)", key, text);
    return json_is_null(to) ? NULL : resolve_expression(r, to);
}

/* The number that an inner expression gives; false where it gives none. */
static bool number(resolver *r, const json_t *expression, double *out) {
    json_t *value = resolve_expression(r, expression);
    bool ok = json_is_number(value);
    *out = json_number_value(value);
    json_decref(value);
    return ok;
}

static json_t *arithmetic(resolver *r, json_t *value, const json_t *expression) {
    const json_t *power = json_object_get(expression, "power"), *times = json_object_get(expression, "times");
    const json_t *plus = json_object_get(expression, "plus");
    bool to_floor = json_is_true(json_object_get(expression, "floor"));
    if (power == NULL && times == NULL && plus == NULL && !to_floor) return value;
    double x = json_number_value(value), by = 1, add = 0;
    bool ok = json_is_number(value);
    json_decref(value);
    if (power != NULL) x = pow(x, json_number_value(power));
    if (times != NULL) ok = number(r, times, &by) && ok;
    if (plus != NULL) ok = number(r, plus, &add) && ok;
    if (!ok) return NULL;
    x = x * by + add;
    if (to_floor) x = floor(x);
    if (!isfinite(x)) return resolver_fail(r, ERR_NUMERIC, "layout '%s': arithmetic gives %g", layout_name(r->layout), x);
    return resolver_made(r, x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x));
}

/* [["global", "local"], 12] written twelve times, or a plain list: element i. */
static const json_t *list_element(const json_t *list, size_t i) {
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *item = json_array_get(list, k), *cycle = json_array_get(item, 0);
        size_t n = 1;
        if (json_is_array(cycle)) {
            n = json_array_size(cycle);
            json_int_t times = json_integer_value(json_array_get(item, 1));
            if (n == 0 || times < 0 || (size_t)times > CONFIG_MAX_LAYERS) return NULL;
            if (i < n * (size_t)times) return json_array_get(cycle, i % n);
            n *= (size_t)times;
        } else if (i == 0)
            return item;
        i -= n;
    }
    return NULL;
}

static bool layer_is_in(resolver *r, const json_t *value, const json_t *rule, size_t il) {
    const json_t *cycle = json_object_get(rule, "cycle"), *equal = json_object_get(rule, "equal");
    const json_t *below = json_object_get(rule, "below"), *from = json_object_get(rule, "from");
    const json_t *last_of = json_object_get(rule, "all_but_last_of");
    double bound = 0;
    if (equal != NULL) return json_equal(list_element(value, il), equal);
    if (cycle != NULL && json_array_size(cycle) > 0)
        return json_integer_value(json_array_get(cycle, il % json_array_size(cycle))) != 0;
    if (below != NULL) return number(r, below, &bound) && (double)il < bound;
    if (from != NULL) return number(r, from, &bound) && (double)il >= bound;
    if (last_of != NULL) return number(r, last_of, &bound) && bound >= 1 && (il + 1) % (size_t)bound != 0;
    return false;
}

static json_t *layer_list(resolver *r, json_t *value, const json_t *rule) {
    json_int_t n = json_integer_value(resolve_field(r, "n_layers"));
    json_t *out = resolver_made(r, json_array());
    for (json_int_t il = 0; out != NULL && il < n && il < CONFIG_MAX_LAYERS; il++)
        if (layer_is_in(r, value, rule, (size_t)il)) resolver_append(r, out, json_integer(il));
    json_decref(value);
    return out;
}

static json_t *base_value(resolver *r, const json_t *expression, char *key) {
    const json_t *paths = json_object_get(expression, "key"), *of = json_object_get(expression, "of");
    if (paths != NULL) return lookup(r, paths, key);
    if (of != NULL) return json_incref(resolve_field(r, json_string_value(of)));
    if (json_object_get(expression, "has") != NULL) return presence(r, expression);
    if (json_object_get(expression, "tensor") != NULL) return tensor_list(r, json_object_get(expression, "tensor"));
    if (json_object_get(expression, "value") != NULL) return json_incref(json_object_get(expression, "value"));
    return NULL;
}

static json_t *resolve_object(resolver *r, const json_t *expression) {
    char key[PATH_SIZE] = "?";
    const json_t *ask = json_object_get(expression, "ask"), *map = json_object_get(expression, "map");
    const json_t *layers = json_object_get(expression, "layers"), *fallback = json_object_get(expression, "default");
    const json_t *assume = json_object_get(expression, "assume");
    if (ask != NULL) return resolver_fail(r, ERR_MISMATCH, "%s", json_string_value(ask));
    json_t *value = base_value(r, expression, key);
    if (value != NULL && map != NULL) value = mapped(r, value, map, key);
    if (value == NULL && fallback != NULL && r->st == OK) value = resolve_expression(r, fallback);
    if (value != NULL) value = arithmetic(r, value, expression);
    if (value != NULL && layers != NULL) value = layer_list(r, value, layers);
    if (value != NULL && json_is_string(assume)) resolver_append(r, r->assumptions, json_incref((json_t *)assume));
    return value;
}

json_t *resolve_expression(resolver *r, const json_t *expression) {
    if (r->st != OK || json_is_null(expression)) return NULL;
    if (json_is_object(expression)) return resolve_object(r, expression);
    if (!json_is_array(expression)) return json_incref((json_t *)expression);
    for (size_t i = 0; i < json_array_size(expression); i++) {
        json_t *value = resolve_expression(r, json_array_get(expression, i));
        if (value != NULL) return value;
    }
    return NULL;
}
