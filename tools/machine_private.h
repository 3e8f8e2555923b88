/* machine_private.h - between machine.c (what is known, where it is kept) and machine_measure.c. */
#ifndef TALLY_MACHINE_PRIVATE_H
#define TALLY_MACHINE_PRIVATE_H

#include "tools/machine.h"

/* Fills m->probes; cpu, n_threads and cache sizes are known. */
status machine_probe_all(machine *m, bool quick, void (*progress)(int round, int n_rounds), error *e);

#endif
