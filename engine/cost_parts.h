/* cost_parts.h - the parts of the prediction, private to engine/cost*.c: symbols of docs/cost-model.md as 64-bit numbers. */
#ifndef TALLY_COST_PARTS_H
#define TALLY_COST_PARTS_H

#include <stdint.h>

#include "engine/cost.h"

/* Dimensions. */
typedef struct {
    uint64_t nl, d, f, v; /* layers, d_model, d_ff, n_vocab */
    uint64_t nh, nkv, hd; /* query heads, K/V heads, head_dim */
    uint64_t q, kd;       /* nh * hd, nkv * hd */
    uint64_t phi;         /* matrices of a feed-forward: 2 or 3 */
    uint64_t window;      /* keys that a windowed layer's query sees; 0: no layer is windowed */
    uint64_t n_windowed;  /* windowed layers */
    uint64_t block_norms; /* norms of d elements in a block */
} cost_dims;
cost_dims cost_dims_of(const model_config *c);

/* What a step's rows add up to. */
typedef struct {
    uint64_t rows;       /* M */
    uint64_t logit_rows; /* R */
    uint64_t pairs;      /* S, over all layers */
    uint64_t merges;     /* range merges of one head, over all rows and layers */
} cost_rows;

/* cost.c. n: [N_TERMS]. The sums of one sequence, and the FLOPs of sums. */
cost_rows cost_rows_of(const cost_dims *s, const execution_plan *p, int b);
void cost_flop_terms(uint64_t *n, const model_config *c, const cost_dims *s, const cost_rows *r, const execution_plan *p);
/* cost_bytes.c. n: [N_TERMS] */
void cost_weight_terms(uint64_t *n, const model_config *c, const cost_dims *s, const cost_rows *r, const weight_storage *w);
void cost_kv_terms(uint64_t *n, const cost_dims *s, const execution_plan *p);
/* One sequence; of the prefix that its group shares it reads n_shared_read tokens. */
void cost_kv_sequence(uint64_t *n, const cost_dims *s, const execution_plan *p, int b, uint64_t n_shared_read);
/* K and V of a token in the layers where prefixes are shared. */
uint64_t cost_shared_token_bytes(const cost_dims *s, dtype kv_type);
/* cost_quantise.c */
uint64_t cost_quantise_flops(const model_config *c, const cost_dims *s, const cost_rows *r, const execution_plan *p);

#endif
