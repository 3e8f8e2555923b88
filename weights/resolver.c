#include "weights/resolver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/layout.h"
#include "weights/pattern.h"

enum { MAX_DEPTH = 32 };

void *resolver_fail(resolver *r, status code, const char *format, ...) {
    if (r->st != OK) return NULL;
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->st = error_set(r->e, code, "%s: %s", r->c->path, text);
    return NULL;
}

json_t *resolver_made(resolver *r, json_t *value) {
    return value != NULL ? value : resolver_fail(r, ERR_MEMORY, "no memory");
}

void resolver_append(resolver *r, json_t *list, json_t *value) {
    if (json_array_append_new(list, value) != 0) resolver_fail(r, ERR_MEMORY, "no memory");
}

/* Fields that tensors or other fields may tell, beyond those that the layout mentions. */
static const char *const derived_fields[] = {
    "n_layers",     "d_model",       "n_heads",           "n_kv_heads",     "head_dim",       "d_ff",
    "n_vocab",      "n_ctx",         "norm_bias",         "attn_pre_norm",  "attn_post_norm", "attn_residual_norm",
    "ffn_pre_norm", "ffn_post_norm", "ffn_residual_norm", "embedding_norm", "final_norm",     "qk_norm",
    "gated",        "q_bias",        "kv_bias",           "o_bias",         "ffn_bias",       "head_bias",
    "tied",         "norm",          "norm_eps",          "activation",     "position",       NULL,
};

/* Is it the name of a field of model_config? (Keys that are not are metadata.) */
static bool is_field(const json_t *layout, const char *key) {
    for (const char *const *f = derived_fields; *f != NULL; f++)
        if (strcmp(*f, key) == 0) return true;
    return json_object_get(json_object_get(layout, "config"), key) != NULL || config_has_field(key);
}

static void set_key(resolver *r, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) resolver_fail(r, ERR_MEMORY, "no memory");
}

/* What the file's metadata says of a field, where the layout reads it from there as it is; NULL: nothing. */
static const json_t *file_says(const resolver *r, const char *field) {
    const json_t *expression = json_object_get(json_object_get(r->layout, "config"), field);
    const json_t *one = json_is_array(expression) ? json_array_get(expression, 0) : expression;
    const json_t *keys = json_object_get(one, "key");
    if (json_object_get(one, "map") != NULL) return NULL;
    for (size_t i = 0; i < (json_is_array(keys) ? json_array_size(keys) : 1); i++) {
        const char *key = json_string_value(json_is_array(keys) ? json_array_get(keys, i) : keys);
        const json_t *value = key != NULL ? meta_find(r->c->meta, key) : NULL;
        if (value != NULL && !json_is_null(value)) return value;
    }
    return NULL;
}

/* Options are for what the file does not say: another word than the file's is refused, not believed. */
static status take(resolver *r, json_t *into, const char *field, const json_t *said, json_t *value, const char *option) {
    if (said != NULL && !json_equal(said, value)) {
        char *theirs = json_dumps(said, JSON_ENCODE_ANY), *ours = json_dumps(value, JSON_ENCODE_ANY);
        resolver_fail(r, ERR_MISMATCH, "%s: the file says %.60s, and %s says %.60s (leave it out)", field,
                      theirs != NULL ? theirs : "?", option, ours != NULL ? ours : "?");
        free(theirs);
        free(ours);
    }
    set_key(r, into, field, json_incref(value));
    return r->st;
}

static status take_given(resolver *r, const json_t *given, int n_heads) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)given, key, value) {
        bool field = is_field(r->layout, key);
        const json_t *said = field ? file_says(r, key) : json_object_get(r->c->meta, key);
        if (take(r, field ? r->fields : r->meta, key, said, value, "--config") != OK) return r->st;
    }
    json_t *heads = n_heads > 0 ? resolver_made(r, json_integer(n_heads)) : NULL;
    if (heads != NULL) take(r, r->fields, "n_heads", file_says(r, "n_heads"), heads, "--heads");
    json_decref(heads);
    return r->st;
}

status resolver_init(resolver *r, checkpoint *c, const json_t *layout, const char *prefix, const json_t *given, int n_heads,
                     error *e) {
    *r = (resolver){.c = c, .layout = layout, .prefix = prefix, .e = e};
    r->meta = json_whole_copy(c->meta);
    r->fields = json_object();
    r->assumptions = json_array();
    r->used = calloc(c->n_tensors + 1, sizeof *r->used);
    if (r->meta == NULL || r->fields == NULL || r->assumptions == NULL || r->used == NULL)
        return error_set(e, ERR_MEMORY, "%s: no memory", c->path);
    return take_given(r, given, n_heads);
}

void resolver_free(resolver *r) {
    json_decref(r->meta);
    json_decref(r->fields);
    json_decref(r->assumptions);
    free(r->used);
}

const tensor *resolve_tensor(const resolver *r, const char *role, bool bias, int layer, int head) {
    const json_t *names = json_object_get(layout_spec(r->layout, role), bias ? "bias" : "name");
    return names == NULL ? NULL : pattern_find(r->c, r->prefix, names, layer, head);
}

void resolver_use(resolver *r, const tensor *t) {
    if (t != NULL) r->used[t - r->c->tensors] = true;
}

json_t *resolve_field(resolver *r, const char *field) {
    json_t *known = json_object_get(r->fields, field);
    if (known != NULL || r->st != OK) return r->st == OK ? known : NULL;
    if (r->depth >= MAX_DEPTH)
        return resolver_fail(r, ERR_FORMAT, "layout '%s' refers in circles at '%s'", layout_name(r->layout), field);
    r->depth++;
    const json_t *expression = json_object_get(json_object_get(r->layout, "config"), field);
    json_t *value = expression != NULL ? resolve_expression(r, expression) : NULL;
    if (value == NULL && r->st == OK) value = resolve_from_tensors(r, field);
    r->depth--;
    if (value == NULL) return NULL;
    if (json_object_set_new(r->fields, field, value) != 0) return resolver_fail(r, ERR_MEMORY, "no memory");
    return value;
}

/* "refuse": [{"key": path, "is": [values], "because": text}]: what a family's metadata may ask for and Tally does not do. */
static void check_refused(resolver *r) {
    const json_t *list = json_object_get(r->layout, "refuse");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *rule = json_array_get(list, i), *bad = json_object_get(rule, "is");
        const json_t *value = meta_find(r->meta, json_string_value(json_object_get(rule, "key")));
        for (size_t k = 0; value != NULL && k < json_array_size(bad); k++)
            if (json_equal(value, json_array_get(bad, k)))
                resolver_fail(r, ERR_UNSUPPORTED, "%s: %s", json_string_value(json_object_get(rule, "key")),
                              json_string_value(json_object_get(rule, "because")));
    }
}

static void add_assumption(resolver *r, const char *text) {
    resolver_append(r, r->assumptions, json_string(text));
}

static void add_layout_assumptions(resolver *r) {
    const json_t *list = json_object_get(r->layout, "assume");
    for (size_t i = 0; i < json_array_size(list); i++) resolver_append(r, r->assumptions, json_incref(json_array_get(list, i)));
}

/* Are the two tables the same numbers? Those that are stored in different ways count as different. */
static bool same_numbers(resolver *r, const tensor *a, const tensor *b) {
    if (a->type != b->type || a->n_dims != b->n_dims || a->n_elems != b->n_elems || a->n_bytes != b->n_bytes) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->shape[i] != b->shape[i] || a->stride[i] != b->stride[i]) return false;
    if (a->n_dims != 2 || a->stride[1] != 1 || a->stride[0] != a->shape[1] || a->type == DTYPE_I8G) return false;
    tensor_bytes x = {0}, y = {0};
    r->st = tensor_read(r->c, a, &x, r->e);
    if (r->st == OK) r->st = tensor_read(r->c, b, &y, r->e);
    bool same = r->st == OK && (x.data == y.data || memcmp(x.data, y.data, a->n_bytes) == 0);
    tensor_release(&x);
    tensor_release(&y);
    return same;
}

/* Is the head the embedding table? What the file says and what it holds may differ (cases.md): never a head that is not there. */
static void settle_tied(resolver *r) {
    const tensor *table = resolve_tensor(r, "embedding", false, 0, 0), *head = resolve_tensor(r, "head", false, 0, 0);
    const json_t *said = json_object_get(r->fields, "tied");
    bool both = table != NULL && head != NULL, tied = json_is_true(said);
    if (said == NULL)
        tied = both ? same_numbers(r, table, head) : table != NULL || head != NULL;
    else if (tied && both && !same_numbers(r, table, head))
        add_assumption(r,
                       "the file says that the head is the embedding table, yet holds a head that differs: the table is used");
    if (said == NULL && tied && !both)
        add_assumption(r, head == NULL ? "no head in the file: the embedding table is the head"
                                       : "no embedding table in the file: the head is the table");
    set_key(r, r->fields, "tied", json_boolean(tied));
    resolver_use(r, table);
    resolver_use(r, head);
}

static void require(resolver *r, const char *field, const char *advice) {
    if (json_object_get(r->fields, field) == NULL)
        resolver_fail(r, ERR_MISMATCH, "%s: the file does not say (%s)", field, advice);
}

status resolver_config(resolver *r, model_config *out) {
    const char *field;
    json_t *expression;
    for (const char *const *f = derived_fields; *f != NULL; f++) resolve_field(r, *f);
    json_object_foreach(json_object_get(r->layout, "config"), field, expression) resolve_field(r, field);
    if (r->st == OK) settle_tied(r);
    if (json_number_value(json_object_get(r->fields, "window")) == 0) {
        json_object_del(r->fields, "window"); /* "sliding_window": null: the family may have windows, this model has none */
        json_object_del(r->fields, "window_layers");
    }
    check_refused(r);
    require(r, "n_heads", "give --heads N");
    require(r, "n_ctx", "give --config FILE.json with {\"n_ctx\": N}");
    require(r, "norm", "the layout must: rms or layer");
    require(r, "activation", "the layout must: relu, silu, gelu_erf, gelu_tanh");
    require(r, "position", "the layout must: learned, rope, alibi or none");
    if (r->st != OK) return r->st;
    const json_t *family = json_object_get(r->layout, "family");
    set_key(r, r->fields, "family", json_incref((json_t *)(family != NULL ? family : json_object_get(r->layout, "name"))));
    add_layout_assumptions(r);
    if (r->st != OK) return r->st;
    r->st = config_from_object(out, r->fields, r->e);
    if (r->st != OK) error_prefix(r->e, r->c->path);
    return r->st;
}
