/* model.h - a model in memory: the configuration and the tensors that the engine reads.
 *
 * Loaded once, read-only afterwards. Tensors lie in one arena owned by the model, or in the mapped file (matrix.packed false). */
#ifndef TALLY_MODEL_H
#define TALLY_MODEL_H

#include <jansson.h>

#include "kernels/matrix.h"
#include "kernels/status.h"
#include "weights/checkpoint.h"
#include "weights/config.h"

/* gain NULL: the norm is absent and the step is skipped. bias NULL: none. */
typedef struct {
    const float *gain, *bias; /* [n] */
    int n;
} norm_weights;

typedef struct {
    norm_weights attn_pre, attn_post, attn_residual; /* [d_model]; see config.h for where each stands */
    norm_weights ffn_pre, ffn_post, ffn_residual;
    norm_weights q_norm, k_norm; /* [head_dim], or [q_dim] and [kv_dim] */
    matrix wq, wk, wv, wo;       /* [q_dim, d_model], [kv_dim, d_model] twice, [d_model, q_dim]; biases inside */
    matrix w_gate, w_up, w_down; /* [d_ff, d_model] twice (gate: gated only, else data NULL), [d_model, d_ff] */
} layer_weights;

typedef struct model {
    model_config config;
    matrix embedding; /* [n_vocab, d_model]; packed when tied (it is the head's panels), else rows */
    matrix positions; /* learned: rows [n_ctx, d_model], fp32 or fp16; else data NULL */
    matrix head;      /* [n_vocab, d_model]; tied: the embedding's data */
    norm_weights embedding_norm, final_norm;
    layer_weights *layers;  /* [n_layers] */
    float *rope_freq;       /* [rope_dim/2] radians a position, scaling applied; NULL without rope */
    float *rope_local_freq; /* the same for windowed layers where they differ, else NULL */
    float rope_magnitude;   /* multiplies cos and sin: 1 but for yarn and longrope */

    size_t weight_bytes; /* of all matrices as stored, scales included: what a full pass could read */
    size_t vector_bytes; /* biases, gains, rope tables */
    size_t mapped_bytes; /* part of weight_bytes that lies in the mapped file */

    /* What tools need; the engine does not look. */
    int bos_id, pad_id; /* -1: none */
    int eos_ids[16], n_eos;
    json_t *vocabulary;  /* the layout's own characters (array of strings by id), or NULL */
    json_t *assumptions; /* array of strings: what was assumed because the file does not say. Never NULL */
    char *sample_prompt; /* of the layout, or NULL */
    char layout[48];     /* the layout that was used */
    void *memory;        /* private to model.c */
} model;

typedef struct {
    int weights; /* a dtype (F32, F16, Q8_0), or -1: as the file has it (bf16: f16 where every value fits, else refused) */
    int mmap;    /* 1 on, 0 off, -1 auto */
    const char *layout_file;                                 /* --layout, or NULL */
    const char *config_file;                                 /* --config, or NULL */
    int n_heads;                                             /* --heads, or 0: what the file says */
    int n_threads;                                           /* for converting and packing; 0: all */
    void (*progress)(void *user, size_t done, size_t total); /* or NULL */
    void *user;
} model_options;

void model_options_init(model_options *o);

/* Opens a checkpoint and makes the model of it. *out is NULL on failure. `source`, if not NULL, gets the opened checkpoint (the
 * caller closes it; the model may go on using its mapping, so close it after model_free); else it is kept and closed by the model. */
status model_load(model **out, const char *path, const model_options *o, checkpoint **source, error *e);

/* The configuration of a checkpoint alone, and the type that its layers' first matrix has in the file: every tensor is found and its
 * shape checked, none is read. */
status model_config_load(model_config *out, dtype *weights, const char *path, const model_options *o, error *e);

/* What model_load would make of an open checkpoint, without reading its weights. */
typedef struct {
    model_config config;
    char layout[48];
    dtype weights;       /* the type of the layers' first matrix in the file */
    json_t *recognised;  /* the layout itself, merged and in full (docs/layouts.md) */
    json_t *assumptions; /* array of strings */
} model_description;

status model_describe(model_description *out, checkpoint *c, const model_options *o, error *e);
void model_description_free(model_description *d);

/* A model with seeded random weights (normal, sd 0.02 scaled so that activations stay near 1; gains near 1, small biases), every tensor the
 * configuration asks for; the same seed gives the same values whatever the storage type (before rounding), threads or machine. */
status model_random(model **out, const model_config *c, uint64_t seed, const model_options *o, error *e);

void model_free(model *m);

#endif
