/* quality.h - what storage costs in accuracy: the same texts through a model in every storage, against fp32.
 *
 * The fp32 model (weights, cache, activations) is the reference; its logits are l, another storage's l'. Over all scored tokens:
 *
 *   top-1 agreement     how often the largest of l' is that of l (ties: the smallest id)
 *   logit difference    max |l' - l| and mean |l' - l|, over every logit of every row that predicts a scored token
 *   perplexity          exp(-mean log softmax(l')[the token that comes])
 *   texts right         texts whose scored tokens are all the largest of l': greedy decoding writes them
 */
#ifndef TALLY_QUALITY_H
#define TALLY_QUALITY_H

#include "tools/quantity.h"
#include "tools/session.h"

/* A token is predicted by the row of the one before it. */
typedef struct {
    int *ids;
    int n, first_scored; /* tokens [first_scored, n) are scored, first_scored > 0 */
} quality_text;

typedef struct {
    quality_text *texts; /* [n] */
    size_t n, room;
    bool lines; /* each line is a text; else windows of the context, cut out of one */
    int n_ctx;  /* most tokens of a text: its last is predicted and not given */
    uint64_t n_scored;
} quality_texts;

/* FILE as texts. Where the tokenizer can write a line break: all of it, in windows of n_ctx tokens, each begun as a text begins; else
 * a text a line, ended by the end token. A model without a tokenizer: token ids, a text a line. after: score only what follows its
 * first occurrence in each text (NULL: everything). On failure *out is empty. */
status quality_texts_read(quality_texts *out, const session *s, const char *path, const char *after, int n_ctx, error *e);
void quality_texts_free(quality_texts *t);

/* The weights' storages: fp32, fp16, int8, and as the file has them, where that is none of these. */
enum { N_WEIGHTS = 4, N_CACHES = 3, MOST_RUNS = N_WEIGHTS * N_CACHES * 2 };

/* One storage. */
typedef struct {
    int weights, kv_type; /* f32, f16, int8; weights N_WEIGHTS - 1: as the file has them */
    bool int8_activations;
    engine *engine; /* NULL: the weights do not fit the storage */
    kv_sequence *kv;
    uint64_t weight_bytes, kv_bytes; /* counted: read by one decode step of the weights; written by one token */
    bool agrees;                     /* every count of every step was its prediction */

    uint64_t n_agree, n_logits, n_right;
    double max_logit, max_difference, sum_difference, sum_log;
    bool text_right;
} quality_run;

typedef struct {
    session_options *o;
    const char *path, *after;
    session sessions[N_WEIGHTS];
    error refused[N_WEIGHTS]; /* why there is no model in this storage */
    quality_texts texts;
    quality_run runs[MOST_RUNS]; /* the first is the reference */
    int n_runs, piece;           /* rows of a piece */
    float *logits, *reference;   /* [piece, n_vocab] */
} quality;

/* quality_report.c */
quantity_text quality_run_name(const quality *q, const quality_run *r);
bool quality_agrees(const quality *q); /* every count of every step was its prediction */
void quality_print(const quality *q);
int quality_json(const quality *q); /* the exit status */

/* Runs all of it and prints the table or JSON. The exit status: 0; 1 where it failed, or a count differed from its prediction. */
int quality_main(session_options *o, const char *path, const char *after, bool json);

#endif
