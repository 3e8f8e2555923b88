/* model_random.c - seeded random weights, made of exact integer arithmetic: the same numbers on every machine.
 *
 * Element i of a tensor is the sum of the four 16-bit words of a hash of (seed, tensor, i), brought to mean 0 and variance 1
 * (Irwin-Hall: near enough to a normal distribution), times a standard deviation that keeps activations near 1. */
#include <math.h>

#include "weights/build.h"

typedef struct {
    uint64_t seed;
    const model_config *config;
    /* The open slot. */
    uint64_t key;
    size_t n_cols;
    float mean, sd;
} generator;

/* splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that mixes well. */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static float near_normal(uint64_t bits) {
    int sum = (int)(bits & 0xFFFF) + (int)(bits >> 16 & 0xFFFF) + (int)(bits >> 32 & 0xFFFF) + (int)(bits >> 48);
    return (float)(sum - 4 * 32767 - 2) * (1.0f / 37837.0f); /* 65536 / sqrt(12) * sqrt(4) */
}

static void random_rows(const row_source *self, int first, int n, void *scratch, raw_rows *out) {
    const generator *g = self->from;
    float *x = scratch;
    size_t count = (size_t)n * g->n_cols, start = (size_t)first * g->n_cols;
    for (size_t i = 0; i < count; i++) x[i] = g->mean + g->sd * near_normal(mix(g->key + start + i));
    *out = (raw_rows){.rows = scratch, .stride = g->n_cols * sizeof(float)};
}

static void random_describe(void *self, const slot *s, dtype *type, int *group, bool *will_map) {
    (void)self, (void)s;
    *type = DTYPE_F32, *group = 0, *will_map = false;
}

/* Rows of matrices have length 1 on average, so that a normed input gives outputs near 1; what is added to the residual stream is
 * smaller the more layers add to it. Embeddings are small beside that, so that what comes out depends on every layer. */
static void set_distribution(generator *g, const slot *s) {
    const model_config *c = g->config;
    g->mean = 0, g->sd = 1 / sqrtf((float)s->n_cols);
    if (!slot_is_matrix(s)) g->sd = 0.1f;
    if (role_kind_of(s->role) == ROLE_NORM && !s->bias) g->mean = 1;
    if (slot_is_matrix(s) && (s->role == ROLE_O || s->role == ROLE_DOWN)) g->sd /= sqrtf(2 * (float)c->n_layers);
    if (slot_is_matrix(s) && s->role == ROLE_EMBEDDING && !c->tied) g->sd = 0.1f;
    if (s->role == ROLE_POSITIONS) g->sd = 0.1f;
}

static status random_open(void *self, const slot *s, row_source *out, const char **name, error *e) {
    (void)e;
    generator *g = self;
    *name = role_name(s->role);
    g->key = mix(mix(g->seed) + (uint64_t)s->role * 2 + s->bias) ^ mix((uint64_t)(s->layer + 1) << 32);
    g->n_cols = (size_t)s->n_cols;
    set_distribution(g, s);
    *out = (row_source){.type = DTYPE_F32, .row_bytes = g->n_cols * sizeof(float), .rows = random_rows, .from = g};
    return OK;
}

static void random_close(void *self) {
    (void)self;
}

status model_random(model **out, const model_config *c, uint64_t seed, const model_options *o, error *e) {
    *out = NULL;
    status st = config_check(c, e);
    if (st != OK) return st;
    generator g = {.seed = seed, .config = c};
    tensor_provider from = {.self = &g, .describe = random_describe, .open = random_open, .close = random_close};
    st = model_build(out, c, o, &from, e);
    if (st == OK && !model_assume(*out, "random weights, seed %llu", (unsigned long long)seed)) {
        model_free(*out);
        *out = NULL;
        return error_set(e, ERR_MEMORY, "random model: no memory");
    }
    return st;
}
