/* counting_reference.h - a forward pass that counts every operation when it does it, and every byte when it fetches it.
 *
 * It shares no code with the counters (kernels/) nor with the prediction (engine/cost*.c): scalar arithmetic in double, one operation
 * a call (counted.h), loops as the papers and the cost model's document have them, K and V in plain arrays of its own. From the engine it
 * takes the model's numbers as stored and the execution plan. Its logits are right: so the operations that it counted are the model's.
 *
 * Vaswani et al. 2017; Zhang and Sennrich 2019 (RMSNorm); Ba et al. 2016 (LayerNorm); Su et al. 2021 (rotary); Press et al. 2022 (ALiBi);
 * Shazeer 2020 (gated feed-forward); Ainslie et al. 2023 (grouped queries); Beltagy et al. 2020 (windows). */
#ifndef TALLY_TESTS_COUNTING_REFERENCE_H
#define TALLY_TESTS_COUNTING_REFERENCE_H

#include "engine/plan.h"
#include "kernels/terms.h"
#include "weights/model.h"

/* One sequence: what is to come, and K and V of what has been. */
typedef struct {
    int n_tokens, n_ctx;       /* done; room */
    int *ids;                  /* [n_ctx], filled in by the test as far as the next step goes */
    double *k, *v;             /* [n_layers][n_ctx][kv_dim] as stored: rounded to the cache's type; int8: whole numbers */
    double *k_scale, *v_scale; /* [n_layers][n_ctx][n_kv_heads]; 1 but for an int8 cache */
} counting_sequence;

/* n_ctx: the same for all sequences of a step. */
void counting_sequence_init(counting_sequence *s, const model *m, int n_ctx);
void counting_sequence_free(counting_sequence *s);
/* to, initialised, gets the first n tokens of from. */
void counting_sequence_copy(counting_sequence *to, const counting_sequence *from, int n, const model *m);

/* One step as the plan says: every sequence grows by its n_new. counts: [N_TERMS], set. logits: [rows that the plan wants, n_vocab].
 * Ends the test program when the plan cannot be (a shared prefix that is not shared, lengths that are not the sequences'). */
void counting_step(term_counts *counts, double *logits, const model *m, const execution_plan *p,
                   counting_sequence *const *seqs);

#endif
