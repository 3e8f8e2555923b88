/* counting_runs.h - an engine and the counting reference side by side: every step is predicted, counted, and done a third time. */
#ifndef TALLY_TESTS_COUNTING_RUNS_H
#define TALLY_TESTS_COUNTING_RUNS_H

#include "engine/engine.h"
#include "tests/counting_reference.h"

enum { MOST_SEQUENCES = 8 };

typedef struct {
    const model *m;
    engine *e;
    const char *name; /* of the case, for messages */
    int n;
    kv_sequence *kv[MOST_SEQUENCES];
    counting_sequence seqs[MOST_SEQUENCES];
    counting_sequence *order[MOST_SEQUENCES]; /* whose step it is */

    double *logits; /* what the reference made since the last comparison */
    size_t n_logits, room;
    double tolerance; /* of a logit, in parts of the largest */

    term_counts last;               /* the reference's counts of the last step */
    int n_steps, n_differ;          /* steps; terms of steps that did not agree three ways */
    int n_grouped, n_shared_tokens; /* steps with a shared prefix; its longest */
    uint64_t sums[N_TERMS];         /* of all steps: to see that a term was exercised */
} counting_case;

/* n empty sequences in an engine of these options; the model is borrowed. */
void counting_case_open(counting_case *k, const char *name, const model *m, const engine_options *o, int n);
void counting_case_close(counting_case *k);

/* The next tokens of sequence b are drawn. */
void counting_draw(counting_case *k, int b, int n, uint64_t *state);
/* engine_prefill of n drawn tokens; logit_rows 0, 1 or n. The logits are compared. */
void counting_prefill(counting_case *k, int b, int n, int logit_rows, uint64_t *state);
/* engine_decode of one drawn token for the sequences first ... first + n - 1. */
void counting_decode(counting_case *k, int first, int n, uint64_t *state);
/* One step of any mixture: n_new[b] rows for each sequence, logits for n_logit_rows[b]. */
void counting_mixed(counting_case *k, const int *n_new, const int *n_logit_rows, uint64_t *state);
/* Sequence `to`, which is empty, becomes a second sequence with the same tokens. */
void counting_fork(counting_case *k, int to, int from);

/* The usual course of a case: prompts of lengths around the edges of pages and tiles, some of them forks; three decode steps; a mixed
 * step. The engine's steps take at least 8 rows. */
void counting_exercise(counting_case *k, uint64_t *state);

#endif
