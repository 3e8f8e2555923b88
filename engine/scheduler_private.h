/* scheduler_private.h - what scheduler.c (who runs) and scheduler_step.c (what a step does) share. */
#ifndef TALLY_SCHEDULER_PRIVATE_H
#define TALLY_SCHEDULER_PRIVATE_H

#include "engine/cost_share.h"
#include "engine/scheduler.h"

struct scheduler {
    engine *engine;
    kv_cache *cache;
    prefix_cache *prefix; /* NULL: off */
    scheduler_options options;
    completion_done done;
    void *user;
    int n_slots;          /* most sequences at once */
    int window;           /* keys that every layer sees at most; 0: some layer sees all */
    uint64_t n_submitted; /* completions so far */
    cost_shares shares;
    bool shares_ready;

    completion *waiting;  /* by age */
    completion **running; /* [n_slots] by age, n_running of them */
    completion **sorted;  /* [n_running] the same, those that share pages side by side */
    int n_running;
    int n_expected;     /* slots kept for followers of running completions */
    kv_sequence **idle; /* [n_slots] sequences that nobody uses, n_idle of them, all empty */
    int n_idle;

    /* One step. */
    completion **order;   /* [n_slots] whose rows come in which order */
    step_sequence *parts; /* [n_slots] */
    term_counts *costs;   /* [n_slots] */
    float *logits;        /* [n_slots, n_vocab] */
    float *row;           /* [n_vocab] a copy for samples of one prompt */
    int *fill;            /* [n_pages] for kv_cache_usage */
    kv_sequence **all;    /* [n_slots] for kv_cache_usage */
    sample_scratch scratch;
    scheduler_stats stats;
};

double scheduler_now(const scheduler *s);

/* Pages that a sequence of n tokens holds at most. */
int scheduler_pages_for(const scheduler *s, long long n_tokens);

/* Takes in what waits, as far as there are slots and pages. */
void scheduler_admit(scheduler *s);

/* Lets c grow by what the prefix cache has of its tokens. */
void scheduler_adopt(scheduler *s, completion *c);

/* Gives a running completion's pages back and lets it wait. */
void scheduler_preempt(scheduler *s, completion *c);

/* With its followers. */
void scheduler_completion_free(completion *c);

/* Makes c a running completion with an idle sequence. */
void scheduler_join(scheduler *s, completion *c);

/* c has ended: it is reported and freed. */
void scheduler_finish(scheduler *s, completion *c, finish_reason why);

#endif
