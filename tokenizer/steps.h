/* steps.h - what happens to text before the model sees it: normalising and cutting, one step after another.
 *
 * A step looks at every span of the text in turn. It either rewrites the span (NFC, "prepend ▁", bytes to characters) or cuts
 * it into spans (a pattern, digits). The model then turns each span into ids by itself. Text may hold invalid UTF-8: no step
 * changes or drops such a byte, and no pattern matches it. */
#ifndef TALLY_STEPS_H
#define TALLY_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/status.h"
#include "tokenizer/buffer.h"

typedef struct {
    size_t start, end; /* bytes start .. end - 1 of the text */
} span;

typedef struct {
    span *data; /* [n] */
    size_t n, capacity;
} span_list;

/* The text on its way: spans cover it in order. */
typedef struct {
    byte_buffer text, text_spare;
    span_list spans, spans_spare;
    bool at_start; /* the first span begins the whole text, not what follows a special token */
} pieces;

typedef enum {
    STEP_CHARS, /* every character a span */
    STEP_WORDS, /* runs of letters, digits and '_'; every other character */
    N_STEP_KINDS
} step_kind;

typedef struct {
    step_kind kind;
    bool drop_space; /* WORDS: white space only separates */
} step;

typedef struct {
    step *data; /* [n] */
    size_t n, capacity;
} step_list;

/* Starts p with one span of text. */
bool pieces_set(pieces *p, const char *text, size_t n);
void pieces_free(pieces *p);

/* For steps: appends a span to the spare list; empty spans are left out. */
bool pieces_push(pieces *p, size_t start, size_t end);

status steps_run(const step_list *steps, pieces *p, error *e);
bool steps_append(step_list *steps, step s);
void steps_free(step_list *steps);

#endif
