#include "weights/layout.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/embedded.h"
#include "weights/slots.h"

extern const embedded_file layout_files[];

static const char *const layout_keys[] = {"name",       "title",  "golden", "family", "like",          "recognise",
                                          "tensors",    "config", "ignore", "assume", "refuse",        "writes",
                                          "vocabulary", "bos",    "eos",    "pad",    "sample_prompt", NULL};
static const char *const spec_keys[] = {"name",      "bias",     "transposed", "order",   "offset",
                                        "skip_rows", "computed", "optional",   "by_head", NULL};
static const char *const merged_keys[] = {"tensors", "config", NULL};
static const char *const fused_roles[] = {"qkv", "kv", "gate_up", NULL};

static bool is_among(const char *word, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(*words, word) == 0) return true;
    return false;
}

static bool is_role(const char *word) {
    for (tensor_role r = 0; r < N_ROLES; r++)
        if (strcmp(role_name(r), word) == 0) return true;
    return is_among(word, fused_roles);
}

const char *layout_name(const json_t *layout) {
    const char *name = json_string_value(json_object_get(layout, "name"));
    return name != NULL ? name : "?";
}

const json_t *layout_spec(const json_t *layout, const char *role) {
    return json_object_get(json_object_get(layout, "tensors"), role);
}

const json_t *layout_named(const json_t *layouts, const char *name) {
    for (size_t i = 0; i < json_array_size(layouts); i++)
        if (strcmp(layout_name(json_array_get(layouts, i)), name) == 0) return json_array_get(layouts, i);
    return NULL;
}

/* A string or an array of strings, as an array of strings. NULL: neither. */
static json_t *as_patterns(const json_t *value) {
    if (json_is_string(value)) return json_pack("[O]", value);
    if (!json_is_array(value)) return NULL;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i))) return NULL;
    return json_copy((json_t *)value);
}

/* What a bias is called beside its weight. */
static const char *const bias_names[][2] = {
    {"weight", "bias"}, {"gain", "bias"}, {"gamma", "beta"}, {"scale", "bias"}, {"kernel", "bias"}};

static json_t *bias_patterns(const json_t *names) {
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t n = strlen(name);
        for (size_t k = 0; k < sizeof bias_names / sizeof *bias_names; k++) {
            size_t m = strlen(bias_names[k][0]);
            if (n < m || strcmp(name + n - m, bias_names[k][0]) != 0) continue;
            json_array_append_new(out, json_sprintf("%.*s%s", (int)(n - m), name, bias_names[k][1]));
        }
    }
    return out;
}

/* Any form of an entry as an object {name: [...], bias: [...], ...}; computed entries may have no name. NULL: no entry. */
static json_t *normal_spec(const json_t *value) {
    json_t *spec = json_is_object(value) ? json_copy((json_t *)value) : json_pack("{sO}", "name", value);
    json_t *name = json_object_get(spec, "name"), *bias = json_object_get(spec, "bias");
    bool computed = json_object_get(spec, "computed") != NULL;
    json_t *names = name == NULL && computed ? json_array() : as_patterns(name);
    if (names == NULL || (json_array_size(names) == 0 && !computed)) {
        json_decref(names);
        json_decref(spec);
        return NULL;
    }
    json_t *biases = bias == NULL ? bias_patterns(names) : json_is_false(bias) ? json_array() : as_patterns(bias);
    json_object_set_new(spec, "name", names);
    if (biases == NULL || json_object_set_new(spec, "bias", biases) != 0) {
        json_decref(spec);
        return NULL;
    }
    return spec;
}

static status check_keys(const json_t *object, const char *const *known, const char *where, const char *what, error *e) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (key[0] == '_' || is_among(key, known)) continue;
        return error_set(e, ERR_FORMAT, "%s: %s has an unknown key '%s' (see docs/layouts.md)", where, what, key);
    }
    return OK;
}

static status normalise_tensors(json_t *layout, const char *where, error *e) {
    json_t *tensors = json_object_get(layout, "tensors"), *value;
    const char *role;
    void *next;
    json_object_foreach_safe(tensors, next, role, value) {
        if (!is_role(role))
            return error_set(e, ERR_FORMAT, "%s: 'tensors' has an unknown role '%s' (see docs/layouts.md)", where, role);
        if (json_is_null(value)) continue; /* takes away what the layout is like has */
        status s = json_is_object(value) ? check_keys(value, spec_keys, where, role, e) : OK;
        if (s != OK) return s;
        json_t *spec = normal_spec(value);
        if (spec == NULL)
            return error_set(e, ERR_FORMAT, "%s: '%s' must be a name, a list of names, or an object with a name", where, role);
        json_object_set_new(tensors, role, spec);
    }
    return OK;
}

/* Lays `change` over `base`, entry by entry in tensors and config (null takes one away), lists of ignored names added up. What is as
 * before is shared with base, not copied: layouts do not change once they are finished, and most of them are mostly like another. */
static json_t *merged(const json_t *base, const json_t *change) {
    json_t *out = json_copy((json_t *)base), *value;
    const char *key;
    json_object_del(out, "recognise"); /* what it is like is not how it is recognised */
    json_object_del(out, "golden");
    json_object_foreach((json_t *)change, key, value) {
        json_t *old = json_object_get(out, key);
        if (is_among(key, merged_keys) && json_is_object(old) && json_is_object(value)) {
            const char *inner;
            json_t *entry, *both = json_copy(old);
            json_object_foreach(value, inner, entry) {
                if (json_is_null(entry))
                    json_object_del(both, inner);
                else
                    json_object_set(both, inner, entry);
            }
            json_object_set_new(out, key, both);
        } else if (strcmp(key, "ignore") == 0 && json_is_array(old) && json_is_array(value)) {
            json_t *both = json_copy(old);
            json_array_extend(both, value);
            json_object_set_new(out, key, both);
        } else {
            json_object_set(out, key, value);
        }
    }
    return out;
}

/* `raw` as a layout of its own: checked, normalised (in place), merged. A new reference. */
static json_t *finished(const json_t *builtin, json_t *raw, const char *where, error *e) {
    if (!json_is_object(raw)) return error_set(e, ERR_FORMAT, "%s: a layout must be a JSON object", where), NULL;
    if (check_keys(raw, layout_keys, where, "the layout", e) != OK) return NULL;
    const char *like = json_string_value(json_object_get(raw, "like"));
    const json_t *base = like != NULL ? layout_named(builtin, like) : NULL;
    if (like != NULL && base == NULL)
        return error_set(e, ERR_FORMAT, "%s: there is no built-in layout '%s' to be like", where, like), NULL;
    if (json_object_get(raw, "name") == NULL) json_object_set_new(raw, "name", json_string(where));
    json_t *out = NULL;
    if (normalise_tensors(raw, where, e) == OK) out = base != NULL ? merged(base, raw) : json_incref(raw);
    if (out == NULL || json_is_object(json_object_get(out, "tensors"))) return out;
    error_set(e, ERR_FORMAT, "%s: the layout has no object 'tensors'", where);
    json_decref(out);
    return NULL;
}

json_t *layout_from_text(const json_t *builtin, const char *text, const char *where, error *e) {
    json_error_t at;
    json_t *raw = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (raw == NULL) return error_set(e, ERR_FORMAT, "%s: line %d: %s", where, at.line, at.text), NULL;
    json_t *out = finished(builtin, raw, where, e);
    json_decref(raw);
    return out;
}

/* A file holds one layout, or an array of them. */
static status add_file(json_t *raws, const embedded_file *f, error *e) {
    json_error_t at;
    json_t *root = json_loads(f->text, JSON_REJECT_DUPLICATES, &at);
    if (root == NULL) return error_set(e, ERR_FORMAT, "layout %s: line %d: %s", f->name, at.line, at.text);
    int failed = json_is_array(root) ? json_array_extend(raws, root) : json_array_append(raws, root);
    json_decref(root);
    return failed ? error_set(e, ERR_MEMORY, "no memory for the layouts") : OK;
}

/* The file with the layout of that name; NULL: none. */
static const embedded_file *file_of(const char *name) {
    char line[128];
    snprintf(line, sizeof line, "\"name\": \"%s\"", name);
    for (const embedded_file *f = layout_files; f->name != NULL; f++)
        if (strstr(f->text, line) != NULL) return f;
    return NULL;
}

/* Adds the files with the layouts that those in `raws` are like, until none is missing. */
static status add_bases(json_t *raws, error *e) {
    for (size_t i = 0; i < json_array_size(raws); i++) {
        const char *like = json_string_value(json_object_get(json_array_get(raws, i), "like"));
        if (like == NULL || layout_named(raws, like) != NULL) continue;
        const embedded_file *f = file_of(like);
        status s = f != NULL ? add_file(raws, f, e) : error_set(e, ERR_FORMAT, "there is no layout '%s' to be like", like);
        if (s != OK) return s;
    }
    return OK;
}

/* Finishes those of `all` that are like none, or like one that is finished; the number that are left. */
static status finish_some(json_t *all, json_t *is_done, size_t *n_left, error *e) {
    *n_left = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *raw = json_array_get(all, i), *like = json_object_get(raw, "like");
        const char *name = layout_name(raw);
        if (json_object_get(is_done, name) != NULL) continue;
        if (like != NULL && json_object_get(is_done, json_string_value(like)) == NULL) {
            ++*n_left;
            continue;
        }
        json_t *layout = finished(all, raw, name, e);
        if (layout == NULL) return ERR_FORMAT;
        if (json_array_set_new(all, i, layout) != 0 || json_object_set_new(is_done, layout_name(layout), json_true()) != 0)
            return error_set(e, ERR_MEMORY, "no memory for the layouts");
    }
    return OK;
}

static status finish_all(json_t *all, error *e) {
    json_t *is_done = json_object();
    size_t n_left = 1, n_before = SIZE_MAX;
    status s = is_done != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for the layouts");
    while (s == OK && n_left > 0) {
        s = finish_some(all, is_done, &n_left, e);
        if (s == OK && n_left == n_before) s = error_set(e, ERR_FORMAT, "%zu built-in layouts are like one another", n_left);
        n_before = n_left;
    }
    json_decref(is_done);
    return s;
}

json_t *layouts_with(const char *word, size_t *from, error *e) {
    json_t *all = json_array();
    status s = all != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for the layouts");
    size_t i = from != NULL ? *from : 0;
    for (; s == OK && layout_files[i].name != NULL; i++) {
        if (word != NULL && strstr(layout_files[i].text, word) == NULL) continue;
        s = add_file(all, &layout_files[i], e);
        if (from == NULL) continue;
        i++;
        break;
    }
    if (from != NULL) *from = i;
    if (s == OK) s = add_bases(all, e);
    if (s == OK) s = finish_all(all, e);
    if (s == OK) return all;
    json_decref(all);
    return NULL;
}

json_t *layouts_builtin(error *e) {
    return layouts_with(NULL, NULL, e);
}
