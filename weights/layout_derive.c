/* layout_derive.c - what the shapes and the presence of tensors say about a configuration. */
#include <stdio.h>
#include <string.h>

#include "weights/bind.h"
#include "weights/layout.h"
#include "weights/pattern.h"
#include "weights/resolver.h"
#include "weights/slots.h"

static bool has_tensor(const resolver *r, const char *role, bool bias) {
    return resolve_tensor(r, role, bias, 0, 0) != NULL;
}

/* Rows and columns of the role's tensor in layer 0 as the model would hold it; false where there is none, or it is no matrix. */
static bool matrix_dims(const resolver *r, const char *role, int64_t *n_rows, int64_t *n_cols) {
    const tensor *t = resolve_tensor(r, role, false, 0, 0);
    const json_t *spec = layout_spec(r->layout, role);
    int64_t shape[TENSOR_MAX_DIMS], stride[TENSOR_MAX_DIMS];
    int want = json_is_true(json_object_get(spec, "by_head")) ? 3 : 2,
        n = t != NULL ? tensor_squeezed(t, want, shape, stride) : 0;
    if (n < 2) return false;
    bool transposed = json_is_true(json_object_get(spec, "transposed"));
    int64_t a = shape[n - 2], b = shape[n - 1];
    *n_rows = transposed ? b : a;
    *n_cols = transposed ? a : b;
    return true;
}

static json_int_t field_int(resolver *r, const char *field) {
    return json_integer_value(resolve_field(r, field));
}

/* How many of a role's tensors follow one another from 0 on, over layers or heads. */
static int count_tensors(const resolver *r, const char *role, bool over_heads, int most) {
    int n = 0;
    while (n < most && resolve_tensor(r, role, false, over_heads ? 0 : n, over_heads ? n : 0) != NULL) n++;
    return n;
}

/* Has the role a tensor, or a slice of one, for each head? */
static bool is_per_head(const resolver *r, const char *role) {
    const json_t *spec = layout_spec(r->layout, role);
    return spec != NULL &&
           (pattern_has(json_object_get(spec, "name"), "{head") || json_is_true(json_object_get(spec, "by_head")));
}

static json_t *count_heads(resolver *r, const char *role) {
    const tensor *t = resolve_tensor(r, role, false, 0, 0);
    bool in_one = json_is_true(json_object_get(layout_spec(r->layout, role), "by_head"));
    if (t == NULL || (in_one && t->n_dims != 3)) return NULL;
    return resolver_made(r, json_integer(in_one ? t->shape[0] : count_tensors(r, role, true, 1 << 16)));
}

/* The longest run of layers that any role has: a tensor missing from the last layer is then missed, not taken for the end. */
static json_t *derive_n_layers(resolver *r) {
    const char *role;
    json_t *spec;
    int most = 0;
    json_object_foreach(json_object_get(r->layout, "tensors"), role, spec) {
        if (!pattern_has(json_object_get(spec, "name"), "{layer")) continue;
        int n = count_tensors(r, role, false, CONFIG_MAX_LAYERS + 1);
        if (n > most) most = n;
    }
    return most > 0 ? resolver_made(r, json_integer(most)) : NULL;
}

static json_t *derive_dim(resolver *r, const char *role, bool rows, int64_t divide) {
    int64_t n_rows, n_cols;
    if (!matrix_dims(r, role, &n_rows, &n_cols)) return NULL;
    return resolver_made(r, json_integer((rows ? n_rows : n_cols) / divide));
}

static json_t *derive_n_ctx(resolver *r) {
    int64_t n_rows, n_cols;
    if (!matrix_dims(r, "positions", &n_rows, &n_cols)) return NULL;
    return resolver_made(
        r, json_integer(n_rows - json_integer_value(json_object_get(layout_spec(r->layout, "positions"), "skip_rows"))));
}

static json_t *derive_n_heads(resolver *r) {
    const char *role = is_per_head(r, "q") ? "q" : is_per_head(r, "qkv") ? "qkv" : NULL;
    return role != NULL ? count_heads(r, role) : NULL;
}

/* rows / heads, if they can share them. */
static json_t *shared_rows(resolver *r, const char *role, int64_t n_rows, int64_t n_heads) {
    if (n_heads <= 0) return NULL;
    if (n_rows > 0 && n_rows % n_heads == 0) return resolver_made(r, json_integer(n_rows / n_heads));
    const tensor *t = resolve_tensor(r, role, false, 0, 0);
    return resolver_fail(r, ERR_MISMATCH, "tensor '%s' has %lld rows, which %lld heads cannot share",
                         t != NULL ? t->name : role, (long long)n_rows, (long long)n_heads);
}

static json_t *derive_head_dim(resolver *r) {
    int64_t n_rows, n_cols;
    if (matrix_dims(r, "q", &n_rows, &n_cols))
        return is_per_head(r, "q") ? resolver_made(r, json_integer(n_rows))
                                   : shared_rows(r, "q", n_rows, field_int(r, "n_heads"));
    if (!matrix_dims(r, "qkv", &n_rows, &n_cols)) return NULL;
    if (is_per_head(r, "qkv")) return shared_rows(r, "qkv", n_rows, 3);
    /* The layout may know the K/V heads; else there are as many as query heads. */
    const json_t *said = json_object_get(json_object_get(r->layout, "config"), "n_kv_heads");
    json_int_t n_heads = field_int(r, "n_heads"), n_kv = n_heads;
    json_t *kv = json_object_get(r->fields, "n_kv_heads");
    kv = kv != NULL ? json_incref(kv) : said != NULL ? resolve_expression(r, said) : NULL;
    if (kv != NULL) n_kv = json_integer_value(kv);
    json_decref(kv);
    if (n_kv < 0 || n_kv > INT32_MAX || n_heads > INT32_MAX) return NULL;
    return shared_rows(r, "qkv", n_rows, n_heads + 2 * n_kv);
}

static json_t *derive_n_kv_heads(resolver *r) {
    int64_t n_rows, n_cols;
    json_int_t head_dim = field_int(r, "head_dim");
    if (is_per_head(r, "k")) return count_heads(r, "k");
    if (head_dim <= 0) return NULL;
    if (matrix_dims(r, "k", &n_rows, &n_cols)) return shared_rows(r, "k", n_rows, head_dim);
    if (matrix_dims(r, "kv", &n_rows, &n_cols)) return shared_rows(r, "kv", n_rows, 2 * head_dim);
    return NULL; /* as many as query heads: config_from_object's rule */
}

static json_t *derive_d_ff(resolver *r) {
    json_t *up = derive_dim(r, "up", true, 1);
    return up != NULL ? up : derive_dim(r, "gate_up", true, 2);
}

/* A norm that the layout names is there, unless it is optional and the file has none. */
static json_t *derive_norm(resolver *r, const char *role) {
    const json_t *spec = layout_spec(r->layout, role);
    if (spec == NULL) return json_boolean(false);
    return json_boolean(!json_is_true(json_object_get(spec, "optional")) || has_tensor(r, role, false));
}

static json_t *derive_norm_bias(resolver *r) {
    const char *role;
    json_t *spec;
    json_object_foreach(json_object_get(r->layout, "tensors"), role, spec) {
        size_t n = strlen(role);
        if (n > 4 && strcmp(role + n - 4, "norm") == 0 && has_tensor(r, role, true)) return json_boolean(true);
    }
    return json_boolean(false);
}

static json_t *derive_qk_norm(resolver *r) {
    const tensor *t = resolve_tensor(r, "q_norm", false, 0, 0);
    if (t == NULL) return resolver_made(r, json_string("none"));
    return resolver_made(r, json_string(t->n_elems == (size_t)field_int(r, "head_dim") ? "head" : "width"));
}

/* Does any layer have the bias? Then all must: that the first lacks it is a tensor missing, not a model without biases. */
static bool has_bias(resolver *r, const char *role) {
    if (role == NULL) return false;
    json_int_t n_layers = field_int(r, "n_layers");
    for (int il = 0; il < CONFIG_MAX_LAYERS && (il == 0 || il < n_layers); il++) {
        if (resolve_tensor(r, role, true, il, 0) != NULL) return true;
    }
    return false;
}

static bool any_bias(resolver *r, const char *a, const char *b, const char *c) {
    return has_bias(r, a) || has_bias(r, b) || has_bias(r, c);
}

static json_t *derive_flag(resolver *r, const char *field, bool *known) {
    size_t n = strlen(field);
    *known = true;
    if (n > 5 && strcmp(field + n - 5, "_norm") == 0) return derive_norm(r, field);
    if (strcmp(field, "norm_bias") == 0) return derive_norm_bias(r);
    if (strcmp(field, "gated") == 0) return json_boolean(has_tensor(r, "gate", false) || has_tensor(r, "gate_up", false));
    if (strcmp(field, "q_bias") == 0) return json_boolean(any_bias(r, "q", "qkv", NULL));
    if (strcmp(field, "kv_bias") == 0) return json_boolean(any_bias(r, "k", "qkv", "kv"));
    if (strcmp(field, "o_bias") == 0) return json_boolean(any_bias(r, "o", NULL, NULL));
    if (strcmp(field, "ffn_bias") == 0) return json_boolean(any_bias(r, "up", "gate_up", NULL));
    if (strcmp(field, "head_bias") == 0) return json_boolean(any_bias(r, "head", NULL, NULL));
    *known = false;
    return NULL;
}

json_t *resolve_from_tensors(resolver *r, const char *field) {
    bool known;
    if (strcmp(field, "qk_norm") == 0) return derive_qk_norm(r);
    json_t *flag = derive_flag(r, field, &known);
    if (known) return flag;
    if (strcmp(field, "n_layers") == 0) return derive_n_layers(r);
    if (strcmp(field, "d_model") == 0) return derive_dim(r, has_tensor(r, "embedding", false) ? "embedding" : "head", false, 1);
    if (strcmp(field, "n_vocab") == 0) return derive_dim(r, has_tensor(r, "embedding", false) ? "embedding" : "head", true, 1);
    if (strcmp(field, "n_ctx") == 0) return derive_n_ctx(r);
    if (strcmp(field, "n_heads") == 0) return derive_n_heads(r);
    if (strcmp(field, "head_dim") == 0) return derive_head_dim(r);
    if (strcmp(field, "n_kv_heads") == 0) return derive_n_kv_heads(r);
    if (strcmp(field, "d_ff") == 0) return derive_d_ff(r);
    return NULL;
}
