/* bench_case.h - one measurement of tally bench: a prefill length, or a decode batch at a context.
 *
 * Each repeat is: the read probe, the peak probe, then the work; so that all three meet the machine in the same state. The figures are
 * medians over the repeats (of which the engine's later trials of other numbers of workers are a part); bytes and FLOPs are those that the step's counters gave. */
#ifndef TALLY_BENCH_CASE_H
#define TALLY_BENCH_CASE_H

#include "tools/session.h"

typedef struct {
    bool prefill;
    int n;       /* prefill: tokens of the prompt; decode: sequences */
    int context; /* decode: tokens already in each cache. Their numbers are a constant: neither speed nor counts depend on them */
} bench_work;

typedef struct {
    double low, median, high;
} bench_spread;

typedef struct {
    bench_work work;
    const char *storage, *isa; /* of the query matrix; the kernels in use */
    int n_threads;             /* workers of a step: found before anything was measured, where no -t was given */
    int n_repeats;
    bench_spread tokens;               /* a second, of all sequences together */
    double seconds;                    /* median: a whole prefill, or one decode step */
    double bytes, flops;               /* counted, of that: weights, cache and logits; matrix products and attention */
    bench_spread read, peak;           /* probes: bytes/s from where the step's bytes lie; operations/s */
    const char *peak_kind, *peak_what; /* "fma" or "int8", and the instruction set */
} bench_result;

/* Runs a case on an engine of its own, which stays open in s->engine. *fits false: the context is too long for the model, or the cache
 * larger than max_cache bytes; nothing was run. */
status bench_case_run(bench_result *out, bool *fits, session *s, const session_options *o, bench_work work, double seconds,
                      uint64_t max_cache, error *e);

#endif
