/* counting_cases.h - models and configurations for the tests of the counts: random shapes, mixed and unusual storage. */
#ifndef TALLY_TESTS_COUNTING_CASES_H
#define TALLY_TESTS_COUNTING_CASES_H

#include "engine/engine.h"

/* A random shape: every dimension differs from every other, and every switch of the configuration is drawn. */
model_config counting_random_config(uint64_t *state);

/* How a model's matrices are stored. */
typedef enum { STORED_F32, STORED_F16, STORED_Q8_0, STORED_I8G, STORED_MIXED, N_STORED } counting_storage;

typedef struct {
    model *m;
    model *others[2]; /* whose matrices m borrows, in mixed storage */
    void **owned;     /* matrices that were made here */
    int n_owned;
} counting_model;

/* A random model. rows: matrices lie as rows, as in a mapped file, and are packed on the fly. Ends the program on failure. */
counting_model counting_model_make(const model_config *c, counting_storage stored, bool rows, uint64_t seed);
void counting_model_free(counting_model *m);

/* What rounding may move a logit by, in parts of the largest. The reference works in double, the engine in float: where a number is
 * rounded to int8 or fp16, the two may round it to neighbours. */
double counting_tolerance(counting_storage stored, const engine_options *o);

#endif
