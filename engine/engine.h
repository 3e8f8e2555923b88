/* engine.h - a model made ready to run: workers, activations, the KV cache. One engine, many sequences.
 *
 * Read in this order: kv_cache.h (pages), step.h (what a step is made of), forward.c (the mathematics), prefill.c and decode.c (the two
 * ways in). Everything is taken when the engine is created; a step allocates nothing. */
#ifndef TALLY_ENGINE_H
#define TALLY_ENGINE_H

#include "engine/kv_cache.h"
#include "engine/plan.h"
#include "engine/step.h"
#include "kernels/status.h"
#include "weights/model.h"

typedef struct {
    int n_threads;          /* most workers of a step; 0: what is fastest, found by trial (team_size.h) */
    int n_ctx;              /* most tokens of a sequence; 0: the model's own, at most DEFAULT_CTX */
    int max_sequences;      /* most sequences in one step */
    int prefill_chunk;      /* most rows of one step */
    int page_size;          /* tokens a page */
    int n_pages;            /* 0: from kv_bytes; both 0: max_sequences contexts */
    size_t kv_bytes;        /* size of the page pool; 0: from n_pages */
    dtype kv_type;          /* DTYPE_F32, DTYPE_F16, DTYPE_Q8_0 (int8) */
    bool int8_activations;  /* Q8_0 weights meet activations quantised per block of 32 */
    bool blas;              /* steps of at least BLAS_ROWS rows multiply through OpenBLAS */
    const char *isa;        /* kernel_set_choose */
    double work_per_worker; /* multiply-adds that make one more worker worth waking */
    bool profile;           /* time each kind of operation */
} engine_options;

enum { DEFAULT_CTX = 4096, BLAS_ROWS = 8 };

void engine_options_init(engine_options *o);

typedef struct engine engine;

/* Called after each step with what it was to do, what was counted and how long it took; valid during the call. */
typedef void (*step_observer)(void *user, const step_report *r);

/* The model is borrowed and must outlive the engine. *out is NULL on failure. */
status engine_create(engine **out, const model *m, const engine_options *o, error *e);
void engine_free(engine *e);

/* One step: any mixture of prefill and decode. logits: [sum of n_logit_rows, n_vocab], the rows of the first sequence first; may be
 * NULL when there are none. Sequences grow by n_new tokens each. A sequence whose logits are not all finite has `finite` false.
 * Fails, with nothing changed, when an id is out of range, a context or the pool is full. */
status engine_step(engine *e, step_sequence *seqs, int n_seqs, float *logits, error *err);

/* prefill.c: n tokens of one sequence, prefill_chunk rows at a time. logit_rows: 0, 1 (the last), or n (all). ERR_NUMERIC when a logit
 * is not finite. */
status engine_prefill(engine *e, kv_sequence *s, const int *ids, int n, int logit_rows, float *logits, error *err);

/* decode.c: one token each for B sequences; logits [B, n_vocab]. Sequences next to one another that share leading pages read them once. */
status engine_decode(engine *e, kv_sequence *const *seqs, const int *ids, int B, float *logits, error *err);

void engine_observe(engine *e, step_observer observer, void *user);

kv_cache *engine_cache(engine *e);
const model *engine_model(const engine *e);
const step_report *engine_last_report(const engine *e);
int engine_n_ctx(const engine *e);
const char *engine_context_advice(const engine *e); /* for messages: what to do when tokens do not fit the context */
int engine_n_threads(const engine *e);              /* as given, or all processors; fewer where no step has work for them */
/* How many of them a step of so many rows gets, as far as is known now; and whether the first trials are over. */
int engine_workers_found(const engine *e, int n_rows);
bool engine_workers_settled(const engine *e, int n_rows);
int engine_max_rows(const engine *e);
int engine_max_sequences(const engine *e);
const char *engine_isa(const engine *e);
const weight_storage *engine_storage(const engine *e);

/* Where the memory is: exact bytes of what the engine holds, beside the model's own. */
typedef struct {
    size_t pool, tables, activations, scratch;
} engine_memory;
engine_memory engine_memory_use(const engine *e);
/* The same before there is an engine: what a model of that configuration would need under these options. Takes none of it. */
status engine_memory_plan(engine_memory *out, const model_config *c, const engine_options *o, error *err);

#endif
