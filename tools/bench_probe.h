/* bench_probe.h - the machine's limits, in the moment: a few milliseconds of reading or arithmetic on some threads. */
#ifndef TALLY_BENCH_PROBE_H
#define TALLY_BENCH_PROBE_H

#include "engine/crew.h"
#include "kernels/status.h"
#include "tools/probe.h"

typedef struct {
    int n_threads;
    size_t bytes; /* read: of all threads together */
    probe_loop peak;
    crew *crew;
    probe_state *states; /* [n_threads] */
    double *rates;       /* [n_threads] a second, of the last run */
    unsigned char *data;
} bench_probe;

/* bytes: the working set that is read. isa: a kernel set's name; int8: its peak of int8 dot products, where it has one. */
status bench_probe_open(bench_probe *p, int n_threads, size_t bytes, const char *isa, bool int8, error *e);
void bench_probe_close(bench_probe *p);

/* Bytes or operations a second. */
double bench_probe_read(bench_probe *p);
double bench_probe_peak(bench_probe *p);

#endif
