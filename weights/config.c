#include "weights/config.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Limits that no published model comes near, and under which no product below overflows 64 bits. */
#define MAX_DIM    (1 << 24)
#define MAX_PARAMS ((uint64_t)1 << 46)

void config_init(model_config *c) {
    memset(c, 0, sizeof *c);
    c->norm = NORM_RMS;
    c->norm_eps = 1e-5f;
    c->attn_pre_norm = c->ffn_pre_norm = c->final_norm = true;
    c->position = POSITION_ROPE;
    c->rope = ROPE_HALVES;
    c->rope_base = 10000.0;
    c->rope_factor = 1.0;
    c->activation = ACTIVATION_SILU;
    c->gated = true;
    c->embedding_scale = c->residual_scale = c->logit_scale = 1.0f;
}

static status check_range(const char *name, int64_t value, int64_t low, int64_t high, error *e) {
    if (value >= low && value <= high) return OK;
    return error_set(e, ERR_LIMIT, "%s is %lld (from %lld to %lld is possible)", name, (long long)value, (long long)low,
                     (long long)high);
}

static status check_dims(const model_config *c, error *e) {
    const struct {
        const char *name;
        int value;
    } dims[] = {
        {"d_model", c->d_model}, {"n_heads", c->n_heads}, {"n_kv_heads", c->n_kv_heads}, {"head_dim", c->head_dim},
        {"d_ff", c->d_ff},       {"n_vocab", c->n_vocab}, {"n_ctx", c->n_ctx},
    };
    status s = check_range("n_layers", c->n_layers, 1, CONFIG_MAX_LAYERS, e);
    for (size_t i = 0; s == OK && i < sizeof dims / sizeof *dims; i++) {
        s = check_range(dims[i].name, dims[i].value, 1, MAX_DIM, e);
    }
    if (s == OK) s = check_range("n_heads * head_dim", (int64_t)c->n_heads * c->head_dim, 1, MAX_DIM, e);
    if (s != OK) return s;
    if (c->n_heads % c->n_kv_heads != 0) {
        return error_set(e, ERR_MISMATCH, "%d heads cannot share %d K/V heads (n_kv_heads must divide n_heads)", c->n_heads,
                         c->n_kv_heads);
    }
    uint64_t n = config_params(c).total;
    if (n > MAX_PARAMS) {
        return error_set(e, ERR_LIMIT, "the dimensions make %llu parameters (at most %llu)", (unsigned long long)n,
                         (unsigned long long)MAX_PARAMS);
    }
    return OK;
}

static status check_enums(const model_config *c, error *e) {
    const struct {
        const char *name;
        int value, last;
    } enums[] = {
        {"norm", (int)c->norm, NORM_LAYER},
        {"qk_norm", (int)c->qk_norm, QK_NORM_WIDTH},
        {"position", (int)c->position, POSITION_ALIBI},
        {"rope", (int)c->rope, ROPE_PAIRS},
        {"rope_scaling", (int)c->rope_scaling, ROPE_SCALING_FACTORS},
        {"activation", (int)c->activation, ACTIVATION_GELU_QUICK},
    };
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
        status s = check_range(enums[i].name, enums[i].value, 0, enums[i].last, e);
        if (s != OK) return s;
    }
    return OK;
}

/* Finite, and above zero (or at least zero where zero means "absent"). */
static status check_number(const char *name, double value, bool zero_too, error *e) {
    if (isfinite(value) && (value > 0 || (zero_too && value == 0))) return OK;
    return error_set(e, ERR_LIMIT, "%s is %g (a finite number %s 0 is needed)", name, value, zero_too ? "not below" : "above");
}

static status check_numbers(const model_config *c, error *e) {
    const struct {
        const char *name;
        double value;
        bool zero_too;
    } numbers[] = {
        {"norm_eps", (double)c->norm_eps, true},
        {"attn_scale", (double)c->attn_scale, false},
        {"attn_softcap", (double)c->attn_softcap, true},
        {"final_softcap", (double)c->final_softcap, true},
        {"embedding_scale", (double)c->embedding_scale, false},
        {"residual_scale", (double)c->residual_scale, false},
        {"logit_scale", (double)c->logit_scale, false},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        status s = check_number(numbers[i].name, numbers[i].value, numbers[i].zero_too, e);
        if (s != OK) return s;
    }
    return OK;
}

static status check_rope_scaling(const model_config *c, error *e) {
    status s = OK;
    if (c->rope_scaling == ROPE_SCALING_NONE) return OK;
    if (c->rope_scaling == ROPE_SCALING_FACTORS) {
        int n = c->rope_dim / 2, room = (int)(sizeof c->rope_factors / sizeof *c->rope_factors);
        s = check_range("rope_dim / 2 (with rope_factors)", n, 1, room, e);
        for (int i = 0; s == OK && i < n; i++) s = check_number("rope_factors[]", (double)c->rope_factors[i], false, e);
    } else {
        s = check_number("rope_factor", c->rope_factor, false, e);
    }
    if (s == OK) s = check_number("rope_attn_factor", c->rope_attn_factor, true, e);
    if (s != OK || c->rope_scaling == ROPE_SCALING_LINEAR || c->rope_scaling == ROPE_SCALING_FACTORS) return s;

    s = check_range("rope_original_ctx", c->rope_original_ctx, 1, MAX_DIM, e);
    bool llama3 = c->rope_scaling == ROPE_SCALING_LLAMA3;
    double low = llama3 ? c->rope_low_freq_factor : c->rope_beta_slow;
    double high = llama3 ? c->rope_high_freq_factor : c->rope_beta_fast;
    if (s == OK) s = check_number(llama3 ? "rope_low_freq_factor" : "rope_beta_slow", low, false, e);
    if (s == OK) s = check_number(llama3 ? "rope_high_freq_factor" : "rope_beta_fast", high, false, e);
    if (s == OK && !(low < high)) {
        s = error_set(e, ERR_MISMATCH, "rope scaling runs from %g to %g (the first must be below the second)", low, high);
    }
    return s;
}

static status check_positions(const model_config *c, error *e) {
    if (c->position != POSITION_ROPE) return OK;
    status s = check_range("rope_dim", c->rope_dim, 2, c->head_dim, e);
    if (s == OK && c->rope_dim % 2 != 0) s = error_set(e, ERR_MISMATCH, "rope_dim is %d (it must be even)", c->rope_dim);
    if (s == OK) s = check_number("rope_base", c->rope_base, false, e);
    if (s == OK) s = check_number("rope_local_base", c->rope_local_base, true, e);
    return s == OK ? check_rope_scaling(c, e) : s;
}

/* Both halves of a parallel block read its input, and are added to it together. */
static status check_parallel(const model_config *c, error *e) {
    if (!c->parallel_residual) return OK;
    if (c->attn_residual_norm) {
        return error_set(e, ERR_MISMATCH,
                         "attn_residual_norm is set, but a parallel block has no stream between its halves (attn_post_norm, or "
                         "ffn_residual_norm)");
    }
    if (!c->attn_pre_norm && !c->ffn_pre_norm)
        return error_set(e, ERR_MISMATCH, "a parallel block without a norm before it (set attn_pre_norm)");
    return OK;
}

status config_check(const model_config *c, error *e) {
    status s = check_dims(c, e);
    if (s == OK) s = check_enums(c, e);
    if (s == OK) s = check_numbers(c, e);
    if (s == OK) s = check_positions(c, e);
    if (s == OK) s = check_range("window", c->window, 0, INT_MAX / 2, e);
    if (s != OK) return s;
    if (c->norm_bias && c->norm != NORM_LAYER) {
        return error_set(e, ERR_MISMATCH, "norm_bias is set, but an RMS norm has no bias (norm: layer)");
    }
    for (int il = 0; il < c->n_layers; il++) {
        if (c->layer_windowed[il] && c->window == 0) {
            return error_set(e, ERR_MISMATCH, "layer %d is windowed, but window is 0 (give its width)", il);
        }
    }
    return check_parallel(c, e);
}

/* 1 for each norm of d_model elements. */
static uint64_t block_norms(const model_config *c) {
    return (uint64_t)c->attn_pre_norm + c->attn_post_norm + c->attn_residual_norm + c->ffn_pre_norm + c->ffn_post_norm +
           c->ffn_residual_norm;
}

static uint64_t qk_norm_elems(const model_config *c) {
    switch (c->qk_norm) {
    case QK_NORM_HEAD:
        return 2 * (uint64_t)c->head_dim;
    case QK_NORM_WIDTH:
        return (uint64_t)config_q_dim(c) + (uint64_t)config_kv_dim(c);
    case QK_NORM_NONE:
        break;
    }
    return 0;
}

param_counts config_params(const model_config *c) {
    uint64_t nl = (uint64_t)c->n_layers, d = (uint64_t)c->d_model, f = (uint64_t)c->d_ff, v = (uint64_t)c->n_vocab;
    uint64_t q = (uint64_t)config_q_dim(c), kd = (uint64_t)config_kv_dim(c), n_ffn = (uint64_t)config_n_ffn(c);
    param_counts p;
    p.matrices = nl * (2 * d * q + 2 * d * kd + n_ffn * d * f) + v * d;
    p.biases = nl * (c->q_bias * q + c->kv_bias * 2 * kd + c->o_bias * d + c->ffn_bias * ((n_ffn - 1) * f + d));
    p.biases += c->head_bias * v;
    uint64_t normed = (nl * block_norms(c) + c->embedding_norm + c->final_norm) * d + nl * qk_norm_elems(c);
    p.norms = normed * (c->norm_bias ? 2 : 1);
    p.embedding = c->tied ? 0 : v * d;
    p.positions = c->position == POSITION_LEARNED ? (uint64_t)c->n_ctx * d : 0;
    p.total = p.matrices + p.biases + p.norms + p.embedding + p.positions;
    return p;
}
