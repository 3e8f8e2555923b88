/* config_write.c - a model configuration as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/config_fields.h"

/* A float as the shortest number that reads back as the same float: 0.1, not 0.10000000149011612. */
static json_t *short_real(double x, bool is_float) {
    for (int digits = 6; digits < 17; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, x);
        double back = strtod(text, NULL);
        if (is_float ? (float)back == (float)x : back == x) return json_real(back);
    }
    return json_real(x);
}

static json_t *field_get(const model_config *c, const field *f) {
    const void *at = (const char *)c + f->offset;
    unsigned index;
    const char *word = f->names;
    switch (f->kind) {
    case FIELD_INT:
        return json_integer(*(const int *)at);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_FLOAT:
        return short_real((double)*(const float *)at, true);
    case FIELD_DOUBLE:
        return short_real(*(const double *)at, false);
    case FIELD_ENUM:
        memcpy(&index, at, sizeof index);
        for (; index > 0; index--) word = strchr(word, ' ') + 1;
        return json_stringn(word, strcspn(word, " "));
    }
    return NULL;
}

json_t *config_to_object(const model_config *c) {
    model_config plain;
    config_init(&plain);
    json_t *out = json_object();
    bool ok = out != NULL && json_object_set_new(out, "family", json_string(c->family)) == 0;
    for (size_t i = 0; i < n_config_fields; i++) {
        const field *f = &config_fields[i];
        json_t *value = field_get(c, f), *usual = field_get(&plain, f);
        if (f->kind == FIELD_INT || f->kind == FIELD_ENUM || !json_equal(value, usual))
            ok = json_object_set(out, f->key, value) == 0 && ok;
        json_decref(value);
        json_decref(usual);
    }
    json_t *layers = json_array(), *factors = json_array();
    for (int il = 0; il < c->n_layers && il < CONFIG_MAX_LAYERS; il++)
        if (c->layer_windowed[il]) ok = json_array_append_new(layers, json_integer(il)) == 0 && ok;
    for (int i = 0; c->rope_scaling == ROPE_SCALING_FACTORS && i < c->rope_dim / 2; i++)
        ok = json_array_append_new(factors, short_real((double)c->rope_factors[i], true)) == 0 && ok;
    if (c->window != 0) ok = json_object_set(out, "window_layers", layers) == 0 && ok;
    if (json_array_size(factors) > 0) ok = json_object_set(out, "rope_factors", factors) == 0 && ok;
    json_decref(layers);
    json_decref(factors);
    if (ok) return out;
    json_decref(out);
    return NULL;
}
