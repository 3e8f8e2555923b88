/* cost_share.h - a step's cost divided among its sequences, so that every request has a bill and the bills add up.
 *
 *   own     FLOPs of a sequence's rows and of the keys they see; its K and V written and read, its page table entries, its logits:
 *           what the same rows would cost in a step of their own (a chunk of a prompt as it was cut)
 *   shared  a prefix that a group of sequences reads once (plan.h): in equal parts, the odd tokens to the first
 *   step    what the step does once however many rows it has (weights, biases, gains, weights turned into fp32), and the embedding
 *           rows: by rows, the odd bytes to the first
 *
 * Term by term the parts add up to the step's counts exactly. Like the rest of the prediction this knows the configuration and the plan
 * only; FLOPs are linear in the four sums of cost_rows, so their rates are worked out once. */
#ifndef TALLY_COST_SHARE_H
#define TALLY_COST_SHARE_H

#include "engine/cost_parts.h"

typedef struct {
    const model_config *config; /* borrowed */
    cost_dims dims;
    struct {
        uint64_t row[N_TERMS], logit_row[N_TERMS], pair[N_TERMS], merge[N_TERMS];
    } rates[2]; /* FLOPs; [1]: of a step through BLAS */
} cost_shares;

/* p: a plan of the engine's; what its steps have in common is looked at. */
void cost_shares_init(cost_shares *s, const model_config *c, const execution_plan *p);

/* parts: [p->n_sequences]. counted: of the step. */
void cost_divide(term_counts *parts, const cost_shares *s, const execution_plan *p, const term_counts *counted);

/* What a sequence of the plan owes for itself: the first of the three. */
void cost_own(term_counts *out, const cost_shares *s, const execution_plan *p, int b);

/* Bytes of K and V that the groups of a plan did not have to read again. */
uint64_t cost_bytes_spared(const cost_shares *s, const execution_plan *p);

#endif
