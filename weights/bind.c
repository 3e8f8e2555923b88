#include "weights/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/layout.h"
#include "weights/pattern.h"
#include "weights/row_map.h"

typedef struct {
    const char *role; /* the layout's entry: the slot's own, or a fused one */
    const json_t *spec;
    const json_t *names; /* patterns of the weight, or of the bias */
    bool per_head;       /* a tensor for each head */
    bool by_head;        /* one tensor with a dim for the heads */
    row_map map;
    int rows_each, n_views;
} source;

/* The entries that may hold a role, the role's own first. */
static const char *const *entries_of(tensor_role role) {
    static const char *const q[] = {"q", "qkv", NULL}, *const k[] = {"k", "kv", "qkv", NULL},
                             *const v[] = {"v", "kv", "qkv", NULL};
    static const char *const gate[] = {"gate", "gate_up", NULL}, *const up[] = {"up", "gate_up", NULL};
    switch (role) {
    case ROLE_Q:
        return q;
    case ROLE_K:
        return k;
    case ROLE_V:
        return v;
    case ROLE_GATE:
        return gate;
    case ROLE_UP:
        return up;
    default:
        return NULL;
    }
}

static const tensor *find(const resolver *r, const source *f, const slot *s, int head) {
    return pattern_find(r->c, r->prefix, f->names, s->layer, head);
}

/* The layout's entry whose tensor the file has; if it has none, the first that the layout gives, so that the error names it. */
static bool find_entry(const resolver *r, const model_config *c, const slot *s, source *out) {
    const char *own[] = {role_name(s->role), NULL};
    const char *const *entries = entries_of(s->role) != NULL ? entries_of(s->role) : own;
    source first = {0};
    for (; *entries != NULL; entries++) {
        source f = {.role = *entries, .spec = layout_spec(r->layout, *entries)};
        if (f.spec == NULL) continue;
        f.names = json_object_get(f.spec, s->bias ? "bias" : "name");
        if (first.spec == NULL) first = f;
        if (find(r, &f, s, 0) == NULL) continue;
        *out = f;
        return true;
    }
    /* Tied, and the file has the one table under the other's name. */
    if (c->tied && s->role == ROLE_EMBEDDING && !s->bias) {
        source head = {.role = "head", .spec = layout_spec(r->layout, "head")};
        head.names = json_object_get(head.spec, "name");
        if (head.spec != NULL && find(r, &head, s, 0) != NULL) return *out = head, true;
    }
    *out = first;
    return first.spec != NULL;
}

static const char *default_order(const char *role) {
    return strcmp(role, "qkv") == 0 ? "q,k,v" : strcmp(role, "kv") == 0 ? "k,v" : "gate,up";
}

/* How the slot's rows lie in the entry's tensors. */
static bool map_rows(const model_config *c, const slot *s, source *f) {
    const char *order = json_string_value(json_object_get(f->spec, "order"));
    if (order == NULL) order = default_order(f->role);
    f->per_head = json_array_size(f->names) > 0 && pattern_has(f->names, "{head");
    model_config one = *c; /* one head's tensor is that of a model with one head */
    f->n_views = 1;
    f->by_head = json_is_true(json_object_get(f->spec, "by_head")) && !(s->bias && s->role == ROLE_O);
    if (f->by_head && !s->bias && s->role != ROLE_O) {
        f->n_views = s->role == ROLE_Q ? c->n_heads : c->n_kv_heads;
        f->rows_each = s->n_rows / f->n_views;
        f->map = row_map_whole(f->rows_each);
        return s->role == ROLE_Q || s->role == ROLE_K || s->role == ROLE_V;
    }
    if (f->per_head) {
        f->n_views = s->role == ROLE_Q || strcmp(f->role, "qkv") == 0 ? c->n_heads : c->n_kv_heads;
        one.n_heads = one.n_kv_heads = 1;
    }
    f->rows_each = s->n_rows / f->n_views;
    if (strcmp(f->role, "qkv") == 0)
        return (!f->per_head || c->n_heads == c->n_kv_heads) && row_map_qkv(&one, s, order, &f->map);
    if (strcmp(f->role, "kv") == 0) return row_map_kv(&one, s, order, &f->map);
    if (strcmp(f->role, "gate_up") == 0) return row_map_gate_up(c, s, order, &f->map);
    f->map = row_map_whole(f->rows_each);
    json_int_t skip = json_integer_value(json_object_get(f->spec, "skip_rows"));
    if (skip > 0 && skip < INT32_MAX) f->map.first = skip, f->map.total += skip;
    return true;
}

void tensor_shape_text(char *out, size_t size, const tensor *t) {
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->n_dims && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%" PRId64, i ? ", " : "", t->shape[i]);
    if (n < size) snprintf(out + n, size - n, "]");
}

int tensor_squeezed(const tensor *t, int want, int64_t *shape, int64_t *stride) {
    int n = 0, spare = t->n_dims - want;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] == 1 && spare > 0) {
            spare--;
            continue;
        }
        shape[n] = t->shape[i], stride[n++] = t->stride[i];
    }
    return n;
}

/* "by_head": the first dim counts the heads. Of q, k and v, head h is a matrix of its own; in the output matrix, and in biases, heads and what
 * is in them are one dim cut in two. False: not of that form. */
static bool head_dims(int n_views, int h, int want, int *n, int64_t *shape, int64_t *stride, int64_t *start) {
    if (*n != want + 1) return false;
    if (n_views > 1) {
        if (shape[0] != n_views) return false;
        *start = h * stride[0];
    } else {
        if (stride[0] != shape[1] * stride[1]) return false;
        shape[1] *= shape[0];
    }
    memmove(shape, shape + 1, (size_t)want * sizeof *shape);
    memmove(stride, stride + 1, (size_t)want * sizeof *stride);
    *n = want;
    return true;
}

static status check_type(const resolver *r, const tensor *t, const tensor_view *v, const binding *b, int n_cols, error *e) {
    const dtype_traits *traits = dtype_info(t->type);
    if (traits->decode == NULL && t->type != DTYPE_I8G)
        return error_set(e, ERR_UNSUPPORTED, "%s: tensor '%s' holds %s, which is no type of weights that Tally reads",
                         r->c->path, t->name, t->type_name != NULL ? t->type_name : traits->name);
    int unit = t->type == DTYPE_I8G ? t->group : traits->block_elems;
    if (unit > 1 && (v->col_stride != 1 || v->row_stride != n_cols || n_cols % unit != 0))
        return error_set(e, ERR_UNSUPPORTED, "%s: tensor '%s': rows of %d do not divide into blocks of %d", r->c->path, t->name,
                         n_cols, unit);
    if (b->offset != 0 && unit > 1)
        return error_set(e, ERR_UNSUPPORTED, "%s: tensor '%s' is quantised, but a gain is wanted", r->c->path, t->name);
    return OK;
}

static status refuse_shape(const resolver *r, const source *f, const tensor *t, bool is_matrix, bool transposed, int64_t rows,
                           int64_t cols, error *e) {
    char text[128], want[64];
    tensor_shape_text(text, sizeof text, t);
    if (!is_matrix)
        snprintf(want, sizeof want, "[%" PRId64 "]", rows);
    else
        snprintf(want, sizeof want, "[%" PRId64 ", %" PRId64 "]", transposed ? cols : rows, transposed ? rows : cols);
    return error_set(e, ERR_MISMATCH, "%s: tensor '%s' has shape %s, but the configuration asks for %s%s (%s, layout '%s')",
                     r->c->path, t->name, text, want, f->by_head ? " in heads" : "", f->role, layout_name(r->layout));
}

/* The tensor as rows and columns of the slot, checked against what the configuration says they must be. */
static status view_tensor(const resolver *r, const slot *s, const source *f, const tensor *t, int h, const binding *b,
                          tensor_view *out, error *e) {
    int64_t shape[TENSOR_MAX_DIMS + 1] = {0}, stride[TENSOR_MAX_DIMS + 1] = {0}, start = 0;
    bool is_matrix = slot_is_matrix(s), transposed = is_matrix && json_is_true(json_object_get(f->spec, "transposed"));
    int64_t want_rows = f->map.total, want_cols = is_matrix ? s->n_cols : 1;
    int want = is_matrix ? 2 : 1, n = tensor_squeezed(t, want + f->by_head, shape, stride), rows_at = transposed ? 1 : 0;
    bool fits = !f->by_head || head_dims(f->n_views, h, want, &n, shape, stride, &start);
    *out = (tensor_view){t, start, stride[rows_at], is_matrix ? stride[1 - rows_at] : 1};
    fits = fits && n == want && shape[rows_at] == want_rows && (!is_matrix || shape[1 - rows_at] == want_cols);
    if (fits) return check_type(r, t, out, b, (int)want_cols, e);
    return refuse_shape(r, f, t, is_matrix, transposed, want_rows, want_cols, e);
}

static status missing(const resolver *r, const slot *s, const source *f, int head, error *e) {
    char name[256] = "?";
    if (f->names != NULL && json_array_size(f->names) > 0)
        pattern_first_name(name, sizeof name, r->prefix, f->names, s->layer, head);
    else
        snprintf(name, sizeof name, "%s of layer %d", role_name(s->role), s->layer);
    return error_set(e, ERR_MISMATCH, "%s: tensor '%s' is missing (%s%s of layout '%s')", r->c->path, name, role_name(s->role),
                     s->bias ? ", bias" : "", layout_name(r->layout));
}

static computed_kind computed_of(const source *f, const slot *s) {
    const char *word = json_string_value(json_object_get(f->spec, "computed"));
    if (word == NULL || s->bias) return COMPUTED_NOT;
    if (strcmp(word, "sinusoidal") == 0) return COMPUTED_SINUSOIDAL;
    if (strcmp(word, "sinusoidal_halves") == 0) return COMPUTED_SINUSOIDAL_HALVES;
    return strcmp(word, "ones") == 0 ? COMPUTED_ONES : COMPUTED_NOT;
}

static status bind_views(resolver *r, const slot *s, const source *f, binding *out, error *e) {
    out->views = f->n_views == 1 ? &out->one : calloc((size_t)f->n_views, sizeof *out->views);
    out->n_views = f->n_views;
    if (out->views == NULL) return error_set(e, ERR_MEMORY, "%s: no memory", r->c->path);
    for (int h = 0; h < f->n_views; h++) {
        const tensor *t = find(r, f, s, f->by_head ? 0 : h);
        if (t == NULL) return missing(r, s, f, h, e);
        resolver_use(r, t);
        status st = view_tensor(r, s, f, t, h, out, &out->views[h], e);
        if (st != OK) return st;
    }
    return OK;
}

status bind_slot(resolver *r, const model_config *c, const slot *s, binding *out, error *e) {
    *out = (binding){0};
    source f = {0};
    if (!find_entry(r, c, s, &f)) return missing(r, s, &f, 0, e);
    if (find(r, &f, s, 0) == NULL && computed_of(&f, s) != COMPUTED_NOT) {
        out->computed = computed_of(&f, s);
        return OK;
    }
    if (!map_rows(c, s, &f))
        return error_set(e, ERR_FORMAT, "%s: layout '%s': '%s' has an order that %d heads with %d K/V heads cannot have",
                         r->c->path, layout_name(r->layout), f.role, c->n_heads, c->n_kv_heads);
    if (!s->bias) out->offset = (float)json_number_value(json_object_get(f.spec, "offset"));
    out->rows_each = f.rows_each;
    out->first = f.map.first, out->chunk = f.map.chunk, out->step = f.map.step;
    status st = bind_views(r, s, &f, out, e);
    if (st != OK) binding_free(out);
    return st;
}

void binding_free(binding *b) {
    if (b->views != &b->one) free(b->views);
    b->views = NULL;
}
