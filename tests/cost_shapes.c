#include "tests/cost_shapes.h"

#include <stdlib.h>

model_config shape_level21(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 64, c.n_heads = 4, c.n_kv_heads = 4, c.head_dim = 16, c.d_ff = 256, c.n_vocab = 15,
    c.n_ctx = 11;
    c.norm_eps = 1e-6f;
    c.position = POSITION_LEARNED;
    c.attn_scale = 0.25f;
    c.activation = ACTIVATION_RELU;
    c.gated = false;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.head_bias = true;
    return c;
}

weight_storage shape_storage(const model_config *c, dtype type, dtype positions) {
    weight_storage w = {.embedding = {type, 0}, .positions = {positions, 0}, .head = {type, 0}};
    w.layers = malloc((size_t)c->n_layers * sizeof *w.layers);
    if (w.layers == NULL) abort();
    for (int il = 0; il < c->n_layers; il++) {
        for (int k = 0; k < N_LAYER_MATRICES; k++) w.layers[il][k] = (matrix_storage){type, 0};
    }
    return w;
}

void shape_storage_free(weight_storage *w) {
    free(w->layers);
    w->layers = NULL;
}

execution_plan shape_plan(const weight_storage *w, const plan_sequence *sequences, int n_sequences) {
    return (execution_plan){.weights = w,
                            .kv_type = DTYPE_F16,
                            .page_size = 16,
                            .query_tile = 64,
                            .key_split = 256,
                            .n_sequences = n_sequences,
                            .sequences = sequences};
}
