/* ledger.h - every step of a run, predicted and counted and measured, and the tables made of them. */
#ifndef TALLY_LEDGER_H
#define TALLY_LEDGER_H

#include <stdio.h>

#include <jansson.h>

#include "engine/cost.h"
#include "engine/engine.h"

typedef enum { PHASE_PREFILL, PHASE_DECODE, N_PHASES } phase;

/* A step, or the sum of several. */
typedef struct {
    phase phase;
    int n_steps;
    uint64_t n_rows, n_logit_rows, n_sequences; /* summed over steps */
    uint64_t n_cached;                          /* tokens in the cache before the step, over sequences */
    int n_workers_least, n_workers_most;        /* of a step */
    uint64_t n_visible;                         /* keys that the last row of the last sequence sees: L */
    term_counts predicted, counted;
    double seconds, op_seconds[N_OPS];
} ledger_entry;

typedef struct {
    const model_config *config;
    ledger_entry *entries; /* [n] one a step */
    size_t n, room;
    phase phase; /* what the steps that come are: set by the command before it runs them */
    bool failed; /* out of memory: some steps are missing */
} ledger;

void ledger_init(ledger *l, const model_config *c);
void ledger_free(ledger *l);
/* A step_observer; user is the ledger. */
void ledger_observe(void *user, const step_report *r);

ledger_entry ledger_sum(const ledger *l, phase p);
ledger_entry ledger_since(const ledger *l, size_t first); /* of the steps from number `first` on */
bool ledger_agrees(const ledger *l);                      /* every term of every step */

/* The three columns for a phase: sums by class, term by term (those that are not 0), or every term. */
typedef enum { DETAIL_CLASSES, DETAIL_TERMS, DETAIL_ALL } ledger_detail;
void ledger_print_phase(const ledger_entry *s, ledger_detail detail, FILE *out);
/* One line a step: rows, visible keys, FLOPs and bytes by class, whether all terms agree. */
void ledger_print_steps(const ledger *l, FILE *out);
/* {"steps": [...], "prefill": {...}, "decode": {...}, "agrees": bool}; new reference. */
json_t *ledger_json(const ledger *l);

#endif
