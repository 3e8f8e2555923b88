#include "tools/question.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cost.h"

void question_init(question *q) {
    memset(q, 0, sizeof *q);
    q->weights = q->kv_type = STORAGE_F16;
    q->batch = 1;
    q->devices = 1;
    q->efficiency = 1;
    q->chunk = 512;
    q->key_split = PLAN_KEY_SPLIT;
    q->attention = -1;
    q->logits = LOGITS_LAST;
    q->embedding = EMBEDDING_LOOKUP;
}

/* The dimensions on the command line go over those of the shape; rotated elements follow a new head_dim. */
static status resolve_config(question *q, error *e) {
    model_config *c = &q->config;
    bool whole_head = c->rope_dim == c->head_dim;
    if (q->n_layers > 0) c->n_layers = q->n_layers;
    if (q->n_heads > 0) c->n_heads = q->n_heads;
    if (q->n_kv_heads > 0) c->n_kv_heads = q->n_kv_heads;
    if (q->head_dim > 0) c->head_dim = q->head_dim;
    if (whole_head || c->rope_dim > c->head_dim) c->rope_dim = c->head_dim;
    status s = config_check(c, e);
    if (s != OK) return error_prefix(e, q->name);
    q->n_layers = c->n_layers, q->n_heads = c->n_heads, q->n_kv_heads = c->n_kv_heads, q->head_dim = c->head_dim;
    q->params = config_params(c).total;
    q->query_tile = plan_query_tile(c->n_heads, c->n_kv_heads);
    return OK;
}

static status resolve_bare(question *q, error *e) {
    if (q->n_kv_heads == 0) q->n_kv_heads = q->n_heads;
    if (q->n_heads > 0 && q->n_heads % q->n_kv_heads != 0) {
        return error_set(e, ERR_MISMATCH, "%d heads cannot share %d K/V heads (--kv-heads must divide --heads)", q->n_heads,
                         q->n_kv_heads);
    }
    if (q->weight_bytes == 0) q->weight_bytes = question_weight_bytes(q);
    if (q->name[0] == '\0') snprintf(q->name, sizeof q->name, "bare numbers");
    return OK;
}

/* Everything is counted in 64 bits: refuse what would not fit, before it is computed. */
static status check_sizes(const question *q, error *e) {
    double n = (double)q->params, nl = q->n_layers, width = (double)q->n_heads * q->head_dim;
    double rows = fmax((double)q->prompt, 1), users = (double)q->batch;
    double keys = (double)q->context + 1 + rows;
    double flops = 2 * n * fmax(rows, users) + 16 * nl * (width + q->n_heads) * fmax(rows, users) * keys;
    double bytes = fmax(4, q->weight_bytes) * n + 16 * nl * (width + 1) * users * keys;
    if (flops < 1e18 && bytes < 1e18) return OK;
    return error_set(e, ERR_LIMIT, "the numbers given make more than 1e18 FLOPs or bytes in one step (too many to count here)");
}

status question_resolve(question *q, error *e) {
    status s = q->has_config ? resolve_config(q, e) : resolve_bare(q, e);
    if (s != OK) return s;
    if (q->attention < 0) q->attention = q->has_config ? ATTENTION_EXACT : ATTENTION_NONE;
    if (q->kv_bytes == 0 && q->weight_bytes != 0) q->kv_bytes = q->weight_bytes;
    q->flops *= q->devices * q->efficiency;
    q->bandwidth *= q->devices;
    q->memory *= (uint64_t)q->devices;
    q->devices = 1, q->efficiency = 1; /* once */
    return check_sizes(q, e);
}

static double storage_bytes(int storage) {
    return storage == STORAGE_F32 ? 4 : storage == STORAGE_F16 ? 2 : 0;
}

double question_weight_bytes(const question *q) {
    if (q->weight_bytes != 0) return q->weight_bytes;
    double b = storage_bytes(q->weights);
    return b == 0 && !q->has_config ? 1 : b;
}

double question_kv_number_bytes(const question *q) {
    return q->kv_bytes != 0 ? q->kv_bytes : storage_bytes(q->kv_type);
}

uint64_t question_kv_bytes(const question *q) {
    uint64_t numbers = 2 * (uint64_t)q->n_kv_heads * (uint64_t)q->head_dim * (uint64_t)q->n_layers;
    if (question_kv_number_bytes(q) != 0) return (uint64_t)((double)numbers * question_kv_number_bytes(q));
    if (!q->has_config) return numbers; /* int8 of bare numbers: no scales are known */
    return cost_kv_bytes_per_token(&q->config, DTYPE_Q8_0);
}
