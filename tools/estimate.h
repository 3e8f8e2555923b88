/* estimate.h - the work of a step and its time, for a question: cost_predict and the conventions for a shape, the lesson's
 * formulas for bare numbers. `cost`, `lesson` and the sweeps all get their numbers here. */
#ifndef TALLY_ESTIMATE_H
#define TALLY_ESTIMATE_H

#include "engine/cost.h"
#include "kernels/terms.h"
#include "tools/question.h"

/* Bytes are split by who causes them: `weights` are read once a pass, whoever takes part in it; the rest grows with the rows. */
typedef struct {
    uint64_t matmul, attention, other; /* FLOPs; the time goes by the first two, as in the lesson */
    uint64_t weights;                  /* bytes: matrices, biases, gains */
    uint64_t rest;                     /* bytes: embedding and position rows, K and V, page tables, logits */
    uint64_t one_hot;                  /* part of matmul: the embedding as a product */
    term_counts terms;                 /* a shape: every term, under the conventions; else zero */
} work;

/* One decode step of `batch` users whose caches hold q->context tokens. Fails only for want of memory. */
status estimate_decode(work *w, const question *q, uint64_t batch, error *e);
/* A prefill of q->prompt tokens in an empty cache, chunk by chunk. */
status estimate_prefill(work *w, const question *q, error *e);

/* max(FLOPs / flops, bytes / bandwidth); a figure that is not known is left out; 0 where neither is. */
double estimate_seconds(const question *q, const work *w);

/* Bytes of all weights in memory, scales and vectors included: as the question has them; of a shape in a storage type. */
uint64_t estimate_resident(const question *q);
uint64_t estimate_stored(const model_config *c, int storage);

/* Users at which a step takes as long for arithmetic as for reading; INFINITY where it never does. Without caches: only the
 * weights are read, only they are multiplied. With caches: each user brings K and V to read (and attention, where it counts). */
double estimate_crossover(const question *q, const work *one_user);
double estimate_crossover_with_caches(const question *q, const work *one_user);

/* Tokens that fit beside the weights; users of q->context tokens each. Whole pages where q->page_size is given. */
typedef struct {
    uint64_t left;          /* bytes for the cache */
    uint64_t pages, tokens; /* pages 0 where they were not asked about */
    uint64_t users;         /* 0 where the context is 0 */
    bool fits;              /* the weights themselves fit */
} capacity;
capacity estimate_capacity(const question *q, uint64_t resident);

/* Bytes of a cache of n tokens, in whole pages where q->page_size is given. */
uint64_t estimate_cache(const question *q, uint64_t n_tokens);

/* Most memory that this program takes for q->batch users of q->context tokens, on one thread: weights, vectors, pages, what is kept about
 * pages, activations, scratch. A shape in one of the storage types only. */
typedef struct {
    uint64_t weights, pool, tables, activations; /* activations with the worker's scratch */
    uint64_t total;
} peak_memory;
status estimate_peak(peak_memory *out, const question *q, error *e);

#endif
