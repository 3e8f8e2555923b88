/* plan.h - the execution plan: what was decided before a step ran.
 *
 * With the model configuration this is all that the prediction (cost.h) is told. The engine makes it, runs it, and hands it out
 * with the counts, so that the two can be laid side by side. */
#ifndef TALLY_PLAN_H
#define TALLY_PLAN_H

#include <stdbool.h>

#include "kernels/dtype.h"

/* The matrices of a layer, in the order in which a step reads them. gate is unused in a plain feed-forward. */
typedef enum { MATRIX_Q, MATRIX_K, MATRIX_V, MATRIX_O, MATRIX_GATE, MATRIX_UP, MATRIX_DOWN, N_LAYER_MATRICES } layer_matrix;

typedef struct {
    dtype type;
    int group; /* DTYPE_I8G: elements a scale */
} matrix_storage;

/* How every tensor is stored. Biases and norm gains are fp32 always. */
typedef struct {
    matrix_storage embedding, positions, head;  /* tied: head is what the embedding table is */
    matrix_storage (*layers)[N_LAYER_MATRICES]; /* [n_layers]; owned by whoever made the struct */
} weight_storage;

/* One sequence's part in a step. */
typedef struct {
    int n_cached;     /* tokens in the cache before the step (C_b) */
    int n_new;        /* rows of this step (T_b) */
    int n_logit_rows; /* 0; 1: the last row; or n_new */
    /* Decode rows that share a prefix: sequences with the same group >= 0 read the K and V of their first n_shared tokens once for
     * all of them. n_shared is the same throughout a group, at most n_cached of each; a group's sequences stand next to each other.
     * -1: none. */
    int group, n_shared;
} plan_sequence;

typedef struct {
    const weight_storage *weights;
    dtype kv_type;  /* DTYPE_F32, DTYPE_F16, or DTYPE_Q8_0 standing for int8 with an fp16 scale per token and head */
    int page_size;  /* tokens a page */
    int query_tile; /* rows of a sequence that share one reading of the cache */
    int key_split; /* keys are taken in ranges [i*key_split, (i+1)*key_split), each with a softmax of its own, merged in order */
    bool int8_activations; /* Q8_0 weights meet activations quantised per block of 32; else fp32 activations */
    bool blas;             /* this step's matrix products go through sgemm on dequantised weights: fp32 activations */
    int n_sequences;
    const plan_sequence *sequences; /* [n_sequences], borrowed */
} execution_plan;

/* What the engine puts there: known without one, so that a step can be predicted before there is a model. */

/* Keys are taken in ranges of this many: long enough that merging costs nothing, short enough that a few ranges keep a few cores busy. */
enum { PLAN_KEY_SPLIT = 256 };
/* Query rows (tokens x query heads of a group) that share one reading of K and V: their scores over a range stay in L2. */
enum { PLAN_TILE_QUERIES = 128, PLAN_TILE_TOKENS = 32 };
static inline int plan_query_tile(int n_heads, int n_kv_heads) {
    int tile = PLAN_TILE_QUERIES / (n_heads / n_kv_heads);
    return tile < 1 ? 1 : tile > PLAN_TILE_TOKENS ? PLAN_TILE_TOKENS : tile;
}

#endif
