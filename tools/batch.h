/* batch.h - what the parts of `tally batch` share: cmd_batch.c runs, batch_lines.c and batch_summary.c write. */
#ifndef TALLY_BATCH_H
#define TALLY_BATCH_H

#include "engine/scheduler.h"
#include "tools/ordered.h"
#include "tools/prompts.h"
#include "tools/session.h"

/* What the steps were predicted to take, beside what the scheduler counted. */
typedef struct {
    const model_config *config;
    term_counts predicted;
    long long n_steps, n_mismatches; /* terms that differ, over all steps */
    char first_mismatch[256];
} step_audit;
/* A step_observer; user is a step_audit. */
void audit_observe(void *user, const step_report *r);

/* Sums by class, under the keys of --json. */
json_t *batch_classes_json(const term_counts *t);

/* One line of output: the completion of a sample of a prompt. malloc made it; NULL: out of memory. */
char *batch_line(const session *s, const prompt_list *p, size_t number, const completion *c);
/* The same for a prompt that was not run. */
char *batch_line_refused(const prompt_list *p, size_t number, int sample, const char *why);

/* Which line of the output is this? A line_number of ordered.h; user is the prompt_list. ERR_MISMATCH where it belongs to other prompts. */
status batch_line_number(void *user, const char *text, size_t n_bytes, size_t *number, error *e);

/* The most memory that the run takes, by what it is made of. */
typedef struct {
    size_t weights; /* with biases, gains, rotations; without what lies in a mapped file */
    size_t pool;    /* pages that were ever used: a page costs memory when it is first written */
    size_t tables;  /* of pages and sequences, the prefix cache, logits, prompts */
    size_t activations;
    size_t total;
} batch_memory;
batch_memory batch_memory_use(const session *s, const scheduler *k, const prompt_list *p);

/* What all of it came to. */
typedef struct {
    const session *session;
    const scheduler_stats *stats;
    const step_audit *audit;
    batch_memory memory;
    size_t n_prompts, n_lines, n_made, n_resumed, n_refused;
    long long n_finished[N_FINISH];
    double seconds; /* from the first step to the last */
} batch_summary;
void summary_print(const batch_summary *s, FILE *out);
void summary_json(const batch_summary *s, FILE *out);

#endif
