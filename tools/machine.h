/* machine.h - what this machine can do: read bandwidth by cache level, peaks of arithmetic by instruction set. Measured, not looked up.
 *
 * A probe is a small loop that does one thing (read, multiply and add, int8 dot products, sgemm) on some threads for some milliseconds.
 * All probes run in turn, several rounds; the figure is the median, and a spread of more than 5% makes it uncalibrated: then it holds
 * only as far as its spread says. Results are kept per processor in $XDG_CACHE_HOME/tally (else ~/.cache/tally). */
#ifndef TALLY_MACHINE_H
#define TALLY_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "kernels/status.h"

#define MACHINE_MAX_PROBES 64
#define MACHINE_SPREAD     0.05

typedef struct {
    char kind[8];  /* "read": bytes/s.  "fma", "sgemm": FLOP/s.  "int8": operations/s, 2 a multiply-add */
    char what[12]; /* read: "L1", "L2", "L3", "memory".  fma, int8: "portable", "avx2", "avx512" ...  sgemm: "openblas" */
    int n_threads;
    size_t bytes; /* read: of all threads together */
    double median, low, high;
} machine_probe;

typedef struct {
    char cpu[96];
    int n_threads;     /* processors that this process may use */
    char date[24];     /* of the measurement, ISO 8601, UTC */
    size_t l1, l2, l3; /* bytes of data cache: of a processor, of a processor, shared */
    machine_probe probes[MACHINE_MAX_PROBES];
    size_t n;
    bool cached; /* read from the file, not measured now */
} machine;

/* The figures of this machine: from the cache file if it is of this processor, else measured (some 5 seconds) and kept.
 * A cache that cannot be written is no error. */
status machine_load(machine *out, error *e);
/* The same, only from the file: ERR_IO where it is not there. */
status machine_cached(machine *out, error *e);
/* Measures now. quick: a rough look (two short rounds, a small buffer), for trying things out. progress (or NULL) is called after
 * each round. The result is not kept. */
status machine_measure(machine *out, bool quick, void (*progress)(int round, int n_rounds), error *e);
/* Keeps a result for machine_cached. A folder that cannot be written is no error: it is then measured again next time. */
void machine_keep(const machine *m);

/* (high - low) / median. */
double machine_spread(const machine_probe *p);
bool machine_calibrated(const machine_probe *p);

/* The probe of a kind and name at that number of threads, or at the nearest that was measured; what NULL: the fastest.
 * NULL where there is none of the kind. */
const machine_probe *machine_find(const machine *m, const char *kind, const char *what, int n_threads);

/* The level that n_threads read a working set of so many bytes from: "L1", "L2", "L3" or "memory"; its probe. */
const machine_probe *machine_read_of(const machine *m, double bytes, int n_threads);

json_t *machine_json(const machine *m); /* new reference; NULL: out of memory */
status machine_from_json(machine *m, const json_t *o, error *e);

#endif
