/* model_load.c - from a checkpoint to a model: recognise, configure, bind every tensor, then build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/bind.h"
#include "weights/build.h"
#include "weights/layout.h"
#include "weights/load_rows.h"
#include "weights/pattern.h"
#include "weights/recognise.h"

/* One load. */
typedef struct {
    checkpoint *c;
    const model_options *o;
    recognition found;
    json_t *given; /* --config */
    resolver r;
    model_config config;
    error *e;
} loader;

/* Every tensor is there and has its shape, and no other is: checked before anything is read. */
static status bind_all(loader *l) {
    size_t n;
    slot *slots = slots_of(&l->config, &n);
    if (slots == NULL) return error_set(l->e, ERR_MEMORY, "%s: no memory", l->c->path);
    status st = OK;
    for (size_t i = 0; st == OK && i < n; i++) {
        binding b;
        st = bind_slot(&l->r, &l->config, &slots[i], &b, l->e);
        if (st == OK) binding_free(&b);
    }
    free(slots);
    return st == OK ? bind_check_extra(&l->r, l->e) : st;
}

static status read_config_file(loader *l) {
    if (l->o->config_file == NULL) return OK;
    json_error_t at_line;
    l->given = json_load_file(l->o->config_file, JSON_REJECT_DUPLICATES, &at_line);
    if (l->given == NULL) return error_set(l->e, ERR_FORMAT, "%s: line %d: %s", l->o->config_file, at_line.line, at_line.text);
    if (!json_is_object(l->given)) return error_set(l->e, ERR_FORMAT, "%s: must be a JSON object", l->o->config_file);
    return OK;
}

static status configure(loader *l) {
    status st = read_config_file(l);
    if (st == OK) st = recognise(&l->found, l->c, l->o->layout_file, l->e);
    if (st == OK) st = resolver_init(&l->r, l->c, l->found.layout, l->found.prefix, l->given, l->o->n_heads, l->e);
    if (st == OK) st = resolver_config(&l->r, &l->config);
    return st == OK ? bind_all(l) : st;
}

/* An id that the layout gives, as a constant or from the metadata; -1: none. */
static int token_id(loader *l, const char *key) {
    const json_t *expression = json_object_get(l->found.layout, key);
    json_t *value = expression != NULL ? resolve_expression(&l->r, expression) : NULL;
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    json_decref(value);
    return id >= 0 && id < l->config.n_vocab ? (int)id : -1;
}

static void take_end_ids(loader *l, model *m) {
    const json_t *expression = json_object_get(l->found.layout, "eos");
    json_t *value = expression != NULL ? resolve_expression(&l->r, expression) : NULL;
    size_t n = json_is_array(value) ? json_array_size(value) : json_is_integer(value);
    for (size_t i = 0; i < n && m->n_eos < (int)(sizeof m->eos_ids / sizeof *m->eos_ids); i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < m->config.n_vocab)
            m->eos_ids[m->n_eos++] = (int)json_integer_value(id);
    }
    json_decref(value);
}

/* {text: id} or {id: text} as an array of texts by id; an array as it is. A new reference, or NULL. */
static json_t *vocabulary_array(resolver *r, json_t *value, int n_vocab) {
    if (!json_is_object(value)) return json_is_array(value) ? json_incref(value) : NULL;
    json_t *out = resolver_made(r, json_array()), *entry;
    const char *key;
    for (int i = 0; out != NULL && r->st == OK && i < n_vocab; i++) resolver_append(r, out, json_string(""));
    json_object_foreach(value, key, entry) {
        char *end;
        long long id = json_is_integer(entry) ? json_integer_value(entry) : strtoll(key, &end, 10);
        bool by_id = !json_is_integer(entry) && end != key && *end == '\0' && json_is_string(entry);
        if (id < 0 || id >= n_vocab || r->st != OK || !(by_id || json_is_integer(entry))) continue;
        if (json_array_set_new(out, (size_t)id, by_id ? json_incref(entry) : json_string(key)) != 0)
            resolver_fail(r, ERR_MEMORY, "no memory for the vocabulary");
    }
    return out;
}

/* An array in the layout is the vocabulary itself, not a list of alternatives. */
static void take_vocabulary(loader *l, model *m) {
    json_t *vocabulary = json_object_get(l->found.layout, "vocabulary"), *value = NULL;
    if (json_is_array(vocabulary))
        value = json_incref(vocabulary);
    else if (vocabulary != NULL)
        value = resolve_expression(&l->r, vocabulary);
    if (value != NULL) m->vocabulary = vocabulary_array(&l->r, value, m->config.n_vocab);
    json_decref(value);
}

static void take_sample_prompt(loader *l, model *m) {
    const json_t *sample = json_object_get(l->found.layout, "sample_prompt");
    json_t *text = sample != NULL ? resolve_expression(&l->r, sample) : NULL;
    if (json_is_string(text) && (m->sample_prompt = strdup(json_string_value(text))) == NULL)
        resolver_fail(&l->r, ERR_MEMORY, "no memory");
    json_decref(text);
}

/* What was assumed, in choosing the layout and by it, into a list. */
static void take_assumptions(loader *l, json_t *list) {
    if (l->found.note[0] != '\0') resolver_append(&l->r, list, json_string(l->found.note));
    for (size_t i = 0; i < json_array_size(l->r.assumptions); i++)
        resolver_append(&l->r, list, json_incref(json_array_get(l->r.assumptions, i)));
}

static status finish(loader *l, model *m) {
    take_vocabulary(l, m);
    take_sample_prompt(l, m);
    take_end_ids(l, m);
    m->bos_id = token_id(l, "bos"), m->pad_id = token_id(l, "pad");
    snprintf(m->layout, sizeof m->layout, "%s", layout_name(l->found.layout));
    take_assumptions(l, m->assumptions);
    return l->r.st;
}

static void loader_free(loader *l) {
    resolver_free(&l->r);
    recognition_free(&l->found);
    json_decref(l->given);
}

/* The type that the file has layer 0's query matrix in. */
static dtype layer_type(loader *l) {
    const slot q = {.role = ROLE_Q, .layer = 0, .n_rows = config_q_dim(&l->config), .n_cols = l->config.d_model};
    binding b;
    if (bind_slot(&l->r, &l->config, &q, &b, NULL) != OK) return DTYPE_F32;
    dtype type = b.views[0].t->type;
    binding_free(&b);
    return type;
}

status model_describe(model_description *out, checkpoint *c, const model_options *o, error *e) {
    memset(out, 0, sizeof *out);
    loader l = {.c = c, .o = o, .e = e};
    status st = configure(&l);
    if (st == OK) {
        out->config = l.config;
        out->weights = layer_type(&l);
        snprintf(out->layout, sizeof out->layout, "%s", layout_name(l.found.layout));
        out->assumptions = resolver_made(&l.r, json_array());
        if (out->assumptions != NULL) take_assumptions(&l, out->assumptions);
        out->recognised = json_deep_copy(l.found.layout);
        st = json_equal(out->recognised, l.found.layout) ? l.r.st : error_set(e, ERR_MEMORY, "%s: no memory", c->path);
    }
    loader_free(&l);
    if (st != OK) model_description_free(out);
    return st;
}

void model_description_free(model_description *d) {
    json_decref(d->assumptions);
    json_decref(d->recognised);
    memset(d, 0, sizeof *d);
}

static void release_checkpoint(void *c) {
    checkpoint_close(c);
}

status model_load(model **out, const char *path, const model_options *o, checkpoint **kept, error *e) {
    *out = NULL;
    if (kept != NULL) *kept = NULL;
    loader l = {.o = o, .e = e};
    status st = checkpoint_open(&l.c, path, e);
    if (st != OK) return st;
    st = configure(&l);
    if (st == OK) {
        file_tensors tensors = {.r = &l.r, .config = &l.config};
        tensor_provider from = file_provider(&tensors);
        st = model_build(out, &l.config, o, &from, e);
        file_tensors_free(&tensors);
    }
    if (st == OK) st = finish(&l, *out);
    loader_free(&l);
    if (st != OK) {
        model_free(*out);
        *out = NULL;
        checkpoint_close(l.c);
    } else if (kept != NULL)
        *kept = l.c;
    else
        model_keep(*out, l.c, release_checkpoint);
    return st;
}

status model_config_load(model_config *out, dtype *weights, const char *path, const model_options *o, error *e) {
    memset(out, 0, sizeof *out);
    *weights = DTYPE_F32;
    checkpoint *c;
    status st = checkpoint_open(&c, path, e);
    if (st != OK) return st;
    model_description d;
    st = model_describe(&d, c, o, e);
    if (st == OK) *out = d.config, *weights = d.weights;
    model_description_free(&d);
    checkpoint_close(c);
    return st;
}
