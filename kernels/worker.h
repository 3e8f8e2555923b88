/* worker.h - one thread of a step, and the team that it is part of.
 *
 * A step is one parallel region: every worker runs the whole forward pass, takes its share of each operation, and waits for the
 * others where the next operation needs what they wrote. Shares never change a bit of the result: an output element is always made
 * whole by one worker, in the one order of summation. */
#ifndef TALLY_WORKER_H
#define TALLY_WORKER_H

#include <stdatomic.h>
#include <stddef.h>

#include "kernels/event_count.h"
#include "kernels/meter.h"

struct kernel_set;

typedef struct {
    atomic_int n_arrived;
    event_count all_arrived;
} team;

typedef struct {
    int id, n_workers; /* this worker is number id of n_workers */
    team *team;
    const struct kernel_set *kernels;
    meter meter;
    void *scratch;        /* this worker's own, 64-byte aligned */
    size_t scratch_bytes; /* as linear_scratch_bytes() and attention_scratch_bytes() asked for */
    char pad[64];         /* counters of two workers never share a cache line */
} worker;

/* All workers of the team arrive before any leaves; what was written before is seen after. Spins briefly, then sleeps. */
void worker_barrier(worker *w);

/* This worker's contiguous share [*first, *last) of n items. */
static inline void worker_share(const worker *w, int n, int *first, int *last) {
    *first = (int)((long long)n * w->id / w->n_workers);
    *last = (int)((long long)n * (w->id + 1) / w->n_workers);
}

#endif
