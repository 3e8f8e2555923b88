#include "weights/load_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"

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
    const file_tensors *l = self->from;
    const binding *b = &l->open;
    const dtype_traits *traits = dtype_info(self->type);
    size_t n_cols = (size_t)l->open_slot->n_cols, scale_bytes = 0;
    if (self->type == DTYPE_I8G) scale_bytes = n_cols / (size_t)self->group * sizeof(float);
    *out = (raw_rows){scratch, self->row_bytes, (unsigned char *)scratch + PANEL_ROWS * self->row_bytes, scale_bytes};
    for (int i = 0; i < n; i++) {
        int view = (first + i) / b->rows_each;
        const tensor_view *v = &b->views[view];
        int64_t element = v->start + source_row(b, first + i) * v->row_stride;
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
    const file_tensors *l = self->from;
    (void)n, (void)scratch;
    *out = (raw_rows){.rows = (const unsigned char *)self->mapped + (size_t)first * self->row_bytes, .stride = self->row_bytes};
    if (self->type != DTYPE_I8G) return;
    out->scale_stride = (size_t)l->open_slot->n_cols / (size_t)self->group * sizeof(float);
    out->scales = (const unsigned char *)self->mapped_scales + (size_t)first * out->scale_stride;
}

static void forget_plain(const row_source *self, int first, int n) {
    const file_tensors *l = self->from;
    const unsigned char *rows = (const unsigned char *)self->mapped + (size_t)first * self->row_bytes;
    file_forget(l->bytes[0].map, rows, (size_t)n * self->row_bytes);
}

/* sin and cos of pos / 10000^(2i/d): side by side (Vaswani et al. 2017), or all sines first (tensor2tensor). */
static void sinusoid_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    const file_tensors *l = self->from;
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
    file_tensors *l = self;
    binding b;
    *type = DTYPE_F32, *group = 0, *will_map = false;
    if (bind_slot(l->r, l->config, s, &b, NULL) != OK || b.computed != COMPUTED_NOT) return;
    *type = b.views[0].t->type;
    *group = *type == DTYPE_I8G ? b.views[0].t->group : 0;
    *will_map = is_plain(&b, s) && kind_maps(l->r->c->kind);
    binding_free(&b);
}

/* All heads in one tensor, or no heads at all. */
static bool is_one_tensor(const binding *b) {
    return b->views[0].t == b->views[b->n_views - 1].t;
}

static status read_view(file_tensors *l, int view, error *e) {
    const tensor *t = l->open.views[view].t;
    if (!is_one_tensor(&l->open)) return tensor_read(l->r->c, t, &l->bytes[view], e);
    if (l->last != t) {
        tensor_release(&l->last_bytes);
        l->last = NULL;
        status st = tensor_read(l->r->c, t, &l->last_bytes, e);
        if (st != OK) return st;
        l->last = t;
    }
    l->bytes[view] = l->last_bytes;
    return OK;
}

static void release_views(file_tensors *l) {
    for (int i = 0; l->bytes != NULL && !is_one_tensor(&l->open) && i < l->open.n_views; i++) tensor_release(&l->bytes[i]);
    free(l->bytes);
    l->bytes = NULL;
    binding_free(&l->open);
}

static void computed_source(const file_tensors *l, const slot *s, row_source *out) {
    *out = (row_source){.type = DTYPE_F32, .row_bytes = (size_t)s->n_cols * sizeof(float), .from = l};
    out->rows = l->open.computed == COMPUTED_ONES ? one_rows : sinusoid_rows;
}

static void tensor_source(const file_tensors *l, const slot *s, row_source *out) {
    const tensor *t = l->open.views[0].t;
    *out = (row_source){.type = t->type, .offset = l->open.offset, .from = l, .rows = file_rows};
    out->group = t->type == DTYPE_I8G ? t->group : 0;
    dtype_row_bytes(t->type, (size_t)s->n_cols, &out->row_bytes); /* cannot overflow: the tensor is in the file */
    if (!is_plain(&l->open, s)) return;
    int64_t first = l->open.one.start + l->open.first * l->open.one.row_stride;
    out->rows = plain_rows;
    out->mapped = at(l->bytes[0].data, first, t->type);
    if (t->type == DTYPE_I8G)
        out->mapped_scales = (const unsigned char *)l->bytes[0].scales + first / t->group * (int64_t)sizeof(float);
    out->stays = l->bytes[0].in_place;
    if (l->bytes[0].map != NULL) out->forget = forget_plain;
}

static status file_open(void *self, const slot *s, row_source *out, const char **name, error *e) {
    file_tensors *l = self;
    status st = bind_slot(l->r, l->config, s, &l->open, e);
    if (st != OK) return st;
    l->open_slot = s;
    if (l->open.computed != COMPUTED_NOT) {
        computed_source(l, s, out);
        return OK;
    }
    *name = l->open.views[0].t->name;
    l->bytes = calloc((size_t)l->open.n_views, sizeof *l->bytes);
    if (l->bytes == NULL) st = error_set(e, ERR_MEMORY, "%s: no memory", l->r->c->path);
    for (int i = 0; st == OK && i < l->open.n_views; i++) {
        st = read_view(l, i, e);
        if (st == OK && l->open.views[i].t->type != l->open.views[0].t->type)
            st = error_set(e, ERR_UNSUPPORTED, "%s: the heads of '%s' are of different types", l->r->c->path, *name);
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

tensor_provider file_provider(file_tensors *f) {
    return (tensor_provider){f->r->c->path, f, file_describe, file_open, file_close};
}

void file_tensors_free(file_tensors *f) {
    tensor_release(&f->last_bytes);
}
