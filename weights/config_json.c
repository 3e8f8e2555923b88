/* A model configuration from a JSON text: keys are the names of the fields. See config_from_json in config.h. */
#include "weights/config_fields.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define FIELD(kind, name)                                                                                                      \
    { #name, kind, offsetof(model_config, name), NULL }
#define FIELD_NAMES(name, names)                                                                                               \
    { #name, FIELD_ENUM, offsetof(model_config, name), names }

const field config_fields[] = {
    FIELD(FIELD_INT, n_layers),
    FIELD(FIELD_INT, d_model),
    FIELD(FIELD_INT, n_heads),
    FIELD(FIELD_INT, n_kv_heads),
    FIELD(FIELD_INT, head_dim),
    FIELD(FIELD_INT, d_ff),
    FIELD(FIELD_INT, n_vocab),
    FIELD(FIELD_INT, n_ctx),
    FIELD_NAMES(norm, "rms layer "),
    FIELD(FIELD_FLOAT, norm_eps),
    FIELD(FIELD_BOOL, norm_bias),
    FIELD(FIELD_BOOL, attn_pre_norm),
    FIELD(FIELD_BOOL, attn_post_norm),
    FIELD(FIELD_BOOL, attn_residual_norm),
    FIELD(FIELD_BOOL, ffn_pre_norm),
    FIELD(FIELD_BOOL, ffn_post_norm),
    FIELD(FIELD_BOOL, ffn_residual_norm),
    FIELD(FIELD_BOOL, embedding_norm),
    FIELD(FIELD_BOOL, final_norm),
    FIELD_NAMES(qk_norm, "none head width "),
    FIELD(FIELD_BOOL, parallel_residual),
    FIELD_NAMES(position, "none learned rope alibi "),
    FIELD_NAMES(rope, "halves pairs "),
    FIELD(FIELD_INT, rope_dim),
    FIELD(FIELD_DOUBLE, rope_base),
    FIELD(FIELD_DOUBLE, rope_local_base),
    FIELD_NAMES(rope_scaling, "none linear llama3 yarn factors "),
    FIELD(FIELD_DOUBLE, rope_factor),
    FIELD(FIELD_DOUBLE, rope_low_freq_factor),
    FIELD(FIELD_DOUBLE, rope_high_freq_factor),
    FIELD(FIELD_DOUBLE, rope_beta_fast),
    FIELD(FIELD_DOUBLE, rope_beta_slow),
    FIELD(FIELD_DOUBLE, rope_attn_factor),
    FIELD(FIELD_INT, rope_original_ctx),
    FIELD(FIELD_FLOAT, attn_scale),
    FIELD(FIELD_FLOAT, attn_softcap),
    FIELD(FIELD_INT, window),
    FIELD_NAMES(activation, "relu silu gelu_erf gelu_tanh relu2 gelu_quick "),
    FIELD(FIELD_BOOL, gated),
    FIELD(FIELD_BOOL, q_bias),
    FIELD(FIELD_BOOL, kv_bias),
    FIELD(FIELD_BOOL, o_bias),
    FIELD(FIELD_BOOL, ffn_bias),
    FIELD(FIELD_BOOL, head_bias),
    FIELD(FIELD_BOOL, tied),
    FIELD(FIELD_FLOAT, embedding_scale),
    FIELD(FIELD_FLOAT, residual_scale),
    FIELD(FIELD_FLOAT, logit_scale),
    FIELD(FIELD_FLOAT, final_softcap),
};
const size_t n_config_fields = sizeof config_fields / sizeof *config_fields;

static const field *field_find(const char *key) {
    for (size_t i = 0; i < n_config_fields; i++) {
        if (strcmp(config_fields[i].key, key) == 0) return &config_fields[i];
    }
    return NULL;
}

/* Index of a word in a list whose words are each followed by a space; -1 where it is not there. */
static int name_index(const char *names, const char *word) {
    size_t n = strlen(word);
    int index = 0;
    for (const char *p = names; *p != '\0'; index++) {
        size_t length = strcspn(p, " ");
        if (length == n && memcmp(p, word, n) == 0) return index;
        p += length + 1;
    }
    return -1;
}

static status field_int(const field *f, const json_t *value, int *out, error *e) {
    if (!json_is_integer(value)) return error_set(e, ERR_FORMAT, "%s must be a whole number", f->key);
    json_int_t n = json_integer_value(value);
    if (n < INT_MIN || n > INT_MAX) return error_set(e, ERR_LIMIT, "%s is %lld (too large)", f->key, (long long)n);
    *out = (int)n;
    return OK;
}

static status field_enum(const field *f, const json_t *value, void *out, error *e) {
    const char *word = json_string_value(value);
    int index = word == NULL ? -1 : name_index(f->names, word);
    if (index < 0) {
        return error_set(e, ERR_FORMAT, "%s is %s%s%s (one of: %s)", f->key, word ? "\"" : "", word ? word : "not a string",
                         word ? "\"" : "", f->names);
    }
    memcpy(out, &(unsigned){(unsigned)index}, sizeof(unsigned)); /* these enums have no negative value: unsigned int */
    return OK;
}

static status field_set(model_config *c, const field *f, const json_t *value, error *e) {
    void *out = (char *)c + f->offset;
    switch (f->kind) {
    case FIELD_INT:
        return field_int(f, value, out, e);
    case FIELD_BOOL:
        if (!json_is_boolean(value)) return error_set(e, ERR_FORMAT, "%s must be true or false", f->key);
        *(bool *)out = json_is_true(value);
        return OK;
    case FIELD_FLOAT:
    case FIELD_DOUBLE:
        if (!json_is_number(value)) return error_set(e, ERR_FORMAT, "%s must be a number", f->key);
        if (f->kind == FIELD_FLOAT) *(float *)out = (float)json_number_value(value);
        if (f->kind == FIELD_DOUBLE) *(double *)out = json_number_value(value);
        return OK;
    case FIELD_ENUM:
        return field_enum(f, value, out, e);
    }
    return error_set(e, ERR_FORMAT, "%s has no kind", f->key);
}

_Static_assert(sizeof(activation_kind) == sizeof(unsigned), "field_enum copies an unsigned int");

static status set_family(model_config *c, const json_t *value, error *e) {
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) >= sizeof c->family) {
        return error_set(e, ERR_FORMAT, "family must be a string of at most %zu bytes", sizeof c->family - 1);
    }
    memcpy(c->family, text, strlen(text) + 1);
    return OK;
}

static status set_rope_factors(model_config *c, const json_t *value, error *e) {
    size_t room = sizeof c->rope_factors / sizeof *c->rope_factors;
    if (!json_is_array(value) || json_array_size(value) > room) {
        return error_set(e, ERR_FORMAT, "rope_factors must be a list of at most %zu numbers", room);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *x = json_array_get(value, i);
        if (!json_is_number(x)) return error_set(e, ERR_FORMAT, "rope_factors[%zu] is not a number", i);
        c->rope_factors[i] = (float)json_number_value(x);
    }
    return OK;
}

/* "all", "even", "odd" (layer 0 is even), or a list of layer indices. n_layers must be known. */
static status set_window_layers(model_config *c, const json_t *value, error *e) {
    int first = 0, step = 1;
    const char *word = json_string_value(value);
    if (word != NULL) {
        if (strcmp(word, "odd") == 0) first = 1;
        if (strcmp(word, "odd") == 0 || strcmp(word, "even") == 0) step = 2;
        if (step == 1 && strcmp(word, "all") != 0) {
            return error_set(e, ERR_FORMAT, "window_layers is \"%s\" (all, even, odd, or a list of layers)", word);
        }
        for (int il = first; il < c->n_layers && il < CONFIG_MAX_LAYERS; il += step) c->layer_windowed[il] = 1;
        return OK;
    }
    if (!json_is_array(value)) return error_set(e, ERR_FORMAT, "window_layers must be a word or a list of layers");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *x = json_array_get(value, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) >= c->n_layers ||
            json_integer_value(x) >= CONFIG_MAX_LAYERS) {
            return error_set(e, ERR_FORMAT, "window_layers[%zu] is not a layer (0 to n_layers - 1)", i);
        }
        c->layer_windowed[json_integer_value(x)] = 1;
    }
    return OK;
}

static bool is_comment(const char *key) {
    return key[0] == '_' || strcmp(key, "name") == 0 || strcmp(key, "source") == 0;
}

static status set_keys(model_config *c, json_t *root, error *e) {
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        status s = OK;
        const field *f = field_find(key);
        if (f != NULL) {
            s = field_set(c, f, value, e);
        } else if (strcmp(key, "family") == 0) {
            s = set_family(c, value, e);
        } else if (strcmp(key, "rope_factors") == 0) {
            s = set_rope_factors(c, value, e);
        } else if (strcmp(key, "window_layers") != 0 && !is_comment(key)) {
            s = error_set(e, ERR_FORMAT, "unknown key \"%s\" (keys are the fields of model_config in weights/config.h)", key);
        }
        if (s != OK) return s;
    }
    return OK;
}

/* What follows from other keys where it is not given. */
static status set_derived(model_config *c, const json_t *root, error *e) {
    if (json_object_get(root, "n_kv_heads") == NULL) c->n_kv_heads = c->n_heads;
    if (json_object_get(root, "head_dim") == NULL) {
        if (c->n_heads < 1 || c->d_model % c->n_heads != 0) {
            return error_set(e, ERR_MISMATCH, "d_model %d is not a multiple of n_heads %d (give head_dim)", c->d_model,
                             c->n_heads);
        }
        c->head_dim = c->d_model / c->n_heads;
    }
    if (json_object_get(root, "rope_dim") == NULL) c->rope_dim = c->position == POSITION_ROPE ? c->head_dim : 0;
    if (json_object_get(root, "attn_scale") == NULL && c->head_dim > 0) c->attn_scale = (float)(1 / sqrt((double)c->head_dim));

    const json_t *layers = json_object_get(root, "window_layers");
    if (layers == NULL && c->window != 0) {
        return error_set(e, ERR_MISMATCH, "window is given without window_layers (all, even, odd, or a list of layers)");
    }
    return layers == NULL ? OK : set_window_layers(c, layers, e);
}

status config_from_object(model_config *c, json_t *root, error *e) {
    config_init(c);
    status s = OK;
    if (!json_is_object(root)) s = error_set(e, ERR_FORMAT, "a shape must be a JSON object");
    if (s == OK) s = set_keys(c, root, e);
    if (s == OK) s = set_derived(c, root, e);
    if (s == OK) s = config_check(c, e);
    if (s != OK) memset(c, 0, sizeof *c);
    return s;
}

status config_from_json(model_config *c, const char *text, error *e) {
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    status s = ERR_FORMAT;
    if (root != NULL) {
        s = config_from_object(c, root, e);
    } else {
        memset(c, 0, sizeof *c);
        error_set(e, s, "line %d: %s", where.line, where.text);
    }
    json_decref(root);
    return s;
}

bool config_has_field(const char *key) {
    return field_find(key) != NULL || strcmp(key, "family") == 0 || strcmp(key, "rope_factors") == 0 ||
           strcmp(key, "window_layers") == 0;
}
