/* model_load.c - from a checkpoint to a model: recognise, configure, bind every tensor, then build. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/bind.h"
#include "weights/build.h"
#include "weights/layout.h"
#include "weights/pattern.h"
#include "weights/recognise.h"

/* One load. The open_* fields are the tensors of the slot in hand. */
typedef struct {
    checkpoint *c;
    const model_options *o;
    recognition found;
    json_t *given; /* --config */
    resolver r;
    model_config config;
    error *e;

    binding open;
    const slot *open_slot;
    tensor_bytes *bytes; /* [open.n_views] */
    /* The last tensor read: q, k and v of a fused one follow one another. */
    const tensor *last;
    tensor_bytes last_bytes;
} loader;

static const unsigned char *at(const void *base, int64_t element, dtype type) {
    const dtype_traits *t = dtype_info(type);
    return (const unsigned char *)base + element / t->block_elems * t->block_bytes;
}

static int64_t source_row(const binding *b, int row) {
    int64_t r = row % b->rows_each;
    return b->first + r / b->chunk * b->step + r % b->chunk;
}

/* n elements, stride apart, side by side. Sizes known to the compiler make each copy one move. */
static void gather(unsigned char *out, const unsigned char *in, size_t n, ptrdiff_t stride_bytes, size_t size) {
    switch (size) {
    case 2:
        for (size_t k = 0; k < n; k++) memcpy(out + 2 * k, in + (ptrdiff_t)k * stride_bytes, 2);
        break;
    case 4:
        for (size_t k = 0; k < n; k++) memcpy(out + 4 * k, in + (ptrdiff_t)k * stride_bytes, 4);
        break;
    default:
        for (size_t k = 0; k < n; k++) memcpy(out + size * k, in + (ptrdiff_t)k * stride_bytes, size);
    }
}

/* Rows of the slot in the tensor's type. Rows that lie whole and evenly spaced are handed out where they are. */
static void file_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    const loader *l = self->from;
    const binding *b = &l->open;
    const dtype_traits *traits = dtype_info(self->type);
    size_t n_cols = (size_t)l->open_slot->n_cols, scale_bytes = 0;
    if (self->type == DTYPE_I8G) scale_bytes = n_cols / (size_t)self->group * sizeof(float);
    *out = (raw_rows){scratch, self->row_bytes, (unsigned char *)scratch + PANEL_ROWS * self->row_bytes, scale_bytes};
    for (int i = 0; i < n; i++) {
        int view = (first + i) / b->rows_each;
        const tensor_view *v = &b->views[view];
        int64_t element = source_row(b, first + i) * v->row_stride;
        const unsigned char *row = at(l->bytes[view].data, element, self->type);
        unsigned char *to = (unsigned char *)scratch + (size_t)i * self->row_bytes;
        if (v->col_stride == 1)
            memcpy(to, row, self->row_bytes);
        else
            gather(to, row, n_cols, (ptrdiff_t)v->col_stride * traits->block_bytes, (size_t)traits->block_bytes);
        if (scale_bytes != 0)
            memcpy((unsigned char *)scratch + PANEL_ROWS * self->row_bytes + (size_t)i * scale_bytes,
                   (const unsigned char *)l->bytes[view].scales + (size_t)element / (size_t)self->group * sizeof(float),
                   scale_bytes);
    }
}

/* One tensor, one run of rows, each whole: rows are where they are. */
static bool is_plain(const binding *b, const slot *s) {
    return b->n_views == 1 && b->chunk == b->rows_each && b->one.col_stride == 1 &&
           (b->one.row_stride == s->n_cols || s->n_rows == 1);
}

static void plain_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    const loader *l = self->from;
    (void)n, (void)scratch;
    *out = (raw_rows){.rows = (const unsigned char *)self->mapped + (size_t)first * self->row_bytes, .stride = self->row_bytes};
    if (self->type != DTYPE_I8G) return;
    out->scale_stride = (size_t)l->open_slot->n_cols / (size_t)self->group * sizeof(float);
    out->scales = (const unsigned char *)self->mapped_scales + (size_t)first * out->scale_stride;
}

/* sin and cos of pos / 10000^(2i/d): side by side (Vaswani et al. 2017), or all sines first (tensor2tensor). */
static void sinusoid_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    const loader *l = self->from;
    int d = l->open_slot->n_cols;
    float *x = scratch;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < d; k++) {
            bool halves = l->open.computed == COMPUTED_SINUSOIDAL_HALVES;
            int i = halves ? k % (d / 2) : k / 2;
            double turn = (first + r) * pow(10000, halves ? -(double)i / (d / 2.0 - 1) : -2.0 * i / d);
            x[(size_t)r * (size_t)d + (size_t)k] = (float)((halves ? k < d / 2 : k % 2 == 0) ? sin(turn) : cos(turn));
        }
    *out = (raw_rows){.rows = scratch, .stride = self->row_bytes};
}

static void one_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    (void)first;
    for (int r = 0; r < n; r++) ((float *)scratch)[r] = 1;
    *out = (raw_rows){.rows = scratch, .stride = self->row_bytes};
}

static bool kind_maps(checkpoint_kind kind) {
    return kind == CHECKPOINT_GGUF || kind == CHECKPOINT_SAFETENSORS || kind == CHECKPOINT_LLAMA2C;
}

/* All slots were bound once before: this cannot fail but for memory, and then the slot's open will say so. */
static void file_describe(void *self, const slot *s, dtype *type, int *group, bool *will_map) {
    loader *l = self;
    binding b;
    *type = DTYPE_F32, *group = 0, *will_map = false;
    if (bind_slot(&l->r, &l->config, s, &b, NULL) != OK || b.computed != COMPUTED_NOT) return;
    *type = b.views[0].t->type;
    *group = *type == DTYPE_I8G ? b.views[0].t->group : 0;
    *will_map = is_plain(&b, s) && kind_maps(l->c->kind);
    binding_free(&b);
}

static status read_view(loader *l, int view, error *e) {
    const tensor *t = l->open.views[view].t;
    if (l->open.n_views > 1) return tensor_read(l->c, t, &l->bytes[view], e);
    if (l->last != t) {
        tensor_release(&l->last_bytes);
        l->last = NULL;
        status st = tensor_read(l->c, t, &l->last_bytes, e);
        if (st != OK) return st;
        l->last = t;
    }
    l->bytes[view] = l->last_bytes;
    return OK;
}

static void release_views(loader *l) {
    for (int i = 0; l->bytes != NULL && l->open.n_views > 1 && i < l->open.n_views; i++) tensor_release(&l->bytes[i]);
    free(l->bytes);
    l->bytes = NULL;
    binding_free(&l->open);
}

static void computed_source(const loader *l, const slot *s, row_source *out) {
    *out = (row_source){.type = DTYPE_F32, .row_bytes = (size_t)s->n_cols * sizeof(float), .from = l};
    out->rows = l->open.computed == COMPUTED_ONES ? one_rows : sinusoid_rows;
}

static void tensor_source(const loader *l, const slot *s, row_source *out) {
    const tensor *t = l->open.views[0].t;
    *out = (row_source){.type = t->type, .offset = l->open.offset, .from = l, .rows = file_rows};
    out->group = t->type == DTYPE_I8G ? t->group : 0;
    dtype_row_bytes(t->type, (size_t)s->n_cols, &out->row_bytes); /* cannot overflow: the tensor is in the file */
    if (!is_plain(&l->open, s)) return;
    int64_t first = l->open.first * l->open.one.row_stride;
    out->rows = plain_rows;
    out->mapped = at(l->bytes[0].data, first, t->type);
    if (t->type == DTYPE_I8G)
        out->mapped_scales = (const unsigned char *)l->bytes[0].scales + first / t->group * (int64_t)sizeof(float);
    out->stays = l->bytes[0].in_place;
}

static status file_open(void *self, const slot *s, row_source *out, const char **name, error *e) {
    loader *l = self;
    status st = bind_slot(&l->r, &l->config, s, &l->open, e);
    if (st != OK) return st;
    l->open_slot = s;
    if (l->open.computed != COMPUTED_NOT) {
        computed_source(l, s, out);
        return OK;
    }
    *name = l->open.views[0].t->name;
    l->bytes = calloc((size_t)l->open.n_views, sizeof *l->bytes);
    if (l->bytes == NULL) st = error_set(e, ERR_MEMORY, "%s: no memory", l->c->path);
    for (int i = 0; st == OK && i < l->open.n_views; i++) {
        st = read_view(l, i, e);
        if (st == OK && l->open.views[i].t->type != l->open.views[0].t->type)
            st = error_set(e, ERR_UNSUPPORTED, "%s: the heads of '%s' are of different types", l->c->path, *name);
    }
    if (st == OK)
        tensor_source(l, s, out);
    else
        release_views(l);
    return st;
}

static void file_close(void *self) {
    release_views(self);
}

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
static json_t *vocabulary_array(json_t *value, int n_vocab) {
    if (!json_is_object(value)) return json_is_array(value) ? json_incref(value) : NULL;
    json_t *out = json_array(), *entry;
    const char *key;
    for (int i = 0; i < n_vocab; i++) json_array_append_new(out, json_string(""));
    json_object_foreach(value, key, entry) {
        char *end;
        long long id = json_is_integer(entry) ? json_integer_value(entry) : strtoll(key, &end, 10);
        if (id < 0 || id >= n_vocab) continue;
        if (json_is_integer(entry))
            json_array_set_new(out, (size_t)id, json_string(key));
        else if (end != key && *end == '\0' && json_is_string(entry))
            json_array_set(out, (size_t)id, entry);
    }
    return out;
}

static status finish(loader *l, model *m) {
    const char *prompt = json_string_value(json_object_get(l->found.layout, "sample_prompt"));
    const json_t *vocabulary = json_object_get(l->found.layout, "vocabulary");
    /* An array here is the vocabulary itself, not a list of alternatives. */
    json_t *value = json_is_array(vocabulary) ? json_incref((json_t *)vocabulary)
                    : vocabulary != NULL      ? resolve_expression(&l->r, vocabulary)
                                              : NULL;
    if (value != NULL) m->vocabulary = vocabulary_array(value, m->config.n_vocab);
    json_decref(value);
    m->bos_id = token_id(l, "bos"), m->pad_id = token_id(l, "pad");
    take_end_ids(l, m);
    snprintf(m->layout, sizeof m->layout, "%s", layout_name(l->found.layout));
    if (l->found.note[0] != '\0') json_array_append_new(m->assumptions, json_string(l->found.note));
    json_array_extend(m->assumptions, l->r.assumptions);
    if (prompt != NULL && (m->sample_prompt = strdup(prompt)) == NULL)
        return error_set(l->e, ERR_MEMORY, "%s: no memory", l->c->path);
    return l->r.st;
}

static void release_checkpoint(void *c) {
    checkpoint_close(c);
}

static void loader_free(loader *l) {
    tensor_release(&l->last_bytes);
    resolver_free(&l->r);
    recognition_free(&l->found);
    json_decref(l->given);
}

status model_load(model **out, const char *path, const model_options *o, checkpoint **kept, error *e) {
    *out = NULL;
    if (kept != NULL) *kept = NULL;
    loader l = {.o = o, .e = e};
    status st = checkpoint_open(&l.c, path, e);
    if (st != OK) return st;
    st = configure(&l);
    tensor_provider from = {l.c->path, &l, file_describe, file_open, file_close};
    if (st == OK) st = model_build(out, &l.config, o, &from, e);
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

/* The type of the first matrix that is in a layer. */
static dtype layer_type(loader *l) {
    size_t n;
    slot *slots = slots_of(&l->config, &n);
    dtype type = DTYPE_F32;
    for (size_t i = 0; slots != NULL && i < n; i++) {
        int group;
        bool will_map;
        if (slots[i].layer < 0 || !slot_is_matrix(&slots[i])) continue;
        file_describe(l, &slots[i], &type, &group, &will_map);
        break;
    }
    free(slots);
    return type;
}

status model_config_load(model_config *out, dtype *weights, const char *path, const model_options *o, error *e) {
    loader l = {.o = o, .e = e};
    memset(out, 0, sizeof *out);
    *weights = DTYPE_F32;
    status st = checkpoint_open(&l.c, path, e);
    if (st != OK) return st;
    st = configure(&l);
    if (st == OK) {
        *out = l.config;
        *weights = layer_type(&l);
    }
    loader_free(&l);
    checkpoint_close(l.c);
    return st;
}
