/* internal.h - the parts of a tokenizer, for the files of this folder only. */
#ifndef TALLY_TOKENIZER_INTERNAL_H
#define TALLY_TOKENIZER_INTERNAL_H

#include "tokenizer/buffer.h"
#include "tokenizer/steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

typedef enum {
    MODEL_BYTES, /* id = byte */
    MODEL_WORDS  /* every span is a piece, or unknown */
} model_kind;

struct tokenizer {
    char *source;          /* the file's name, for messages */
    const char *kind_name; /* static text */
    model_kind model;
    vocab vocab;
    step_list cutter;       /* text to spans for the model */
    int bos, pad, unk;      /* -1: none */
    id_list ends;           /* where generation ends; the first is "the" eos */
    id_list prefix, suffix; /* what TOKENIZE_ADD_SPECIAL puts around a text */
    bool join_with_space;   /* decoding puts a space between pieces */
    int n_strip;            /* leading spaces that decoding leaves out */
};

/* A tokenizer with nothing in it but its name; NULL: no memory. */
tokenizer *tokenizer_new(const char *source, const char *kind_name, model_kind model);

/* The ids of one span of text, appended to *ids. */
status model_encode(const tokenizer *t, const char *text, size_t n, id_list *ids, error *e);

/* "'x' (U+0078)" or "byte 0xff": the character at text, for messages. out: at least 32 bytes. */
const char *char_name(const char *text, size_t n, char *out);

#endif
