/* meter.h - the counter of one thread. Posted by accessors for the bytes that they hand out, and by inner loops for the
 * multiply-adds that they ran: never from a formula at a call site. Each thread has its own; they are added up after the step. */
#ifndef TALLY_METER_H
#define TALLY_METER_H

#include "kernels/terms.h"

typedef struct {
    term_counts counts;
} meter;

static inline void meter_post(meter *m, term t, uint64_t n) {
#ifdef TALLY_NO_COUNTERS /* only to measure what counting costs: tools/bench/counters.sh */
    (void)m, (void)t, (void)n;
#else
    m->counts.n[t] += n;
#endif
}

#endif
