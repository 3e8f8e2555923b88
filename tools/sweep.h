/* sweep.h - one variable of a question over many values: what if the batch grew, the context, the number of K/V heads?
 *
 *   batch=1:256          1, 2, 4 ... 256 (doubling; from 0: 0, then up to 8 doublings that end at the last value)
 *   context=0:4000:500   0, 500 ... 4000
 *   kv-heads=1,2,4,8     these */
#ifndef TALLY_SWEEP_H
#define TALLY_SWEEP_H

#include <stdio.h>

#include <jansson.h>

#include "tools/estimate.h"

#define SWEEP_MAX_POINTS 1024

typedef struct {
    double value;
    uint64_t kv_bytes_per_token, weight_bytes, cache_bytes; /* in memory; the caches of all users */
    uint64_t step_flops, step_bytes;                        /* matrix products and attention; everything read and written */
    double seconds, user_rate, rate;                        /* of a step; 0 where the machine is not known */
    double read_rate, compute_rate;                         /* all users' tokens/s if only reading, only arithmetic took time */
} sweep_point;

typedef struct {
    char variable[32];
    size_t n;
    double crossover; /* of the question as given, with caches; INFINITY: never; 0: not known */
    sweep_point points[SWEEP_MAX_POINTS];
} sweep;

/* "VARIABLE=VALUES" as above: the variable's name and the points' values; any name of a variable goes. */
status sweep_values(sweep *s, const char *text, error *e);

/* q as given, not resolved: each point is a question of its own. */
status sweep_run(sweep *s, const question *q, const char *text, error *e);

void sweep_print(const sweep *s, byte_units units, FILE *out);
void sweep_csv(const sweep *s, FILE *out);
/* {"sweep", "crossover", "points": [{VARIABLE: value, ...}]}; new reference, NULL when memory ran out. */
json_t *sweep_json(const sweep *s);
status sweep_plot(const sweep *s, const char *name, const char *path, error *e);

#endif
