/* save.h - a model's tensors under the names of a layout: the way back from slots to a file.
 *
 * The same layouts that read checkpoints say how they are written: names, fused parts, transposition, gains less their offset. Rows of
 * q and k are put into the order of the layout's rotary style. */
#ifndef TALLY_SAVE_H
#define TALLY_SAVE_H

#include "weights/layout.h"
#include "weights/slots.h"

enum { SAVED_NAME = 128 };

/* One tensor of the file. */
typedef struct {
    char name[SAVED_NAME];
    dtype type;
    int n_rows, n_cols; /* as the file has it; n_cols 0: a vector of n_rows */
    size_t n_bytes;
    /* Where its numbers come from. */
    tensor_role parts[3]; /* one after another; or, by_group, each group of query heads with its k and v */
    int n_parts, layer;
    bool bias, by_group, transposed;
    float offset;        /* taken off every number */
    const float *values; /* not from a slot: these numbers */
} saved_tensor;

typedef struct {
    const model *m;
    model_config config; /* of what is written: the model's, with its own n_kv_heads and rotary style */
    const json_t *layout;
    int weights;          /* DTYPE_F32, F16, Q8_0; -1: as the model has them */
    bool whole_rows_only; /* the file has no room for the padding of a last Q8_0 block: such tensors become fp16 */
    saved_tensor *tensors;
    size_t n_tensors;
    float *rope_factors; /* [rope_dim/2], or NULL */
    uint64_t n_overflow; /* numbers beyond fp16 met by saved_bytes */
} save_plan;

/* Every tensor that the file will hold, in the order of a forward pass. rope: the style that the layout's readers turn by. n_kv_heads: fewer
 * than the model's, or 0. save_plan_free after success. */
status save_plan_make(save_plan *out, const model *m, const json_t *layout, rope_style rope, int weights, int n_kv_heads,
                      error *e);
void save_plan_free(save_plan *p);

/* A tensor's bytes, n_bytes of them. */
status saved_bytes(save_plan *p, const saved_tensor *t, void *out, error *e);

/* Would a model read from `b` compute what `a` says? Names, contexts and the way in which angles are given may differ. The field that
 * differs goes to *why. */
bool config_same_function(const model_config *a, const model_config *b, const char **why);

#endif
