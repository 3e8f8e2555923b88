/* bind.h - which bytes of a checkpoint are a slot of the model.
 *
 * A slot's rows are taken from one tensor, or from one tensor for each head. Row r of the slot is
 *
 *   tensor r / rows_each, its row  first + (r' / chunk) * step + r' % chunk,  r' = r % rows_each
 *
 * which covers a tensor of its own (first 0, one chunk), q, k, v one after another in a fused tensor (first: where the part
 * begins), q, k, v by head or by group of heads (chunks of one head, step: all that belongs to a head or a group), and gate and
 * up rows in turn (chunks of 1, step 2). A vector of n is a matrix of n rows and one column. */
#ifndef TALLY_BIND_H
#define TALLY_BIND_H

#include "weights/resolver.h"
#include "weights/slots.h"

typedef struct {
    const tensor *t;
    int64_t start, row_stride, col_stride; /* in elements */
} tensor_view;

typedef enum { COMPUTED_NOT, COMPUTED_SINUSOIDAL, COMPUTED_SINUSOIDAL_HALVES, COMPUTED_ONES } computed_kind;

typedef struct {
    computed_kind computed; /* no tensor: the numbers follow from a formula */
    tensor_view *views;     /* [n_views] */
    int n_views;
    tensor_view one; /* where views points to when there is one */
    int rows_each;
    int64_t first, chunk, step;
    float offset; /* added to each number: a gain stored as gain - 1 */
} binding;

/* Finds a slot's tensors, checks their names, shapes and types, marks them used. binding_free after success. */
status bind_slot(resolver *r, const model_config *c, const slot *s, binding *out, error *e);
void binding_free(binding *b);

/* A tensor's shape without those dims of 1 that are more than `want`: a table saved as [1, n, d] or [n, 1, d] is a table. Returns how many
 * dims are left. */
int tensor_squeezed(const tensor *t, int want, int64_t *shape, int64_t *stride);

/* "[3, 4]", for messages. */
void tensor_shape_text(char *out, size_t size, const tensor *t);

/* After all slots: every tensor that is neither used nor to be ignored is an error that names it. */
status bind_check_extra(const resolver *r, error *e);

#endif
