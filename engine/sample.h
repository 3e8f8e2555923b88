/* sample.h - from logits to the next token.
 *
 * Greedy unless a temperature is given, so that a run can be repeated; with one, the seed repeats it byte for byte. In this order: the repeat
 * penalty, the k largest, softmax of logits / temperature, min-p, top-p of what is left, and a draw from what is left then. Each sequence has a
 * generator of its own (PCG32, O'Neill 2014), so that what it draws does not depend on who else is in the batch. */
#ifndef TALLY_SAMPLE_H
#define TALLY_SAMPLE_H

#include <stdint.h>

#include "kernels/status.h"

typedef struct {
    float temperature; /* 0: the largest logit; ties go to the smallest id */
    int top_k;         /* keep the k largest; 0, or more than the vocabulary: all */
    float top_p;       /* keep the fewest of the most probable that reach p together; 1: all */
    float min_p;       /* keep those at least this share of the most probable; 0: all */
    float
        repeat_penalty; /* logits of tokens already seen are divided by it (multiplied where negative): Keskar et al. 2019; 1: none */
    int repeat_last_n; /* how far back "already" reaches; -1: everything */
} sampling;

void sampling_init(sampling *s);
/* Temperature not negative and finite, and so on; the error names the option. */
status sampling_check(const sampling *s, error *e);

typedef struct {
    uint64_t state, increment;
} sample_rng;

/* stream: the number of the sequence, so that samples of one prompt differ. */
void sample_rng_init(sample_rng *r, uint64_t seed, uint64_t stream);

/* Room for one draw: order[n_vocab], p[n_vocab]. */
typedef struct {
    int n_vocab, n_allowed; /* ids from n_allowed on are padding of the table and are never drawn */
    int *order;
    float *p;
} sample_scratch;
status sample_scratch_create(sample_scratch *s, int n_vocab, int n_allowed, error *e);
void sample_scratch_free(sample_scratch *s);

/* The id of the largest logit; of equal ones the smallest. */
int sample_greedy(const float *logits, int n_vocab);

/* The next token. logits: [n_vocab], changed by the repeat penalty. seen: the sequence so far, [n_seen]. Logits are finite. */
int sample_token(float *logits, const sampling *s, const int *seen, int n_seen, sample_rng *r, sample_scratch *scratch);

#endif
