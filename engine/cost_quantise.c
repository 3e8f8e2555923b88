/* The prediction of quantising and of scales: a class of its own, because the lesson's formulas have no word for it. */
#include "engine/cost_parts.h"

/* Matrices that read the same input share one quantisation of it. */
typedef struct {
    uint64_t rows, n_cols; /* of the input */
    bool quantised;        /* some matrix so far wants it in int8 */
} shared_input;

/* One matrix product. Q8_0 with int8 activations: two scales for each output element and block. Otherwise the weights are turned
 * into fp32 as they are read, one multiplication each, once a pass. */
static uint64_t product_flops(matrix_storage w, uint64_t n_rows, shared_input *x, bool int8) {
    if (w.type == DTYPE_Q8_0 && int8) {
        x->quantised = true;
        return 2 * x->rows * n_rows * (x->n_cols / 32 + (x->n_cols % 32 != 0));
    }
    return w.type == DTYPE_Q8_0 || w.type == DTYPE_I8G ? n_rows * x->n_cols : 0;
}

/* Largest magnitude, scale, round: 3 an element. */
static uint64_t input_flops(const shared_input *x) {
    return x->quantised ? 3 * x->rows * x->n_cols : 0;
}

static uint64_t layer_flops(const model_config *c, const cost_dims *s, uint64_t rows, const matrix_storage *w, bool int8) {
    shared_input attn = {rows, s->d, false}, out = {rows, s->q, false}, ffn = {rows, s->d, false}, down = {rows, s->f, false};
    uint64_t n = product_flops(w[MATRIX_Q], s->q, &attn, int8);
    n += product_flops(w[MATRIX_K], s->kd, &attn, int8);
    n += product_flops(w[MATRIX_V], s->kd, &attn, int8);
    n += product_flops(w[MATRIX_O], s->d, &out, int8);
    if (c->gated) n += product_flops(w[MATRIX_GATE], s->f, &ffn, int8);
    n += product_flops(w[MATRIX_UP], s->f, &ffn, int8);
    n += product_flops(w[MATRIX_DOWN], s->d, &down, int8);
    return n + input_flops(&attn) + input_flops(&out) + input_flops(&ffn) + input_flops(&down);
}

uint64_t cost_quantise_flops(const model_config *c, const cost_dims *s, const cost_rows *r, const execution_plan *p) {
    bool int8 = p->int8_activations && !p->blas;
    uint64_t n = 0;
    for (int il = 0; il < c->n_layers; il++) n += layer_flops(c, s, r->rows, p->weights->layers[il], int8);
    if (r->logit_rows > 0) {
        shared_input x = {r->logit_rows, s->d, false};
        n += product_flops(c->tied ? p->weights->embedding : p->weights->head, s->v, &x, int8);
        n += input_flops(&x);
    }
    if (p->kv_type == DTYPE_Q8_0) {
        n += 2 * s->nh * r->pairs;              /* one a score, one a weighted row of V */
        n += 3 * r->rows * s->nl * (2 * s->kd); /* written */
    }
    return n;
}
