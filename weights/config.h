/* config.h - the model configuration: everything about a decoder-only transformer except its numbers.
 *
 * One block covers every family by data (a norm here or there, a window, a soft cap), so there is one forward pass and one
 * cost prediction, and no branch on a family's name. Where a field says "absent", the step it describes is not done. */
#ifndef TALLY_CONFIG_H
#define TALLY_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

#include "kernels/dtype.h"
#include "kernels/status.h"

#define CONFIG_MAX_LAYERS 1024

typedef enum { NORM_RMS, NORM_LAYER } norm_kind; /* x / rms(x) * gain;   (x - mean) / std * gain + bias */
typedef enum { POSITION_NONE, POSITION_LEARNED, POSITION_ROPE, POSITION_ALIBI } position_kind;
typedef enum {
    ROPE_HALVES,
    ROPE_PAIRS
} rope_style; /* element i turns with i + rope_dim/2 (Hugging Face), or 2i with 2i+1 (Meta, GGUF) */
typedef enum {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,
    ROPE_SCALING_LLAMA3,
    ROPE_SCALING_YARN,
    ROPE_SCALING_FACTORS
} rope_scaling;
typedef enum {
    ACTIVATION_RELU,
    ACTIVATION_SILU,
    ACTIVATION_GELU_ERF,
    ACTIVATION_GELU_TANH,
    ACTIVATION_RELU2,
    ACTIVATION_GELU_QUICK
} activation_kind;
/* Norms of q and k, before positions: none; per head, gain [head_dim] shared by the heads; over the whole width [q_dim], [kv_dim]. */
typedef enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_WIDTH } qk_norm_kind;

typedef struct {
    char family[32]; /* for people only; nothing depends on it */

    int n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, n_vocab;
    int n_ctx; /* most positions: of the learned table, or what the model was made for */

    /* Norms. Around each half of the block (attention, feed-forward) a norm may stand before the branch (pre), on the branch's
     * output before it is added (post), or on the residual stream after the addition (residual: the original transformer). */
    norm_kind norm;
    float norm_eps;
    bool norm_bias; /* NORM_LAYER with a bias vector */
    bool attn_pre_norm, attn_post_norm, attn_residual_norm;
    bool ffn_pre_norm, ffn_post_norm, ffn_residual_norm;
    bool embedding_norm, final_norm;
    qk_norm_kind qk_norm;

    /* Parallel: attention and feed-forward both read the block's input x. With ffn_pre_norm absent they share attn_pre_norm's output. */
    bool parallel_residual;

    position_kind position;
    rope_style rope;
    int rope_dim;     /* rotated elements of each head, even, <= head_dim */
    double rope_base; /* theta */
    /* theta of windowed layers; 0: as rope_base (scaling is then for all layers, else not for these) */
    double rope_local_base;
    rope_scaling rope_scaling;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor; /* llama3; linear: factor only */
    double rope_beta_fast, rope_beta_slow, rope_attn_factor;         /* yarn; attn_factor multiplies cos and sin (0: 1) */
    int rope_original_ctx;
    float rope_factors[256]; /* ROPE_SCALING_FACTORS: each inverse frequency is divided by its own, [rope_dim/2] */

    float attn_scale;   /* multiplies q.k; usually 1/sqrt(head_dim) */
    float attn_softcap; /* s = cap * tanh(s / cap); 0: absent */
    int window;         /* a windowed layer's query at p sees keys p-window+1 ... p; 0: no layer is windowed */
    unsigned char layer_windowed[CONFIG_MAX_LAYERS]; /* 1 where a layer is windowed */

    activation_kind activation;
    bool gated; /* down(act(gate x) * up x) in place of down(act(up x)) */

    bool q_bias, kv_bias, o_bias, ffn_bias, head_bias;
    bool tied; /* the head is the embedding table */

    /* Multipliers; 1: absent. residual_scale multiplies each branch's output. */
    float embedding_scale, residual_scale, logit_scale;
    float final_softcap; /* of the logits; 0: absent */
} model_config;

static inline int config_q_dim(const model_config *c) {
    return c->n_heads * c->head_dim;
}
static inline int config_kv_dim(const model_config *c) {
    return c->n_kv_heads * c->head_dim;
}
/* Matrices of a feed-forward. */
static inline int config_n_ffn(const model_config *c) {
    return c->gated ? 3 : 2;
}

/* A plain configuration to start from: pre-norm RMSNorm, final norm, RoPE over the whole head, SiLU, gated, untied; dims 0. */
void config_init(model_config *c);

/* Every dimension positive and consistent (heads divide, products fit, rope_dim even, n_layers <= CONFIG_MAX_LAYERS ...), or an error
 * that names the field. Nothing may use a configuration before this has passed. */
status config_check(const model_config *c, error *e);

/* Parameters by kind (cost-model.md, "Symbols"): exact for every configuration that passes config_check. */
typedef struct {
    uint64_t matrices;  /* N_mm: used in matrix products, the head included, tied or not */
    uint64_t biases;    /* N_bias */
    uint64_t norms;     /* N_norm */
    uint64_t embedding; /* N_emb: the table where it is not the head too */
    uint64_t positions; /* N_pos */
    uint64_t total;     /* N */
} param_counts;
param_counts config_params(const model_config *c);

/* A shape as a JSON text (--shape FILE.json; presets): keys are this struct's field names, enums by name in lower case without
 * their prefix ("rms", "rope", "pairs", "gelu_tanh"); "window_layers": list of layer indices or "all" | "even" | "odd"; absent keys
 * keep config_init's value, except that n_kv_heads = n_heads, head_dim = d_model/n_heads, rope_dim = head_dim, attn_scale =
 * 1/sqrt(head_dim) where not given; keys starting with '_' and "name", "source" are comments; any other key is an error. */
status config_from_json(model_config *c, const char *text, error *e);
/* The same from an object in memory (a layout's findings). */
status config_from_object(model_config *c, json_t *fields, error *e);
/* The way back: every field that differs from config_init's, and the dimensions; config_from_object gives the same configuration. NULL: no
 * memory. */
json_t *config_to_object(const model_config *c);
/* Is it one of these keys (comments apart)? */
bool config_has_field(const char *key);

#endif
