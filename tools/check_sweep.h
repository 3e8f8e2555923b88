/* check_sweep.h - tally check --sweep: decode measured over batch sizes or contexts, beside what the roofs predict, and where the two regimes
 * meet: up to there a step waits for weights, from there on it waits for arithmetic. */
#ifndef TALLY_CHECK_SWEEP_H
#define TALLY_CHECK_SWEEP_H

#include "tools/machine.h"
#include "tools/session.h"

typedef struct {
    const char *text;            /* "batch=1:64" or "context=0:512" */
    int n_steps, batch, context; /* decode steps a point; what stays as it is while the other varies */
    const char *plot;            /* FILE.svg or FILE.png, or NULL */
    bool json, csv;
} check_sweep;

/* Opens s's engine anew for each point. *agrees: counted = predicted in every step. */
status check_sweep_run(session *s, const session_options *so, const check_sweep *c, const machine *m, bool *agrees, error *e);

#endif
