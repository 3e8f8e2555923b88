/* residual.h - the lesson's simple formulas beside what was counted, and every part of the difference by name: never only the net, in which parts
 * cancel (docs/cost-model.md). */
#ifndef TALLY_RESIDUAL_H
#define TALLY_RESIDUAL_H

#include <stdio.h>

#include <jansson.h>

#include "tools/ledger.h"

enum { RESIDUAL_LINES = 16 };

typedef struct {
    const char *words, *formula;
    int64_t n; /* counted minus predicted, this part of it */
} residual_line;

typedef struct {
    const char *key;      /* "flops", "weight_bytes", "cache_bytes" */
    char expression[384]; /* the lesson's formula with numbers put in */
    int64_t lesson, counted;
    residual_line lines[RESIDUAL_LINES]; /* those that are not 0 */
    int n_lines;
    int64_t unexplained; /* counted - lesson - the lines: 0, or this file is wrong */
} residual;

typedef enum { RESIDUAL_FLOPS, RESIDUAL_WEIGHTS, RESIDUAL_CACHE, N_RESIDUALS } residual_kind;

/* Of a phase: FLOPs against 2 N M + 4 nl d S, weights against N b a step, the cache against C 2 nl kd b. */
void residuals_make(residual out[N_RESIDUALS], const ledger_entry *s, const model_config *c, const weight_storage *w,
                    dtype kv_type);
void residuals_print(const residual r[N_RESIDUALS], FILE *out);
json_t *residuals_json(const residual r[N_RESIDUALS]); /* new reference */

#endif
