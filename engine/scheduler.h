/* scheduler.h - many requests over one engine and one pool of pages: continuous batching.
 *
 * Requests wait in the order in which they came; sequences join and leave between steps. A step takes
 *   - one row of every sequence that is generating: a long prompt does not stall them;
 *   - for the rest of its rows (engine_options.prefill_chunk), prompts in the order of their age, in chunks.
 * Orca's iteration-level scheduling (Yu et al. 2022) with chunked prefill (Agrawal et al. 2023) over paged memory (Kwon et al. 2023).
 *
 *   submit -> waiting -> running -> done        waiting: by age. running: has a sequence in the cache
 *                ^          |
 *                +----------+                   preempted: pages ran out and it was the youngest; computed again later
 *
 * Who comes first is a matter of age only. The oldest never waits for pages: younger ones give theirs back. A request that waits is never
 * overtaken. What could not fit even alone is refused when it is submitted. So every request ends, in a time that depends on what
 * is older and on itself.
 *
 * What is generated does not depend on any of this: the bits of a row's logits are the same in every batch and every chunk (native
 * kernels), and every sample draws from a generator of its own. */
#ifndef TALLY_SCHEDULER_H
#define TALLY_SCHEDULER_H

#include "engine/engine.h"
#include "engine/kv_check.h"
#include "engine/prefix_cache.h"
#include "engine/sample.h"

typedef struct {
    bool prefix_cache;                  /* find the beginnings of prompts among pages that are there */
    uint64_t prefix_hash_mask;          /* UINT64_MAX; tests take bits away */
    int n_allowed;                      /* ids below this may be sampled; 0: all */
    bool (*is_end)(void *user, int id); /* does generation end at this id? NULL: never */
    void *is_end_user;
    double (*clock)(void *user); /* seconds; NULL: the machine's clock */
    void *clock_user;
} scheduler_options;

void scheduler_options_init(scheduler_options *o);

/* What is asked for. Copied when it is submitted. */
typedef struct {
    const int *ids; /* [n_ids] the prompt */
    int n_ids;
    int max_new;   /* most tokens to generate; 0: none; -1: up to the context */
    int n_samples; /* completions of this prompt: it is computed once, and its pages are shared */
    sampling sampling;
    uint64_t seed;
    void *user;
} request;

#define FINISH_LIST(X)                                                                                                         \
    X(END, "end token")                                                                                                        \
    X(LENGTH, "-n")                                                                                                            \
    X(CONTEXT, "context")                                                                                                      \
    X(FAILED, "error")
typedef enum {
#define FINISH_ENUM(id, words) FINISH_##id,
    FINISH_LIST(FINISH_ENUM)
#undef FINISH_ENUM
        N_FINISH
} finish_reason;
extern const char *const finish_words[N_FINISH];

/* What one completion cost (cost_share.h: how steps are divided). The bills of all completions add up to the steps' counts. */
typedef struct {
    term_counts prefill, decode; /* decode: steps with one row of a token that was generated; computing again is prefill */
    int n_steps;                 /* in which it had rows */
    int n_computed;              /* rows, in all */
    int n_recomputed;            /* of them: computed before, and lost to preemption */
    int n_reused;             /* prompt tokens that were not computed, because their pages were there (prefix cache or fork) */
    uint64_t flops_reused;    /* what computing those would have taken: FLOPs ... */
    uint64_t kv_bytes_reused; /* ... and bytes of K and V written and read */
    int n_preempted;          /* times */
    int n_pages;              /* most entries of its page table at once, and of them ... */
    int n_pages_shared;       /* ... those that others had too, at the same moment */
    double submitted, admitted, first_token,
        finished; /* seconds by the scheduler's clock; first_token: 0 where there was none */
} bill;

/* One completion of a request. Valid during the call that reports it. */
typedef struct completion {
    void *user; /* the request's */
    int sample; /* 0 ... n_samples-1 */
    int *ids;   /* [n_ids] the prompt, then what was generated, without the end token */
    int n_prompt, n_ids;
    finish_reason finish;
    error error; /* FINISH_FAILED: why */
    bill bill;

    /* The scheduler's own. */
    uint64_t number; /* age: the smaller is the older */
    int max_new;
    int longest; /* most tokens it can come to have in the cache */
    sampling sampling;
    sample_rng rng;
    kv_sequence *kv; /* NULL while it waits */
    prefix_mark mark;
    int n_new, n_promised;       /* in the step that is being made: rows, and pages they take */
    int n_done;                  /* most tokens computed so far */
    int n_followers;             /* samples of the same prompt that start when this one's prompt is done ... */
    struct completion *follower; /* ... the first of them, each the next one's */
    struct completion *next;     /* in the queue */
} completion;

/* May submit further requests. */
typedef void (*completion_done)(void *user, const completion *c);

typedef struct scheduler scheduler;

/* The engine is borrowed; while the scheduler lives nobody else uses its cache. At most engine_options.max_sequences run at once. All
 * memory but the requests' own is taken here. */
status scheduler_create(scheduler **out, engine *e, const scheduler_options *o, completion_done done, void *user, error *err);
/* Requests that have not ended are dropped without a word. */
void scheduler_free(scheduler *s);

/* ERR_ARGUMENT: an id that is not in the vocabulary, no ids, bad sampling. ERR_LIMIT: it can never fit the context, the pool, or the number of
 * sequences. */
status scheduler_submit(scheduler *s, const request *r, error *err);

/* Is there anything left to do? */
bool scheduler_busy(const scheduler *s);

/* One step: admits, runs, reports what has ended. A failure of one sequence ends that one (FINISH_FAILED), and the step is OK. */
status scheduler_step(scheduler *s, error *err);

typedef struct {
    int n_waiting, n_running;
    long long n_steps, n_rows, n_generated, n_done, n_failed, n_preemptions;
    long long n_recomputed, n_reused;       /* tokens */
    term_counts counted;                    /* of all steps */
    uint64_t bytes_spared;                  /* K and V that groups did not read again */
    uint64_t flops_reused, kv_bytes_reused; /* sums of the bills */
    kv_usage peak;                          /* when the most pages were held */
    double seconds;                         /* inside steps */
} scheduler_stats;
const scheduler_stats *scheduler_statistics(scheduler *s);

/* Bytes that it took when it was created: tables of sequences, the prefix cache, logits. */
size_t scheduler_memory_use(const scheduler *s);

/* For tests: the cache, the prefix cache and the queues are whole. Call it between steps. */
status scheduler_check(const scheduler *s, error *err);

#endif
