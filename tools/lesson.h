/* lesson.h - the numbers of the lesson "Inference cost: memory and speed", each as a question to `tally cost`, and some to run. */
#ifndef TALLY_LESSON_H
#define TALLY_LESSON_H

#include <stdint.h>

#include "kernels/status.h"

/* What may be counted by running a model of random weights, to stand beside a predicted number. */
typedef enum {
    RUN_NONE,
    RUN_KV_PER_TOKEN,  /* bytes of K and V written for each token */
    RUN_KEYS_WITH,     /* keys computed in a layer, n tokens one at a time, with the cache */
    RUN_KEYS_WITHOUT,  /* without: everything again for each token */
    RUN_KEYS_ATTENDED, /* (query, key) pairs of a layer, with the cache */
    RUN_MATMUL,        /* FLOPs of the last of n tokens, decoded alone */
    RUN_ATTENTION,
    RUN_OTHER,
    RUN_WEIGHT_BYTES, /* matrices, vectors and rows read for it */
    RUN_PREFILL_MATMUL,
    RUN_PREFILL_ATTENTION,
    RUN_PREFILL_OTHER
} lesson_run;

typedef struct {
    const char *section;     /* a new section begins; else NULL */
    const char *words;       /* the question */
    const char *command;     /* what follows "tally cost"; words are separated by one space, none contains one */
    const char *keys;        /* of results, separated by spaces */
    lesson_run run;          /* counts the first of them */
    const char *run_shape;   /* a preset, or a JSON shape; NULL: nothing is run */
    const char *run_weights; /* "f32", "f16", "int8" */
    int run_tokens;
} lesson_row;

/* Ended by words NULL. */
extern const lesson_row lesson_rows[];

/* Runs a model of random weights and counts. */
status lesson_count(uint64_t *out, const lesson_row *row, error *e);

#endif
