/* slots.h - every tensor that a configuration asks for, in one list.
 *
 * A role is what a tensor does in the block ("q", "ffn_pre_norm"); a slot is one role in one layer, its weight or its bias. Loading,
 * random models, saving and counting all walk the same slots, so that none can be forgotten in one of them. */
#ifndef TALLY_SLOTS_H
#define TALLY_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "weights/model.h"

typedef enum { ROLE_NORM, ROLE_MATRIX } role_kind;

/* X(id, name in layouts, member of layer_weights (or of model, below), kind) in the order of a forward pass. */
#define GLOBAL_ROLE_LIST(X)                                                                                                    \
    X(EMBEDDING, "embedding", embedding, ROLE_MATRIX)                                                                          \
    X(POSITIONS, "positions", positions, ROLE_MATRIX)                                                                          \
    X(EMBEDDING_NORM, "embedding_norm", embedding_norm, ROLE_NORM)                                                             \
    X(FINAL_NORM, "final_norm", final_norm, ROLE_NORM)                                                                         \
    X(HEAD, "head", head, ROLE_MATRIX)
#define LAYER_ROLE_LIST(X)                                                                                                     \
    X(ATTN_PRE_NORM, "attn_pre_norm", attn_pre, ROLE_NORM)                                                                     \
    X(Q, "q", wq, ROLE_MATRIX)                                                                                                 \
    X(K, "k", wk, ROLE_MATRIX)                                                                                                 \
    X(V, "v", wv, ROLE_MATRIX)                                                                                                 \
    X(Q_NORM, "q_norm", q_norm, ROLE_NORM)                                                                                     \
    X(K_NORM, "k_norm", k_norm, ROLE_NORM)                                                                                     \
    X(O, "o", wo, ROLE_MATRIX)                                                                                                 \
    X(ATTN_POST_NORM, "attn_post_norm", attn_post, ROLE_NORM)                                                                  \
    X(ATTN_RESIDUAL_NORM, "attn_residual_norm", attn_residual, ROLE_NORM)                                                      \
    X(FFN_PRE_NORM, "ffn_pre_norm", ffn_pre, ROLE_NORM)                                                                        \
    X(GATE, "gate", w_gate, ROLE_MATRIX)                                                                                       \
    X(UP, "up", w_up, ROLE_MATRIX)                                                                                             \
    X(DOWN, "down", w_down, ROLE_MATRIX)                                                                                       \
    X(FFN_POST_NORM, "ffn_post_norm", ffn_post, ROLE_NORM)                                                                     \
    X(FFN_RESIDUAL_NORM, "ffn_residual_norm", ffn_residual, ROLE_NORM)

typedef enum {
#define ROLE_ENUM(id, name, member, kind) ROLE_##id,
    GLOBAL_ROLE_LIST(ROLE_ENUM) LAYER_ROLE_LIST(ROLE_ENUM)
#undef ROLE_ENUM
        N_ROLES
} tensor_role;
#define FIRST_LAYER_ROLE ROLE_ATTN_PRE_NORM

const char *role_name(tensor_role role);
role_kind role_kind_of(tensor_role role);
static inline bool role_in_layers(tensor_role role) {
    return role >= FIRST_LAYER_ROLE;
}

typedef struct {
    tensor_role role;
    int layer;          /* -1: not in a layer */
    bool bias;          /* the bias of a matrix or of a norm */
    int n_rows, n_cols; /* a matrix's weight as the model holds it; a vector of n: n rows, 1 column */
} slot;

static inline bool slot_is_matrix(const slot *s) {
    return !s->bias && role_kind_of(s->role) == ROLE_MATRIX;
}

/* Does the configuration ask for this role's weight (or bias)? A tied head has no weight of its own. */
bool role_wanted(const model_config *c, tensor_role role, bool bias);

/* All slots of a checked configuration: first the global ones, then layer by layer. *out is malloc'ed; NULL when out of memory. */
slot *slots_of(const model_config *c, size_t *n);

/* Where a slot's matrix or norm lies in the model. model->layers must exist for layer roles. */
matrix *model_matrix(model *m, tensor_role role, int layer);
norm_weights *model_norm(model *m, tensor_role role, int layer);

#endif
