#include "weights/build.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/fill.h"
#include "kernels/memory.h"
#include "weights/rope.h"

enum { ALIGN = 64 };
/* Models this small are not held against the memory that is left. */
#define NEVER_MIND ((size_t)16 << 20)

/* One building site: the model, and everything beside it that is gone afterwards. */
typedef struct {
    model *m;
    const model_options *o;
    const tensor_provider *from;
    slot *slots;
    size_t n_slots;
    int n_threads;
    void *scratch;
    size_t scratch_bytes, scratch_total; /* of one thread; of all */
    size_t done, total;                  /* bytes as stored: progress */
    fill_counts counts;
    char misfit[160]; /* the first tensor with a value that does not fit */
} site;

static const char *path_of(const site *b) {
    return b->from->path != NULL ? b->from->path : "random model";
}

/* How a tensor that the source has in `type` is stored. "As the file has it" means the nearest type that kernels compute with. */
static dtype storage_type(const site *b, const slot *s, dtype type, int *group) {
    bool half = type == DTYPE_F16 || type == DTYPE_BF16 || dtype_info(type)->block_elems > 1;
    dtype as_file = half ? DTYPE_F16 : DTYPE_F32;
    int keep_group = *group;
    *group = 0;
    if (s->role == ROLE_POSITIONS) return b->o->weights == DTYPE_F16 || (b->o->weights < 0 && half) ? DTYPE_F16 : DTYPE_F32;
    if (b->o->weights >= 0) return (dtype)b->o->weights;
    if (type == DTYPE_I8G) *group = keep_group;
    return type == DTYPE_Q8_0 || type == DTYPE_I8G ? type : as_file;
}

static void set_terms(matrix *w, tensor_role role) {
    switch (role) {
    case ROLE_EMBEDDING:
        w->flops_term = TERM_FLOPS_HEAD, w->bytes_term = TERM_BYTES_EMBEDDING;
        break;
    case ROLE_POSITIONS:
        w->flops_term = TERM_FLOPS_POSITION, w->bytes_term = TERM_BYTES_POSITION;
        break;
    case ROLE_HEAD:
        w->flops_term = TERM_FLOPS_HEAD, w->bytes_term = TERM_BYTES_HEAD;
        break;
    case ROLE_Q:
        w->flops_term = TERM_FLOPS_Q, w->bytes_term = TERM_BYTES_Q;
        break;
    case ROLE_K:
    case ROLE_V:
        w->flops_term = TERM_FLOPS_KV, w->bytes_term = TERM_BYTES_KV;
        break;
    case ROLE_O:
        w->flops_term = TERM_FLOPS_O, w->bytes_term = TERM_BYTES_O;
        break;
    default:
        w->flops_term = TERM_FLOPS_FFN, w->bytes_term = TERM_BYTES_FFN;
        break;
    }
}

/* Rows are wanted one at a time from an embedding table that is not the head too, and from the position table. */
static bool stays_rows(const site *b, const slot *s) {
    return s->role == ROLE_POSITIONS || (s->role == ROLE_EMBEDDING && !b->m->config.tied);
}

/* A matrix may be used where it lies in the mapped file. By default that is done only for the embedding table's rows: matrices are read
 * faster from panels. */
static bool may_stay_mapped(const site *b, const slot *s) {
    return b->o->mmap > 0 || (b->o->mmap < 0 && s->role == ROLE_EMBEDDING && stays_rows(b, s));
}

/* The matrix's description; its data comes later. Returns the bytes that it takes in the arena. */
static status plan_matrix(site *b, const slot *s, size_t *arena_bytes, error *e) {
    dtype type = DTYPE_F32;
    int group = 0;
    bool will_map = false;
    b->from->describe(b->from->self, s, &type, &group, &will_map);
    matrix *w = model_matrix(b->m, s->role, s->layer);
    w->group = group;
    w->type = storage_type(b, s, type, &w->group);
    w->n_rows = s->n_rows, w->n_cols = s->n_cols;
    w->packed = !stays_rows(b, s);
    set_terms(w, s->role);
    size_t n;
    if (!matrix_row_bytes(w->type, w->group, (size_t)w->n_cols, &w->row_bytes) ||
        !size_mul(w->row_bytes, (size_t)w->n_rows, &n) || !size_add(b->total, n, &b->total))
        return error_set(e, ERR_LIMIT, "%s: %s is too large", path_of(b), role_name(s->role));
    bool mapped = will_map && may_stay_mapped(b, s) && w->type == type && w->group == group;
    *arena_bytes = mapped ? 0 : n;
    return OK;
}

static status refuse_memory(const site *b, size_t need, size_t have, error *e) {
    return error_set(
        e, ERR_MEMORY,
        "%s: the weights need %.2f GiB (%zu bytes) and %.2f GiB (%zu bytes) of memory are available (--weights f16 or int8 "
        "takes less, --mmap on leaves them in the file)",
        path_of(b), (double)need / 0x1p30, need, (double)have / 0x1p30, have);
}

/* Describes every matrix, adds up, and takes the arena: what cannot fit is refused here, before anything is read. */
static status plan_all(site *b, error *e) {
    size_t need = 0, address_space = 0;
    for (size_t i = 0; i < b->n_slots; i++) {
        const slot *s = &b->slots[i];
        size_t bytes = (size_t)s->n_rows * sizeof(float);
        status st = slot_is_matrix(s) ? plan_matrix(b, s, &bytes, e) : OK;
        if (st != OK) return st;
        matrix *w = slot_is_matrix(s) ? model_matrix(b->m, s->role, s->layer) : NULL;
        size_t space = w != NULL ? matrix_bytes(w) : bytes;
        if (!size_add(need, bytes, &need) || !size_add(address_space, space + ALIGN, &address_space))
            return error_set(e, ERR_LIMIT, "%s: the weights are too large", path_of(b));
    }
    size_t rope_bytes = ((size_t)b->m->config.rope_dim * sizeof(float) + ALIGN) * 2,
           have = need > NEVER_MIND ? memory_available() : 0;
    if (!size_add(address_space, rope_bytes, &address_space)) return error_set(e, ERR_LIMIT, "%s: too large", path_of(b));
    if (need > NEVER_MIND && need > have) return refuse_memory(b, need, have, e);
    model_memory *memory = b->m->memory;
    memory->arena = pages_alloc(address_space);
    if (memory->arena == NULL) return refuse_memory(b, need, have, e);
    memory->arena_bytes = address_space;
    return OK;
}

/* The next piece of the arena. It has room: plan_all added the same sizes up. */
static void *arena_take(site *b, size_t bytes) {
    model_memory *memory = b->m->memory;
    void *p = (unsigned char *)memory->arena + memory->used;
    memory->used += round_up(bytes, ALIGN);
    return p;
}

static status need_scratch(site *b, const row_source *from, dtype type, int group, size_t n_cols, error *e) {
    size_t one, all;
    if (!fill_scratch_bytes(from, type, group, n_cols, &one) || !size_mul(one, (size_t)b->n_threads, &all))
        return error_set(e, ERR_LIMIT, "%s: a row of %zu weights is too long", path_of(b), n_cols);
    b->scratch_bytes = one;
    if (all <= b->scratch_total) return OK;
    free(b->scratch);
    b->scratch_total = 0;
    b->scratch = malloc(all);
    if (b->scratch == NULL) return error_set(e, ERR_MEMORY, "%s: no memory for %zu bytes of scratch", path_of(b), all);
    b->scratch_total = all;
    return OK;
}

/* Numbers in the file may lie at any address; kernels read them in place only where they are aligned. */
static bool is_aligned(const void *p) {
    return (uintptr_t)p % sizeof(float) == 0;
}

static bool use_mapped(site *b, const slot *s, matrix *w, const row_source *from) {
    if (!from->stays || !may_stay_mapped(b, s) || from->type != w->type || from->group != w->group) return false;
    if (!is_aligned(from->mapped) || !is_aligned(from->mapped_scales)) return false;
    w->data = from->mapped, w->scales = from->mapped_scales;
    w->packed = false;
    b->m->mapped_bytes += matrix_bytes(w);
    return true;
}

static status build_matrix(site *b, const slot *s, const row_source *from, const char *name, error *e) {
    matrix *w = model_matrix(b->m, s->role, s->layer);
    b->m->weight_bytes += matrix_bytes(w);
    if (use_mapped(b, s, w, from)) return OK;
    status st = need_scratch(b, from, w->type, w->group, (size_t)w->n_cols, e);
    if (st != OK) return st;
    unsigned char *data = arena_take(b, matrix_bytes(w));
    uint64_t before = b->counts.n_overflow;
    fill_matrix(w, data, from, b->scratch, b->scratch_bytes, b->n_threads, &b->counts);
    if (before == 0 && b->counts.n_overflow > 0) snprintf(b->misfit, sizeof b->misfit, "%s", name);
    w->data = data;
    if (w->type == DTYPE_I8G && !w->packed) w->scales = data + (size_t)w->n_rows * (size_t)w->n_cols;
    return OK;
}

static status build_vector(site *b, const slot *s, const row_source *from, error *e) {
    status st = need_scratch(b, from, DTYPE_F32, 0, 1, e);
    if (st != OK) return st;
    float *data = arena_take(b, (size_t)s->n_rows * sizeof *data);
    fill_vector(data, s->n_rows, from, b->scratch);
    b->m->vector_bytes += (size_t)s->n_rows * sizeof *data;
    if (role_kind_of(s->role) == ROLE_MATRIX) {
        model_matrix(b->m, s->role, s->layer)->bias = data;
        return OK;
    }
    norm_weights *norm = model_norm(b->m, s->role, s->layer);
    norm->n = s->n_rows;
    *(s->bias ? &norm->bias : &norm->gain) = data;
    return OK;
}

static status build_slot(site *b, const slot *s, error *e) {
    row_source rows = {0};
    const char *name = role_name(s->role);
    status st = b->from->open(b->from->self, s, &rows, &name, e);
    if (st != OK) return st;
    st = slot_is_matrix(s) ? build_matrix(b, s, &rows, name, e) : build_vector(b, s, &rows, e);
    b->from->close(b->from->self);
    if (st == OK && slot_is_matrix(s) && b->o->progress != NULL) {
        b->done += matrix_bytes(model_matrix(b->m, s->role, s->layer));
        b->o->progress(b->o->user, b->done, b->total);
    }
    return st;
}

static status refuse_misfits(site *b, error *e) {
    const char *type = b->o->weights == DTYPE_Q8_0 ? "an int8 block with an fp16 scale" : "fp16";
    if (b->counts.n_overflow > 0)
        return error_set(e, ERR_UNSUPPORTED,
                         "%s: %" PRIu64 " weight%s too large for %s, the first in tensor '%s' (use --weights f32)", path_of(b),
                         b->counts.n_overflow, b->counts.n_overflow == 1 ? " is" : "s are", type, b->misfit);
    if (b->counts.n_underflow > 0 &&
        !model_assume(b->m, "%" PRIu64 " weights too small for fp16 became 0", b->counts.n_underflow))
        return error_set(e, ERR_MEMORY, "%s: no memory", path_of(b));
    return OK;
}

static void share_tied_table(model *m) {
    const float *bias = m->head.bias;
    m->head = m->embedding;
    m->head.bias = bias;
    set_terms(&m->head, ROLE_HEAD);
}

static void build_rope(site *b) {
    model *m = b->m;
    const model_config *c = &m->config;
    m->rope_magnitude = rope_magnitude(c);
    if (c->position != POSITION_ROPE) return;
    size_t bytes = (size_t)(c->rope_dim / 2) * sizeof(float);
    m->rope_freq = arena_take(b, bytes);
    rope_frequencies(m->rope_freq, c, false);
    m->vector_bytes += bytes;
    if (c->rope_local_base == 0) return;
    m->rope_local_freq = arena_take(b, bytes);
    rope_frequencies(m->rope_local_freq, c, true);
    m->vector_bytes += bytes;
}

static status build_all(site *b, error *e) {
    status st = plan_all(b, e);
    for (size_t i = 0; st == OK && i < b->n_slots; i++) st = build_slot(b, &b->slots[i], e);
    if (st == OK) st = refuse_misfits(b, e);
    if (st != OK) return st;
    if (b->m->config.tied) share_tied_table(b->m);
    build_rope(b);
    return OK;
}

static model *model_empty(const model_config *c) {
    model *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->config = *c;
    m->bos_id = m->pad_id = -1;
    m->layers = calloc((size_t)c->n_layers, sizeof *m->layers);
    m->memory = calloc(1, sizeof(model_memory));
    m->assumptions = json_array();
    if (m->layers == NULL || m->memory == NULL || m->assumptions == NULL) {
        model_free(m);
        return NULL;
    }
    return m;
}

status model_build(model **out, const model_config *c, const model_options *o, const tensor_provider *from, error *e) {
    *out = NULL;
    site b = {.o = o, .from = from, .n_threads = o->n_threads > 0 ? o->n_threads : omp_get_max_threads()};
    b.m = model_empty(c);
    b.slots = slots_of(c, &b.n_slots);
    status st = b.m != NULL && b.slots != NULL ? OK : error_set(e, ERR_MEMORY, "%s: no memory", path_of(&b));
    if (st == OK) st = build_all(&b, e);
    free(b.slots);
    free(b.scratch);
    if (st == OK)
        *out = b.m;
    else
        model_free(b.m);
    return st;
}
