#include "weights/layout.h"

#include <string.h>

#include "weights/slots.h"

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

json_t *json_whole_copy(const json_t *value) {
    json_t *copy = json_copy((json_t *)value);
    if (json_object_size(copy) == json_object_size(value) && json_array_size(copy) == json_array_size(value)) return copy;
    json_decref(copy);
    return NULL;
}

static bool is_patterns(const json_t *value) {
    if (json_is_string(value)) return true;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i))) return false;
    return json_is_array(value);
}

/* A string or an array of strings, as an array of strings. NULL: no memory. */
static json_t *as_patterns(const json_t *value) {
    return json_is_string(value) ? json_pack("[O]", value) : json_whole_copy(value);
}

/* What a bias is called beside its weight. */
static const char *const bias_names[][2] = {
    {"weight", "bias"}, {"gain", "bias"}, {"gamma", "beta"}, {"scale", "bias"}, {"kernel", "bias"}};

/* NULL: no memory. */
static json_t *bias_patterns(const json_t *names) {
    json_t *out = json_array();
    bool ok = out != NULL;
    for (size_t i = 0; ok && i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t n = strlen(name);
        for (size_t k = 0; ok && k < sizeof bias_names / sizeof *bias_names; k++) {
            size_t m = strlen(bias_names[k][0]);
            if (n < m || strcmp(name + n - m, bias_names[k][0]) != 0) continue;
            ok = json_array_append_new(out, json_sprintf("%.*s%s", (int)(n - m), name, bias_names[k][1])) == 0;
        }
    }
    if (ok) return out;
    json_decref(out);
    return NULL;
}

/* Is it an entry at all? Computed ones may have no name; "bias": false says that there is none. */
static bool is_spec(const json_t *value) {
    if (!json_is_object(value)) return is_patterns(value) && (json_is_string(value) || json_array_size(value) > 0);
    const json_t *name = json_object_get(value, "name"), *bias = json_object_get(value, "bias");
    bool computed = json_object_get(value, "computed") != NULL;
    if (name == NULL ? !computed : !is_patterns(name) || (json_array_size(name) == 0 && !json_is_string(name) && !computed))
        return false;
    return bias == NULL || json_is_false(bias) || is_patterns(bias);
}

/* An entry as an object {name: [...], bias: [...], ...}. NULL: no memory. */
static json_t *normal_spec(const json_t *value) {
    json_t *spec = json_is_object(value) ? json_whole_copy(value) : json_pack("{sO}", "name", value);
    json_t *name = json_object_get(spec, "name"), *bias = json_object_get(spec, "bias");
    json_t *names = spec == NULL ? NULL : name == NULL ? json_array() : as_patterns(name);
    json_t *biases = names == NULL         ? NULL
                     : bias == NULL        ? bias_patterns(names)
                     : json_is_false(bias) ? json_array()
                                           : as_patterns(bias);
    bool ok = names != NULL && biases != NULL && json_object_set(spec, "name", names) == 0 &&
              json_object_set(spec, "bias", biases) == 0;
    json_decref(names);
    json_decref(biases);
    if (ok) return spec;
    json_decref(spec);
    return NULL;
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
        if (!is_spec(value))
            return error_set(e, ERR_FORMAT, "%s: '%s' must be a name, a list of names, or an object with a name", where, role);
        if (json_object_set_new(tensors, role, normal_spec(value)) != 0)
            return error_set(e, ERR_MEMORY, "%s: no memory for the layout", where);
    }
    return OK;
}

/* old with the entries of change in place of its own; null takes one away. NULL: no memory. */
static json_t *merged_entries(const json_t *old, const json_t *change) {
    json_t *both = json_whole_copy(old), *entry;
    const char *key;
    bool ok = both != NULL;
    json_object_foreach((json_t *)change, key, entry) {
        if (json_is_null(entry))
            json_object_del(both, key);
        else
            ok = json_object_set(both, key, entry) == 0 && ok;
    }
    if (ok) return both;
    json_decref(both);
    return NULL;
}

static json_t *joined_lists(const json_t *a, const json_t *b) {
    json_t *both = json_whole_copy(a);
    if (both == NULL || json_array_extend(both, (json_t *)b) == 0) return both;
    json_decref(both);
    return NULL;
}

/* Lays `change` over `base`, entry by entry in tensors and config, lists of ignored names added up. What is as before is shared with base, not
 * copied: layouts do not change once they are finished, and most of them are mostly like another. NULL: no memory. */
static json_t *merged(const json_t *base, const json_t *change) {
    json_t *out = json_whole_copy(base), *value;
    const char *key;
    bool ok = out != NULL;
    json_object_del(out, "recognise"); /* what it is like is not how it is recognised */
    json_object_del(out, "golden");
    json_object_foreach((json_t *)change, key, value) {
        const json_t *old = json_object_get(out, key);
        json_t *now;
        if (is_among(key, merged_keys) && json_is_object(old) && json_is_object(value))
            now = merged_entries(old, value);
        else if (strcmp(key, "ignore") == 0 && json_is_array(old) && json_is_array(value))
            now = joined_lists(old, value);
        else
            now = json_incref(value);
        ok = json_object_set_new(out, key, now) == 0 && ok;
    }
    if (ok) return out;
    json_decref(out);
    return NULL;
}

/* `raw` as a layout of its own: checked, normalised (in place), merged. A new reference. */
json_t *layout_finished(const json_t *builtin, json_t *raw, const char *where, error *e) {
    if (!json_is_object(raw)) return error_set(e, ERR_FORMAT, "%s: a layout must be a JSON object", where), NULL;
    if (check_keys(raw, layout_keys, where, "the layout", e) != OK) return NULL;
    const char *like = json_string_value(json_object_get(raw, "like"));
    const json_t *base = like != NULL ? layout_named(builtin, like) : NULL;
    if (like != NULL && base == NULL)
        return error_set(e, ERR_FORMAT, "%s: there is no built-in layout '%s' to be like", where, like), NULL;
    if (json_object_get(raw, "name") == NULL && json_object_set_new(raw, "name", json_string(where)) != 0)
        return error_set(e, ERR_MEMORY, "%s: no memory for the layout", where), NULL;
    if (normalise_tensors(raw, where, e) != OK) return NULL;
    json_t *out = base != NULL ? merged(base, raw) : json_incref(raw);
    if (out == NULL) return error_set(e, ERR_MEMORY, "%s: no memory for the layout", where), NULL;
    if (json_is_object(json_object_get(out, "tensors"))) return out;
    error_set(e, ERR_FORMAT, "%s: the layout has no object 'tensors'", where);
    json_decref(out);
    return NULL;
}

json_t *layout_from_text(const json_t *builtin, const char *text, const char *where, error *e) {
    json_error_t at;
    json_t *raw = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (raw == NULL) return error_set(e, ERR_FORMAT, "%s: line %d: %s", where, at.line, at.text), NULL;
    json_t *out = layout_finished(builtin, raw, where, e);
    json_decref(raw);
    return out;
}
