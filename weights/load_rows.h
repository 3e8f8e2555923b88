/* load_rows.h - a checkpoint's tensors as the rows that a model is built from: gathered where they are strided, transposed, fused, or one
 * for each head; handed out where they lie when they are whole rows in a row. Positions that follow from a formula come from here too. */
#ifndef TALLY_LOAD_ROWS_H
#define TALLY_LOAD_ROWS_H

#include "weights/bind.h"
#include "weights/build.h"

typedef struct {
    resolver *r; /* borrowed, as the configuration */
    const model_config *config;
    /* The slot in hand. */
    binding open;
    const slot *open_slot;
    tensor_bytes *bytes; /* [open.n_views] */
    /* The last tensor read: q, k and v of a fused one follow one another. */
    const tensor *last;
    tensor_bytes last_bytes;
} file_tensors;

/* `f` starts with r and config set, the rest zero. */
tensor_provider file_provider(file_tensors *f);
void file_tensors_free(file_tensors *f);

#endif
