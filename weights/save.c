#include "weights/save.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/pattern.h"
#include "weights/rope.h"

/* ---- which tensors ---- */

typedef struct {
    const char *role; /* the layout's entry */
    tensor_role parts[3];
    int n_parts;
} entry;

/* The layout's entry that holds the role, if the role is the first in it. n_parts 0: it comes with another role's. */
static entry entry_of(const json_t *layout, tensor_role role) {
    if (layout_spec(layout, role_name(role)) != NULL) return (entry){role_name(role), {role}, 1};
    if (layout_spec(layout, "qkv") != NULL && role >= ROLE_Q && role <= ROLE_V)
        return (entry){"qkv", {ROLE_Q, ROLE_K, ROLE_V}, role == ROLE_Q ? 3 : 0};
    if (layout_spec(layout, "kv") != NULL && (role == ROLE_K || role == ROLE_V))
        return (entry){"kv", {ROLE_K, ROLE_V}, role == ROLE_K ? 2 : 0};
    if (layout_spec(layout, "gate_up") != NULL && (role == ROLE_GATE || role == ROLE_UP))
        return (entry){"gate_up", {ROLE_GATE, ROLE_UP}, role == ROLE_GATE ? 2 : 0};
    return (entry){NULL, {0}, -1};
}

/* Parts in the order that the layout wants; false: an order that is not written. */
static bool set_order(saved_tensor *t, const json_t *spec) {
    const char *order = json_string_value(json_object_get(spec, "order"));
    if (order == NULL || t->n_parts == 1) return true;
    if (strcmp(order, "heads") == 0 || strcmp(order, "groups") == 0) return t->by_group = t->n_parts == 3;
    return strcmp(order, "q,k,v") == 0 || strcmp(order, "k,v") == 0 || strcmp(order, "gate,up") == 0;
}

static int rows_of(const model_config *c, tensor_role role) {
    switch (role) {
    case ROLE_Q:
        return config_q_dim(c);
    case ROLE_K:
    case ROLE_V:
        return config_kv_dim(c);
    default:
        return c->d_ff; /* ROLE_GATE, ROLE_UP */
    }
}

static dtype stored_type(const save_plan *p, const slot *s) {
    if (!slot_is_matrix(s) || s->role == ROLE_POSITIONS) return DTYPE_F32;
    dtype type = p->weights >= 0 ? (dtype)p->weights : model_matrix((model *)p->m, s->role, s->layer)->type;
    if (type == DTYPE_I8G) return DTYPE_F32;
    return type == DTYPE_Q8_0 && p->whole_rows_only && s->n_cols % 32 != 0 ? DTYPE_F16 : type;
}

static status set_shape(const save_plan *p, const slot *s, const json_t *spec, saved_tensor *t, error *e) {
    bool is_matrix = slot_is_matrix(s);
    t->n_rows = s->n_rows, t->n_cols = is_matrix ? s->n_cols : 0;
    if (t->n_parts > 1) {
        t->n_rows = 0;
        for (int i = 0; i < t->n_parts; i++) t->n_rows += rows_of(&p->config, t->parts[i]);
    }
    t->type = stored_type(p, s);
    t->transposed = is_matrix && json_is_true(json_object_get(spec, "transposed"));
    if (t->transposed) {
        int n = t->n_rows;
        t->n_rows = t->n_cols, t->n_cols = n;
        if (t->type == DTYPE_Q8_0) t->type = DTYPE_F16;
    }
    size_t row;
    if (!matrix_row_bytes(t->type, 0, (size_t)(is_matrix ? t->n_cols : 1), &row) ||
        !size_mul(row, (size_t)t->n_rows, &t->n_bytes))
        return error_set(e, ERR_LIMIT, "tensor '%s' is too large", t->name);
    return OK;
}

static status add_slot(save_plan *p, const slot *s, error *e) {
    entry in = entry_of(p->layout, s->role);
    if (in.n_parts == 0) return OK;
    const json_t *spec = in.role != NULL ? layout_spec(p->layout, in.role) : NULL;
    const json_t *names = json_object_get(spec, s->bias ? "bias" : "name");
    if (names == NULL || json_array_size(names) == 0)
        return error_set(e, ERR_UNSUPPORTED, "layout '%s' has no place for %s%s", layout_name(p->layout), role_name(s->role),
                         s->bias ? "'s bias" : "");
    saved_tensor *t = &p->tensors[p->n_tensors];
    *t = (saved_tensor){.layer = s->layer, .bias = s->bias, .n_parts = in.n_parts};
    memcpy(t->parts, in.parts, sizeof t->parts);
    pattern_first_name(t->name, sizeof t->name, "", names, s->layer, 0);
    if (!s->bias) t->offset = (float)json_number_value(json_object_get(spec, "offset"));
    if (pattern_has(names, "{head") || json_object_get(spec, "skip_rows") != NULL || !set_order(t, spec))
        return error_set(e, ERR_UNSUPPORTED, "layout '%s' has %s in a form that is read but not written",
                         layout_name(p->layout), in.role);
    p->n_tensors++;
    return set_shape(p, s, spec, t, e);
}

/* GGUF gives llama3's scaling as a divisor for each pair. */
static status add_rope_factors(save_plan *p, error *e) {
    const json_t *expression = json_object_get(json_object_get(p->layout, "config"), "rope_factors");
    const json_t *names = json_object_get(expression, "tensor");
    const model_config *c = &p->config;
    if (names == NULL || c->position != POSITION_ROPE) return OK;
    if (c->rope_scaling != ROPE_SCALING_LLAMA3 && c->rope_scaling != ROPE_SCALING_FACTORS) return OK;
    size_t n = (size_t)c->rope_dim / 2;
    p->rope_factors = calloc(n, sizeof *p->rope_factors);
    if (p->rope_factors == NULL) return error_set(e, ERR_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++)
        p->rope_factors[i] = (float)(pow(c->rope_base, -2.0 * (double)i / c->rope_dim) / (double)p->m->rope_freq[i]);
    saved_tensor *t = &p->tensors[p->n_tensors++];
    *t = (saved_tensor){.type = DTYPE_F32, .n_rows = (int)n, .n_bytes = n * sizeof(float), .values = p->rope_factors};
    pattern_first_name(t->name, sizeof t->name, "", names, 0, 0);
    return OK;
}

status save_plan_make(save_plan *out, const model *m, const json_t *layout, rope_style rope, int weights, int n_kv_heads,
                      error *e) {
    *out = (save_plan){.m = m, .config = m->config, .layout = layout, .weights = weights, .whole_rows_only = true};
    if (n_kv_heads > 0) out->config.n_kv_heads = n_kv_heads;
    if (m->config.n_kv_heads % out->config.n_kv_heads != 0)
        return error_set(e, ERR_ARGUMENT, "%d K/V heads cannot be averaged into %d (it must divide them)", m->config.n_kv_heads,
                         n_kv_heads);
    if (m->config.position == POSITION_ROPE) out->config.rope = rope;
    status s = config_check(&out->config, e);
    if (s != OK) return s;
    size_t n;
    slot *slots = slots_of(&out->config, &n);
    out->tensors = calloc(n + 1, sizeof *out->tensors);
    s = slots != NULL && out->tensors != NULL ? OK : error_set(e, ERR_MEMORY, "no memory");
    for (size_t i = 0; s == OK && i < n; i++) s = add_slot(out, &slots[i], e);
    if (s == OK) s = add_rope_factors(out, e);
    free(slots);
    if (s != OK) save_plan_free(out);
    return s;
}

void save_plan_free(save_plan *p) {
    free(p->tensors);
    free(p->rope_factors);
    p->tensors = NULL;
    p->rope_factors = NULL;
}

/* ---- their numbers ---- */

/* Where element i of a head in the written order is in the model's: Meta's order has (i, i + half) at (2i, 2i + 1). */
static int rotary_index(const save_plan *p, int i) {
    int half = p->config.rope_dim / 2;
    if (p->config.position != POSITION_ROPE || p->config.rope == p->m->config.rope || i >= 2 * half) return i;
    if (p->config.rope == ROPE_PAIRS) return i % 2 == 0 ? i / 2 : i / 2 + half;
    return i < half ? 2 * i : 2 * (i - half) + 1;
}

static bool turns(tensor_role role) {
    return role == ROLE_Q || role == ROLE_K || role == ROLE_Q_NORM || role == ROLE_K_NORM;
}

/* The model's row (or element of a vector) behind row r of what is written. */
static int model_row(const save_plan *p, tensor_role role, int r) {
    int hd = p->config.head_dim;
    return turns(role) ? r - r % hd + rotary_index(p, r % hd) : r;
}

/* One number of a vector: a bias, or a gain. */
static float vector_element(const save_plan *p, const saved_tensor *t, tensor_role role, int r) {
    if (role_kind_of(role) == ROLE_MATRIX) return model_matrix((model *)p->m, role, t->layer)->bias[r];
    const norm_weights *norm = model_norm((model *)p->m, role, t->layer);
    return t->bias ? norm->bias[r] : norm->gain[r];
}

/* A row of the model as fp32; a vector's is one number. */
static void model_row_f32(const save_plan *p, const saved_tensor *t, tensor_role role, int r, float *out) {
    if (t->bias || role_kind_of(role) == ROLE_NORM)
        out[0] = vector_element(p, t, role, r) - t->offset;
    else
        matrix_row_f32(out, model_matrix((model *)p->m, role, t->layer), r);
}

/* Row r of a part as it is written: of k and v, the mean over the heads that become one. */
static void part_row(const save_plan *p, const saved_tensor *t, tensor_role role, int r, float *out, float *scratch, size_t n) {
    int merge = role == ROLE_K || role == ROLE_V ? p->m->config.n_kv_heads / p->config.n_kv_heads : 1, hd = p->config.head_dim;
    int from = model_row(p, role, r);
    if (merge == 1) {
        model_row_f32(p, t, role, from, out);
        return;
    }
    memset(out, 0, n * sizeof *out);
    for (int i = 0; i < merge; i++) {
        model_row_f32(p, t, role, (from / hd * merge + i) * hd + from % hd, scratch);
        for (size_t k = 0; k < n; k++) out[k] += scratch[k] / (float)merge;
    }
}

/* Which part row r of the tensor belongs to, and which row of that part it is. */
static tensor_role part_at(const save_plan *p, const saved_tensor *t, int r, int *row) {
    const model_config *c = &p->config;
    if (t->by_group) {
        int hd = c->head_dim, group = c->n_heads / c->n_kv_heads, span = (group + 2) * hd, g = r / span, at = r % span;
        *row = at < group * hd ? g * group * hd + at : g * hd + at % hd;
        return at < group * hd ? ROLE_Q : at < (group + 1) * hd ? ROLE_K : ROLE_V;
    }
    int i = 0;
    while (t->n_parts > 1 && r >= rows_of(c, t->parts[i])) r -= rows_of(c, t->parts[i++]);
    *row = r;
    return t->parts[i];
}

/* Rows that are already as they are to be written need no fp32 in between: the same bytes. */
static bool copies_bytes(const save_plan *p, const saved_tensor *t, tensor_role role) {
    if (t->bias || role_kind_of(role) == ROLE_NORM || t->transposed) return false;
    bool merges = (role == ROLE_K || role == ROLE_V) && p->m->config.n_kv_heads != p->config.n_kv_heads;
    return !merges && model_matrix((model *)p->m, role, t->layer)->type == t->type;
}

static void count_overflow(save_plan *p, const saved_tensor *t, const float *x, size_t n) {
    float divide = t->type == DTYPE_Q8_0 ? 127.0f : 1.0f;
    for (size_t k = 0; t->type != DTYPE_F32 && k < n; k++) p->n_overflow += f16_overflows(x[k] / divide);
}

static void write_rows(save_plan *p, const saved_tensor *t, unsigned char *out, float *x, float *scratch, int n_rows,
                       size_t n_cols) {
    size_t row_bytes = t->n_bytes / (size_t)n_rows;
    for (int r = 0; r < n_rows; r++, out += row_bytes) {
        int row;
        tensor_role role = part_at(p, t, r, &row);
        if (copies_bytes(p, t, role)) {
            matrix_row_raw(out, model_matrix((model *)p->m, role, t->layer), model_row(p, role, row));
            continue;
        }
        part_row(p, t, role, row, x, scratch, n_cols);
        count_overflow(p, t, x, n_cols);
        dtype_info(t->type)->encode(out, x, n_cols);
    }
}

/* The file's element (k, r) is the model's (r, k). */
static void write_transposed(save_plan *p, const saved_tensor *t, unsigned char *out, float *x, float *scratch) {
    size_t size = (size_t)dtype_info(t->type)->block_bytes, n_cols = (size_t)t->n_rows;
    for (int r = 0; r < t->n_cols; r++) {
        int row;
        tensor_role role = part_at(p, t, r, &row);
        part_row(p, t, role, row, x, scratch, n_cols);
        count_overflow(p, t, x, n_cols);
        for (size_t k = 0; k < n_cols; k++)
            dtype_info(t->type)->encode(out + (k * (size_t)t->n_cols + (size_t)r) * size, x + k, 1);
    }
}

status saved_bytes(save_plan *p, const saved_tensor *t, void *out, error *e) {
    if (t->values != NULL) {
        memcpy(out, t->values, t->n_bytes);
        return OK;
    }
    size_t n = (size_t)(t->transposed ? t->n_rows : t->n_cols ? t->n_cols : 1);
    float *x = calloc(2 * n, sizeof *x);
    if (x == NULL) return error_set(e, ERR_MEMORY, "no memory for a row of %zu weights", n);
    if (t->transposed)
        write_transposed(p, t, out, x, x + n);
    else
        write_rows(p, t, out, x, x + n, t->n_rows, n);
    free(x);
    return p->n_overflow == 0 ? OK
                              : error_set(e, ERR_NUMERIC, "tensor '%s': %llu weights are too large for fp16 (write f32)",
                                          t->name, (unsigned long long)p->n_overflow);
}
