/* probe.h - the loops that machine.c times. Each runs a piece of work of some tens of microseconds and says how much it was. */
#ifndef TALLY_PROBE_H
#define TALLY_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/blas.h"

/* What one thread works on. */
typedef struct {
    const unsigned char *data; /* read: [bytes], 64-byte aligned */
    size_t bytes, at;          /* at: where the next piece begins */
    const blas *blas;          /* sgemm */
    float *a, *b, *c;          /* sgemm: three [PROBE_SGEMM, PROBE_SGEMM] */
} probe_state;
enum { PROBE_SGEMM = 256 };
/* Raised when a probe changes what it does: figures that were kept from an older one are measured again. */
enum { PROBE_VERSION = 2 };

/* Returns bytes read, or operations done. */
typedef uint64_t (*probe_work)(probe_state *s);

typedef struct {
    const char *kind, *what; /* as in machine.h */
    probe_work work;
} probe_loop;

/* The arithmetic loops that this processor can run: at most PROBE_MAX_LOOPS; returns how many. */
enum { PROBE_MAX_LOOPS = 8 };
size_t probe_loops(probe_loop *out);
/* Reading, in the widest registers there are. */
probe_work probe_read(void);
uint64_t probe_sgemm(probe_state *s);

#endif
