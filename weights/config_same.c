/* config_same.c - do two configurations mean the same function? For converters: what is read back must compute what was written. */
#include <math.h>
#include <string.h>

#include "weights/rope.h"
#include "weights/save.h"

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static bool same_angles(const model_config *a, const model_config *b) {
    if (a->position != POSITION_ROPE) return true;
    if (a->rope_dim != b->rope_dim || !near((double)rope_magnitude(a), (double)rope_magnitude(b))) return false;
    if (a->rope_dim > 2 * CONFIG_MAX_LAYERS) return false;
    float x[CONFIG_MAX_LAYERS], y[CONFIG_MAX_LAYERS];
    bool same = true;
    for (int local = 0; local < 2; local++) {
        bool a_local = local && a->rope_local_base != 0, b_local = local && b->rope_local_base != 0;
        rope_frequencies(x, a, a_local);
        rope_frequencies(y, b, b_local);
        for (int i = 0; i < a->rope_dim / 2; i++) same = same && near((double)x[i], (double)y[i]);
    }
    return same;
}

#define SAME(field)                                                                                                            \
    do {                                                                                                                       \
        if (a->field != b->field) return *why = #field, false;                                                                 \
    } while (0)
#define NEAR(field)                                                                                                            \
    do {                                                                                                                       \
        if (!near((double)a->field, (double)b->field)) return *why = #field, false;                                            \
    } while (0)

static bool same_dims(const model_config *a, const model_config *b, const char **why) {
    SAME(n_layers);
    SAME(d_model);
    SAME(n_heads);
    SAME(n_kv_heads);
    SAME(head_dim);
    SAME(d_ff);
    SAME(n_vocab);
    return true;
}

static bool same_block(const model_config *a, const model_config *b, const char **why) {
    SAME(norm);
    NEAR(norm_eps);
    SAME(norm_bias);
    SAME(attn_pre_norm);
    SAME(attn_post_norm);
    SAME(attn_residual_norm);
    SAME(ffn_pre_norm);
    SAME(ffn_post_norm);
    SAME(ffn_residual_norm);
    SAME(embedding_norm);
    SAME(final_norm);
    SAME(qk_norm);
    SAME(parallel_residual);
    SAME(activation);
    SAME(gated);
    SAME(q_bias);
    SAME(kv_bias);
    SAME(o_bias);
    SAME(ffn_bias);
    SAME(head_bias);
    SAME(tied);
    return true;
}

static bool same_numbers(const model_config *a, const model_config *b, const char **why) {
    NEAR(attn_scale);
    NEAR(attn_softcap);
    NEAR(embedding_scale);
    NEAR(residual_scale);
    NEAR(logit_scale);
    NEAR(final_softcap);
    return true;
}

/* A window as wide as the context is none. */
static bool same_windows(const model_config *a, const model_config *b) {
    for (int il = 0; il < a->n_layers; il++) {
        int x = a->layer_windowed[il] && a->window < a->n_ctx ? a->window : 0;
        int y = b->layer_windowed[il] && b->window < b->n_ctx ? b->window : 0;
        if (x != y && !(x != 0 && y == 0 && b->n_ctx <= x)) return false;
    }
    return true;
}

bool config_same_function(const model_config *a, const model_config *b, const char **why) {
    if (!same_dims(a, b, why) || !same_block(a, b, why) || !same_numbers(a, b, why)) return false;
    SAME(position);
    if (a->position == POSITION_ROPE) SAME(rope);
    if (!same_angles(a, b)) return *why = "rope", false;
    if (!same_windows(a, b)) return *why = "window", false;
    return true;
}
