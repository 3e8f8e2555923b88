/* steps.h - what happens to text before the model sees it: rewriting (normalisers) and cutting (pre-tokenisers).
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
#include "tokenizer/regex.h"

typedef struct {
    size_t start, end; /* bytes start .. end - 1 of the text */
} span;

typedef struct {
    span *data; /* [n] */
    size_t n, capacity;
} span_list;

/* The text on its way: spans follow each other in it and are never empty. */
typedef struct {
    byte_buffer text, text_spare;
    span_list spans, spans_spare;
    bool at_start; /* the first span begins the whole text, not what follows a special token */
    matcher *m;    /* made by pieces_init */
} pieces;

typedef enum {
    /* rewriting */
    STEP_NFC,
    STEP_NFD,
    STEP_NFKC,
    STEP_NFKD,
    STEP_LOWERCASE,
    STEP_PREPEND,         /* a in front */
    STEP_REPLACE,         /* every a becomes b */
    STEP_REPLACE_PATTERN, /* every match becomes b */
    STEP_STRIP,           /* white space at the ends, as left and right say */
    STEP_SQUEEZE,         /* spaces: none at the ends, one between words (SentencePiece) */
    STEP_BYTE_CHARS,      /* every byte becomes the character that byte-level BPE writes it as */
    STEP_CHARSMAP,        /* a holds a map of SentencePiece */
    /* cutting */
    STEP_CUT,   /* at the matches of a pattern */
    STEP_CHARS, /* every character by itself */
    STEP_WORDS, /* runs of letters, digits and '_'; every other character by itself */
    N_STEP_KINDS
} step_kind;

/* What becomes of a match: it is a span of its own, is dropped, joins the span before it or after it, or forms one span with
 * the matches next to it. */
typedef enum { CUT_ISOLATED, CUT_REMOVED, CUT_WITH_PREVIOUS, CUT_WITH_NEXT, CUT_CONTIGUOUS } cut_way;

typedef struct {
    step_kind kind;
    char *a, *b; /* [n_a], [n_b], owned */
    size_t n_a, n_b;
    compiled_regex *re; /* owned */
    cut_way way;        /* CUT */
    bool invert;        /* CUT: what does not match is the match */
    bool left, right;   /* STRIP */
    bool unless_there;  /* PREPEND: not where the span begins with a already */
    bool at_start_only; /* PREPEND: only in front of the whole text */
    bool drop_space;    /* WORDS: white space only separates */
} step;

typedef struct {
    step *data; /* [n] */
    size_t n, capacity;
} step_list;

/* n_bytes: the text's length; patterns get time according to it. */
bool pieces_init(pieces *p, size_t n_bytes);
/* One span of text, in place of what was there. */
bool pieces_set(pieces *p, const char *text, size_t n);
void pieces_free(pieces *p);

/* For steps: appends a span to the spare list. Empty ones are left out. */
bool pieces_push(pieces *p, size_t start, size_t end);

status steps_run(const step_list *steps, pieces *p, error *e);

/* Appends a step whose text (and pattern, unless NULL) is copied. For the flags: *made points at it until the next. */
status steps_add(step_list *steps, step_kind kind, const char *a, size_t n_a, const char *b, size_t n_b, const char *regex,
                 size_t n_regex, step **made, error *e);
status steps_add_kind(step_list *steps, step_kind kind, error *e);
status steps_add_cut(step_list *steps, const char *regex, size_t n, cut_way way, bool invert, error *e);
status steps_add_replace(step_list *steps, const char *from, const char *to, error *e);
void steps_free(step_list *steps);

/* Rewrites text (step_rewrite.c) onto the end of out. first: this span begins the whole text. */
status step_rewrite(const step *st, pieces *p, const char *text, size_t n, bool first, byte_buffer *out, error *e);
/* Cuts a span (step_cut.c) with pieces_push. */
status step_cut(const step *st, pieces *p, span s, error *e);
/* NFC and the like (step_unicode.c) of valid UTF-8. */
status unicode_normalize(step_kind form, const char *text, size_t n, byte_buffer *out, error *e);
/* SentencePiece's map (step_charsmap.c): is the map whole, and text rewritten by it. */
status charsmap_check(const char *map, size_t n, error *e);
status charsmap_rewrite(const step *st, const char *text, size_t n, byte_buffer *out, error *e);

#endif
