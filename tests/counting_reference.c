#include "tests/counting_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/counting_parts.h"

/* x += scale * branch, after the branch's own norm. */
static void branch_add(counting_run *r, double *x, double *branch, const norm_weights *post) {
    counter *c = &r->count;
    double scale = (double)r->c->residual_scale;
    counting_norm(r, branch, r->n_rows, 1, post);
    for (int i = 0; i < r->n_rows * r->c->d_model; i++) {
        c->to = TERM_FLOPS_MULTIPLIER;
        double b = scale != 1 ? mul(c, branch[i], scale) : branch[i];
        c->to = TERM_FLOPS_RESIDUAL;
        x[i] = add(c, x[i], b);
    }
    free(branch);
}

/* (a, b) -> (a cos - b sin, a sin + b cos) */
static void rotate(counting_run *r, double *x, int n_heads, int il) {
    const model_config *c = r->c;
    counter *n = &r->count;
    int half = c->rope_dim / 2;
    bool local = c->layer_windowed[il] && r->m->rope_local_freq != NULL;
    if (c->position != POSITION_ROPE) return;
    n->to = TERM_FLOPS_POSITION;
    for (int i = 0; i < r->n_rows * n_heads; i++) {
        double *head = x + i * c->head_dim, size = local ? 1 : (double)r->m->rope_magnitude;
        for (int k = 0; k < half; k++) {
            double angle = r->pos[i / n_heads] * (double)(local ? r->m->rope_local_freq : r->m->rope_freq)[k];
            double co = size * cos(angle), si = size * sin(angle); /* tables: not counted */
            double *a = head + (c->rope == ROPE_PAIRS ? 2 * k : k), *b = a + (c->rope == ROPE_PAIRS ? 1 : half);
            double turned = sub(n, mul(n, *a, co), mul(n, *b, si));
            *b = add(n, mul(n, *a, si), mul(n, *b, co));
            *a = turned;
        }
    }
}

static double *attention_branch(counting_run *r, int il, const double *x) {
    const model_config *c = r->c;
    const layer_weights *l = &r->m->layers[il];
    int q_dim = config_q_dim(c), kv_dim = config_kv_dim(c);
    counting_input in = counting_input_make(r, x, r->n_rows, c->d_model, (const matrix *[]){&l->wq, &l->wk, &l->wv}, 3);
    double *q = counting_linear(r, &l->wq, &in, TERM_FLOPS_Q, TERM_BYTES_Q);
    double *k = counting_linear(r, &l->wk, &in, TERM_FLOPS_KV, TERM_BYTES_KV);
    double *v = counting_linear(r, &l->wv, &in, TERM_FLOPS_KV, TERM_BYTES_KV);
    counting_input_free(&in);
    if (l->q_norm.gain != NULL) {
        counting_norm(r, q, r->n_rows, q_dim / l->q_norm.n, &l->q_norm);
        counting_norm(r, k, r->n_rows, kv_dim / l->k_norm.n, &l->k_norm);
    }
    rotate(r, q, c->n_heads, il);
    rotate(r, k, c->n_kv_heads, il);
    counting_store(r, il, k, v);
    double *o = counting_attention(r, il, q);
    in = counting_input_make(r, o, r->n_rows, q_dim, (const matrix *[]){&l->wo}, 1);
    double *y = counting_linear(r, &l->wo, &in, TERM_FLOPS_O, TERM_BYTES_O);
    counting_input_free(&in);
    free(q), free(k), free(v), free(o);
    return y;
}

/* Operations as the formulas have them; a change of sign is one. */
static double activate(counter *c, double x, activation_kind kind) {
    c->to = TERM_FLOPS_ACTIVATION;
    switch (kind) {
    case ACTIVATION_RELU:
        return larger(c, x, 0);
    case ACTIVATION_RELU2:
        x = larger(c, x, 0);
        return mul(c, x, x);
    case ACTIVATION_SILU:
        return divide(c, x, add(c, 1, power_of_e(c, negate(c, x))));
    case ACTIVATION_GELU_QUICK:
        return divide(c, x, add(c, 1, power_of_e(c, negate(c, mul(c, 1.702, x)))));
    case ACTIVATION_GELU_ERF:
        return mul(c, mul(c, 0.5, x), add(c, 1, error_function(c, mul(c, x, sqrt(0.5)))));
    case ACTIVATION_GELU_TANH: {
        double cube = mul(c, mul(c, mul(c, 0.044715, x), x), x);
        return mul(c, mul(c, 0.5, x), add(c, 1, tangent_h(c, mul(c, sqrt(2 / acos(-1)), add(c, x, cube)))));
    }
    }
    return NAN;
}

static double *ffn_branch(counting_run *r, int il, const double *x) {
    const model_config *c = r->c;
    const layer_weights *l = &r->m->layers[il];
    counter *n = &r->count;
    counting_input in =
        counting_input_make(r, x, r->n_rows, c->d_model, (const matrix *[]){&l->w_up, &l->w_gate}, c->gated ? 2 : 1);
    double *h = counting_linear(r, &l->w_up, &in, TERM_FLOPS_FFN, TERM_BYTES_FFN);
    double *gate = c->gated ? counting_linear(r, &l->w_gate, &in, TERM_FLOPS_FFN, TERM_BYTES_FFN) : NULL;
    counting_input_free(&in);
    for (int i = 0; i < r->n_rows * c->d_ff; i++) {
        double a = activate(n, gate != NULL ? gate[i] : h[i], c->activation);
        h[i] = gate != NULL ? mul(n, a, h[i]) : a;
    }
    in = counting_input_make(r, h, r->n_rows, c->d_ff, (const matrix *[]){&l->w_down}, 1);
    double *y = counting_linear(r, &l->w_down, &in, TERM_FLOPS_FFN, TERM_BYTES_FFN);
    counting_input_free(&in);
    free(h), free(gate);
    return y;
}

static double *copy(const double *x, size_t n) {
    double *y = counting_numbers(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

static void block(counting_run *r, double *x, int il) {
    const layer_weights *l = &r->m->layers[il];
    size_t size = (size_t)r->n_rows * (size_t)r->c->d_model;
    double *n1 = copy(x, size), *n2;
    counting_norm(r, n1, r->n_rows, 1, &l->attn_pre);
    if (r->c->parallel_residual) { /* both read what the block was given; one norm may serve both */
        n2 = copy(l->ffn_pre.gain != NULL ? x : n1, size);
        branch_add(r, x, attention_branch(r, il, n1), &l->attn_post);
    } else {
        branch_add(r, x, attention_branch(r, il, n1), &l->attn_post);
        counting_norm(r, x, r->n_rows, 1, &l->attn_residual);
        n2 = copy(x, size);
    }
    counting_norm(r, n2, r->n_rows, 1, &l->ffn_pre);
    branch_add(r, x, ffn_branch(r, il, n2), &l->ffn_post);
    counting_norm(r, x, r->n_rows, 1, &l->ffn_residual);
    free(n1), free(n2);
}

static double *embed(counting_run *r) {
    const model_config *c = r->c;
    counter *n = &r->count;
    int d = c->d_model;
    double *x = counting_numbers((size_t)r->n_rows * (size_t)d), *position = counting_numbers((size_t)d);
    for (int t = 0; t < r->n_rows; t++) {
        double *row = x + t * d, scale = (double)c->embedding_scale;
        counting_table_row(r, row, &r->m->embedding, r->seqs[r->row_seq[t]]->ids[r->pos[t]], TERM_BYTES_EMBEDDING);
        n->to = TERM_FLOPS_MULTIPLIER;
        for (int i = 0; i < d && scale != 1; i++) row[i] = mul(n, row[i], scale);
        if (c->position != POSITION_LEARNED) continue;
        counting_table_row(r, position, &r->m->positions, r->pos[t], TERM_BYTES_POSITION);
        n->to = TERM_FLOPS_POSITION;
        for (int i = 0; i < d; i++) row[i] = add(n, row[i], position[i]);
    }
    free(position);
    return x;
}

/* Logits of the rows that want them. */
static void head(counting_run *r, double *logits, const double *x, const int *wanted, int n_wanted) {
    const model_config *c = r->c;
    counter *n = &r->count;
    int d = c->d_model;
    double *rows = counting_numbers((size_t)n_wanted * (size_t)d), cap = (double)c->final_softcap;
    if (n_wanted == 0) {
        free(rows);
        return;
    }
    for (int t = 0; t < n_wanted; t++) memcpy(rows + t * d, x + wanted[t] * d, (size_t)d * sizeof *rows);
    counting_norm(r, rows, n_wanted, 1, &r->m->final_norm);
    counting_input in = counting_input_make(r, rows, n_wanted, d, (const matrix *[]){&r->m->head}, 1);
    double *y = counting_linear(r, &r->m->head, &in, TERM_FLOPS_HEAD, TERM_BYTES_HEAD);
    n->to = TERM_FLOPS_MULTIPLIER;
    for (int i = 0; i < n_wanted * c->n_vocab; i++) {
        if (c->logit_scale != 1) y[i] = mul(n, y[i], (double)c->logit_scale);
        if (cap != 0) y[i] = mul(n, tangent_h(n, divide(n, y[i], cap)), cap);
        logits[i] = y[i];
        n->n[TERM_BYTES_LOGITS] += sizeof(float);
    }
    counting_input_free(&in);
    free(rows), free(y);
}

static int rows_prepare(counting_run *r, int *wanted) {
    int n_wanted = 0;
    for (int b = 0; b < r->plan->n_sequences; b++) {
        const plan_sequence *p = &r->plan->sequences[b];
        if (p->n_cached != r->seqs[b]->n_tokens || p->n_cached + p->n_new > r->n_ctx) {
            fprintf(stderr, "counting reference: the plan is of another sequence\n");
            exit(1);
        }
        for (int t = 0; t < p->n_new; t++, r->n_rows++) {
            r->row_seq[r->n_rows] = b;
            r->pos[r->n_rows] = p->n_cached + t;
            if (t >= p->n_new - p->n_logit_rows) wanted[n_wanted++] = r->n_rows;
        }
    }
    return n_wanted;
}

void counting_step(term_counts *counts, double *logits, const model *m, const execution_plan *p,
                   counting_sequence *const *seqs) {
    *counts = (term_counts){{0}};
    counting_run r = {.m = m, .c = &m->config, .plan = p, .seqs = seqs, .n_ctx = seqs[0]->n_ctx, .count = {.n = counts->n}};
    size_t rows = 0;
    for (int b = 0; b < p->n_sequences; b++) rows += (size_t)p->sequences[b].n_new;
    int *memory = calloc(3 * rows, sizeof *memory), *wanted = memory + 2 * rows;
    if (memory == NULL) exit(1);
    r.row_seq = memory, r.pos = memory + rows;
    int n_wanted = rows_prepare(&r, wanted);
    double *x = embed(&r);
    counting_norm(&r, x, r.n_rows, 1, &m->embedding_norm);
    for (int il = 0; il < m->config.n_layers; il++) block(&r, x, il);
    head(&r, logits, x, wanted, n_wanted);
    for (int b = 0; b < p->n_sequences; b++) seqs[b]->n_tokens += p->sequences[b].n_new;
    free(x), free(memory);
}
