/* cost_shapes.h - shapes and plans that several tests of the prediction use. */
#ifndef TALLY_TESTS_COST_SHAPES_H
#define TALLY_TESTS_COST_SHAPES_H

#include "engine/cost.h"

/* The lesson's level-21 model: d 64, 4 heads, 2 layers, d_ff 256, 15 characters, 11 learned positions, biases, ReLU. */
model_config shape_level21(void);

/* Every tensor in one type, positions apart (they are not quantised); layers is owned by the caller of shape_storage_free. */
weight_storage shape_storage(const model_config *c, dtype type, dtype positions);
void shape_storage_free(weight_storage *w);

/* A step of one sequence: fp16 cache, pages of 16, tiles of 64 rows, ranges of 256 keys, fp32 activations. */
execution_plan shape_plan(const weight_storage *w, const plan_sequence *sequences, int n_sequences);

#endif
