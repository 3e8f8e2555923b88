/* cost.h - what a step will cost, predicted from the model configuration and the execution plan alone.
 *
 * Closed forms only; derivations in docs/cost-model.md. Never included by, and never including, a kernel. */
#ifndef TALLY_COST_H
#define TALLY_COST_H

#include "engine/plan.h"
#include "kernels/terms.h"
#include "weights/config.h"

/* Every term of one step. Exact integers. */
void cost_predict(term_counts *out, const model_config *c, const execution_plan *p);

/* kappa: bytes that one token takes in the cache, all layers, K and V, scales included. */
uint64_t cost_kv_bytes_per_token(const model_config *c, dtype kv_type);

/* Bytes of n_rows x n_cols weights in a storage type, scales included. */
uint64_t cost_matrix_bytes(uint64_t n_rows, uint64_t n_cols, matrix_storage s);

#endif
