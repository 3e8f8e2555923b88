/* reference.h - a forward pass written from the papers, in double precision, over the weights of a model.
 *
 * It shares nothing with the engine but the model: every row at once and no cache, K and V repeated for every query head, angles
 * computed here. Slow and plain on purpose.
 *
 * Vaswani et al. 2017 (attention, post-norm), Zhang and Sennrich 2019 (RMSNorm), Su et al. 2021 (rotary), Press et al. 2021 (ALiBi),
 * Shazeer 2020 (gated feed-forward), Ainslie et al. 2023 (grouped queries), Beltagy et al. 2020 (windows), Peng et al. 2023 (YaRN). */
#ifndef TALLY_TESTS_REFERENCE_H
#define TALLY_TESTS_REFERENCE_H

#include "weights/model.h"

/* Logits of all n rows, [n][n_vocab]; the caller frees them. Exits the test on failure. */
double *reference_logits(const model *m, const int *ids, int n);

/* The same with what a storage rounds away, by the formulas of docs/quantisation.md: K and V as a cache of that type gives them back, and the
 * input of int8 weights in blocks of 32. */
typedef struct {
    dtype kv_type; /* DTYPE_F32: as they are */
    bool int8_activations;
} reference_storage;
double *reference_logits_stored(const model *m, const int *ids, int n, reference_storage how);

#endif
