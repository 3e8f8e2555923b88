/* recognise.h - which layout a checkpoint has. */
#ifndef TALLY_RECOGNISE_H
#define TALLY_RECOGNISE_H

#include "weights/checkpoint.h"

enum { PREFIX_SIZE = 128 };

typedef struct {
    json_t *builtin;      /* owned */
    json_t *own;          /* owned: from --layout FILE; or NULL */
    const json_t *layout; /* the one: in builtin, or own */
    char prefix[PREFIX_SIZE];
    char note[256]; /* what had to be assumed in choosing; or empty */
} recognition;

/* layout_file: a built-in layout's name or a file, or NULL to find out: by the metadata's model_type (Hugging Face) or
 * general.architecture (GGUF), else by the names of the tensors. recognition_free after failure too. */
status recognise(recognition *out, const checkpoint *c, const char *layout_file, error *e);
void recognition_free(recognition *r);

#endif
