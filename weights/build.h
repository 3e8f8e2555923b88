/* build.h - makes a model out of rows, wherever they come from: a checkpoint, or a generator of random numbers.
 *
 * One tensor at a time: rows as the source has them -> fp32 where the type changes -> storage type -> panels, straight into the
 * model's arena. Beside the model there are never more than a few rows for each thread and the tensor in hand. */
#ifndef TALLY_BUILD_H
#define TALLY_BUILD_H

#include "weights/slots.h"

/* Some rows in the source's type. Valid until the next call with the same scratch. */
typedef struct {
    const void *rows;    /* row i at rows + i * stride */
    size_t stride;       /* bytes */
    const void *scales;  /* DTYPE_I8G: fp32, any alignment; row i's at scales + i * scale_stride; else NULL */
    size_t scale_stride; /* bytes */
} raw_rows;

/* The rows of one slot's tensor. */
typedef struct row_source {
    dtype type;
    int group;          /* DTYPE_I8G */
    float offset;       /* added to every element (a gain stored as gain - 1); 0: nothing is added */
    size_t row_bytes;   /* bytes of a row in the source's type, scales apart: what scratch must hold for each row */
    const void *mapped; /* all rows lie here in order, row after row; else NULL */
    const void *mapped_scales;
    bool stays; /* `mapped` lies in a file that stays mapped: the model may use it where it is */
    /* Rows first ... first+n-1, n <= PANEL_ROWS; scratch: n * (row_bytes + scales). Called from several threads. */
    void (*rows)(const struct row_source *self, int first, int n, void *scratch, raw_rows *out);
    /* These rows are done with: what memory they took may go (asked for again, they come again). NULL: nothing to let go. */
    void (*forget)(const struct row_source *self, int first, int n);
    const void *from; /* for both */
} row_source;

/* What gives the tensors. */
typedef struct {
    const char *path; /* for messages; NULL: none */
    void *self;
    /* The type that the source has the slot's tensor in (and whether it will be mapped), before anything is read. */
    void (*describe)(void *self, const slot *s, dtype *type, int *group, bool *will_map);
    /* Makes the tensor's rows ready; `name` for messages, valid until close. */
    status (*open)(void *self, const slot *s, row_source *out, const char **name, error *e);
    void (*close)(void *self);
} tensor_provider;

/* model.memory. */
typedef struct {
    void *arena; /* pages_alloc'ed; tensors lie one after another, each at a multiple of 64 bytes */
    size_t arena_bytes, used;
    void *kept; /* what the model's data lies in, given back by model_free through `release`; or NULL */
    void (*release)(void *kept);
} model_memory;

/* A model of a checked configuration. *out is NULL on failure. */
status model_build(model **out, const model_config *c, const model_options *o, const tensor_provider *from, error *e);

/* Adds one line to model.assumptions (false: out of memory). */
bool model_assume(model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* model_free will release it. */
void model_keep(model *m, void *kept, void (*release)(void *kept));

#endif
