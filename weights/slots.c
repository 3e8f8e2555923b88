#include "weights/slots.h"

#include <stdlib.h>

static const struct {
    const char *name;
    role_kind kind;
    size_t offset; /* in model, or in layer_weights */
} roles[N_ROLES] = {
#define GLOBAL_ROW(id, name, member, kind) [ROLE_##id] = {name, kind, offsetof(model, member)},
    GLOBAL_ROLE_LIST(GLOBAL_ROW)
#undef GLOBAL_ROW
#define LAYER_ROW(id, name, member, kind) [ROLE_##id] = {name, kind, offsetof(layer_weights, member)},
        LAYER_ROLE_LIST(LAYER_ROW)
#undef LAYER_ROW
};

const char *role_name(tensor_role role) {
    return roles[role].name;
}

role_kind role_kind_of(tensor_role role) {
    return roles[role].kind;
}

static bool norm_wanted(const model_config *c, tensor_role role) {
    switch (role) {
    case ROLE_EMBEDDING_NORM:
        return c->embedding_norm;
    case ROLE_FINAL_NORM:
        return c->final_norm;
    case ROLE_ATTN_PRE_NORM:
        return c->attn_pre_norm;
    case ROLE_ATTN_POST_NORM:
        return c->attn_post_norm;
    case ROLE_ATTN_RESIDUAL_NORM:
        return c->attn_residual_norm;
    case ROLE_FFN_PRE_NORM:
        return c->ffn_pre_norm;
    case ROLE_FFN_POST_NORM:
        return c->ffn_post_norm;
    case ROLE_FFN_RESIDUAL_NORM:
        return c->ffn_residual_norm;
    default:
        return c->qk_norm != QK_NORM_NONE; /* ROLE_Q_NORM, ROLE_K_NORM */
    }
}

static bool matrix_wanted(const model_config *c, tensor_role role) {
    switch (role) {
    case ROLE_POSITIONS:
        return c->position == POSITION_LEARNED;
    case ROLE_HEAD:
        return !c->tied;
    case ROLE_GATE:
        return c->gated;
    default:
        return true;
    }
}

static bool matrix_bias_wanted(const model_config *c, tensor_role role) {
    switch (role) {
    case ROLE_HEAD:
        return c->head_bias;
    case ROLE_Q:
        return c->q_bias;
    case ROLE_K:
    case ROLE_V:
        return c->kv_bias;
    case ROLE_O:
        return c->o_bias;
    case ROLE_GATE:
        return c->gated && c->ffn_bias;
    case ROLE_UP:
    case ROLE_DOWN:
        return c->ffn_bias;
    default:
        return false;
    }
}

bool role_wanted(const model_config *c, tensor_role role, bool bias) {
    if (roles[role].kind == ROLE_NORM) return norm_wanted(c, role) && (!bias || c->norm_bias);
    return bias ? matrix_bias_wanted(c, role) : matrix_wanted(c, role);
}

static void matrix_shape(const model_config *c, tensor_role role, int *n_rows, int *n_cols) {
    *n_cols = c->d_model;
    switch (role) {
    case ROLE_POSITIONS:
        *n_rows = c->n_ctx;
        break;
    case ROLE_Q:
        *n_rows = config_q_dim(c);
        break;
    case ROLE_K:
    case ROLE_V:
        *n_rows = config_kv_dim(c);
        break;
    case ROLE_O:
        *n_rows = c->d_model, *n_cols = config_q_dim(c);
        break;
    case ROLE_GATE:
    case ROLE_UP:
        *n_rows = c->d_ff;
        break;
    case ROLE_DOWN:
        *n_rows = c->d_model, *n_cols = c->d_ff;
        break;
    default:
        *n_rows = c->n_vocab;
        break; /* ROLE_EMBEDDING, ROLE_HEAD */
    }
}

static int norm_length(const model_config *c, tensor_role role) {
    if (role != ROLE_Q_NORM && role != ROLE_K_NORM) return c->d_model;
    if (c->qk_norm == QK_NORM_HEAD) return c->head_dim;
    return role == ROLE_Q_NORM ? config_q_dim(c) : config_kv_dim(c);
}

static size_t add_slots(slot *out, size_t n, const model_config *c, tensor_role first, tensor_role end, int layer) {
    for (tensor_role r = first; r < end; r++)
        for (int bias = 0; bias < 2; bias++) {
            if (!role_wanted(c, r, bias)) continue;
            slot *s = &out[n++];
            *s = (slot){.role = r, .layer = layer, .bias = bias, .n_cols = 1};
            if (roles[r].kind == ROLE_NORM)
                s->n_rows = norm_length(c, r);
            else
                matrix_shape(c, r, &s->n_rows, &s->n_cols);
            if (bias) s->n_cols = 1;
        }
    return n;
}

slot *slots_of(const model_config *c, size_t *n) {
    size_t most = 2 * (FIRST_LAYER_ROLE + (size_t)(N_ROLES - FIRST_LAYER_ROLE) * (size_t)c->n_layers);
    slot *out = malloc(most * sizeof *out);
    *n = 0;
    if (out == NULL) return NULL;
    *n = add_slots(out, 0, c, 0, FIRST_LAYER_ROLE, -1);
    for (int il = 0; il < c->n_layers; il++) *n = add_slots(out, *n, c, FIRST_LAYER_ROLE, N_ROLES, il);
    return out;
}

static void *role_at(model *m, tensor_role role, int layer) {
    char *base = role_in_layers(role) ? (char *)&m->layers[layer] : (char *)m;
    return base + roles[role].offset;
}

matrix *model_matrix(model *m, tensor_role role, int layer) {
    return role_at(m, role, layer);
}

norm_weights *model_norm(model *m, tensor_role role, int layer) {
    return role_at(m, role, layer);
}
