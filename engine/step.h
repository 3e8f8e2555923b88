/* step.h - one step of the engine: the rows that go through the model together, and where their numbers stand.
 *
 * A step takes any mixture of sequences: many rows of one (a prefill chunk), one row each of many (a decode step), or both. What differs
 * is prepared here, in step.c; the mathematics (forward.c) is the same for all. */
#ifndef TALLY_STEP_H
#define TALLY_STEP_H

#include "engine/kv_cache.h"
#include "engine/plan.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/terms.h"
#include "kernels/worker.h"
#include "weights/model.h"

/* A sequence's part in a step. */
typedef struct {
    kv_sequence *kv;
    const int *ids;   /* [n_new] */
    int n_new;        /* > 0 */
    int n_logit_rows; /* 0, 1, or n_new */
    bool finite;      /* out: its logits, and its K and V as stored, are all finite */
    int bad_position; /* out: the first position whose K or V is not; -1: the logits only, or nothing */
} step_sequence;

/* The error of a sequence that a step left with `finite` false: which step it was, and what to do. Its tokens are in the cache, and must
 * not be read on. `which`: its number, for the message; -1: there is one only. Returns ERR_NUMERIC. */
status step_not_finite(const step_sequence *q, int which, error *err);

/* Kinds of operation, for times. */
#define OP_LIST(X)                                                                                                             \
    X(EMBED, "embed")                                                                                                          \
    X(QKV, "qkv")                                                                                                              \
    X(KV_WRITE, "kv_write")                                                                                                    \
    X(ATTENTION, "attention")                                                                                                  \
    X(OUTPUT, "output")                                                                                                        \
    X(FFN, "ffn")                                                                                                              \
    X(NORM, "norm")                                                                                                            \
    X(HEAD, "head")
typedef enum {
#define OP_ENUM(id, name) OP_##id,
    OP_LIST(OP_ENUM)
#undef OP_ENUM
        N_OPS
} step_op;
extern const char *const step_op_names[N_OPS];

typedef struct {
    const execution_plan *plan;
    term_counts counted;
    double seconds;
    double op_seconds[N_OPS]; /* worker 0's; zeros unless engine_options.profile */
    int n_workers;
} step_report;

/* Rows that share one reading of the cache (attention.h); windowed layers share nothing, so they have a list of their own. */
typedef struct {
    attention_task *tasks;
    int n_tasks;
} task_list;

/* Everything about the step that is running. Arrays are the engine's, sized when it was created. */
typedef struct {
    const model *model;
    kv_cache *cache;
    execution_plan plan;
    plan_sequence *plan_seqs; /* [max_sequences] */
    step_sequence *seqs;      /* borrowed from the caller */
    int n_seqs;

    int n_rows, n_logit_rows;
    int *ids, *pos, *row_seq;      /* [max_rows]: token, position, which sequence */
    bool *stored;                  /* [max_rows]: the row's K and V are finite as stored, so far */
    int *logit_rows;               /* [max_rows]: rows that get logits, in order */
    kv_view *views;                /* [max_sequences]: this layer's pages of each sequence */
    unsigned char **page_pointers; /* [pages of all sequences of a step] */
    int *first_page_pointer;       /* [max_sequences] */
    task_list tasks, windowed_tasks;
    attention_shape attention; /* window and all, for a windowed layer */

    /* Activations, fp32, one row a token. */
    float *x;                       /* [rows, d_model] the residual stream */
    float *n, *n_ffn;               /* [rows, d_model] normalised; n_ffn where a parallel block needs both at once */
    float *q, *o;                   /* [rows, q_dim] */
    float *k, *v;                   /* [rows, kv_dim] */
    float *h;                       /* [rows, d_ff] */
    float *branch;                  /* [rows, d_model] a branch's output, where a norm stands before it is added */
    float *cos_sin, *cos_sin_local; /* [rows, rope_dim] */
    float *partials;                /* attention over ranges of keys apart */
    float *logits;                  /* [n_logit_rows, n_vocab], the caller's */
    linear_mode mode;

    bool profile;
    double mark; /* worker 0's clock at the end of the last operation */
    double op_seconds[N_OPS];
} step;

/* Lays out rows, positions, the plan and the attention tasks. Pages have been reserved. */
void step_prepare(step *s, step_sequence *seqs, int n_seqs);

/* After the pass: sets `finite` and `bad_position` of each sequence. */
void step_judge(step *s);

/* The whole forward pass of one worker. */
void forward(step *s, worker *w);

#endif
