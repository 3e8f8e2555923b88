/* forward.c - the forward pass: one layer, and the layers between the embedding and the head.
 *
 * Every worker of the team runs this; each operation takes its share of the work and returns when all have done theirs. The lines below are
 * the formula, in order. An operation that a model does not have (a norm, a bias, positions of another kind) is a test inside the helper
 * that would do it, never a second forward pass. */
#include "engine/step.h"
#include "kernels/clock.h"
#include "kernels/rows.h"

/* The time since the last mark was this operation's. */
static void mark(step *s, step_op op, const worker *w) {
    if (!s->profile || w->id != 0) return;
    double t = clock_seconds();
    s->op_seconds[op] += t - s->mark;
    s->mark = t;
}

static row_norm norm_of(const norm_weights *n, const model_config *c) {
    return (row_norm){.kind = c->norm == NORM_RMS ? ROW_NORM_RMS : ROW_NORM_LAYER,
                      .eps = c->norm_eps,
                      .n = n->n,
                      .gain = n->gain,
                      .bias = n->bias};
}

/* y = norm(x), or nothing where the norm is absent: returns what the next operation should read. */
static const float *norm(float *y, const float *x, const norm_weights *n, const step *s, worker *w) {
    if (n->gain == NULL) return x;
    row_norm r = norm_of(n, &s->model->config);
    rows_norm(y, x, &r, s->n_rows, 1, NULL, w);
    return y;
}

/* x = norm(x): the original transformer's place for it, after the addition. */
static void residual_norm(const norm_weights *n, step *s, worker *w) {
    norm(s->x, s->x, n, s, w);
}

/* q (or k) = norm(q), head by head or over the whole width. */
static void qk_norm(float *x, int width, const norm_weights *n, const step *s, worker *w) {
    if (n->gain == NULL) return;
    row_norm r = norm_of(n, &s->model->config);
    rows_norm(x, x, &r, s->n_rows, width / n->n, NULL, w);
}

static void rope(float *x, int n_heads, int il, const step *s, worker *w) {
    const model_config *c = &s->model->config;
    if (c->position != POSITION_ROPE) return;
    const float *angles = c->layer_windowed[il] && s->cos_sin_local != NULL ? s->cos_sin_local : s->cos_sin;
    rows_rope(x, n_heads, c->head_dim, angles, c->rope_dim, c->rope == ROPE_PAIRS, s->n_rows, w);
}

/* Looks up this layer's pages of every sequence, once: the page table becomes pointers that attention reads through.
 * A windowed layer looks up only what its first new row still sees. No barrier: the next operation has one. */
static void kv_open(step *s, int il, worker *w) {
    const model_config *c = &s->model->config;
    int first, last;
    worker_share(w, s->n_seqs, &first, &last);
    for (int i = first; i < last; i++) {
        const kv_sequence *kv = s->seqs[i].kv;
        int from = 0, end = (kv->n_tokens + s->seqs[i].n_new - 1) / s->plan.page_size + 1;
        if (c->layer_windowed[il] && kv->n_tokens >= c->window) from = (kv->n_tokens - c->window + 1) / s->plan.page_size;
        for (int p = from; p < end; p++)
            s->page_pointers[s->first_page_pointer[i] + p] = kv_cache_page(s->cache, il, kv->pages[p]);
        meter_post(&w->meter, TERM_BYTES_PAGE_TABLE, (uint64_t)(end - from) * sizeof(int32_t));
    }
}

/* K and V grow by this step's rows. */
static void kv_append(step *s, worker *w) {
    const model_config *c = &s->model->config;
    int first, last;
    worker_share(w, s->n_rows, &first, &last);
    for (int t = first; t < last; t++) {
        size_t at = (size_t)t * (size_t)config_kv_dim(c);
        s->stored[t] &= kv_write(&s->views[s->row_seq[t]], s->pos[t], s->k + at, s->v + at, w->kernels, &w->meter);
    }
    worker_barrier(w);
}

static void attend(step *s, int il, worker *w) {
    bool windowed = s->model->config.layer_windowed[il];
    const task_list *list = windowed ? &s->windowed_tasks : &s->tasks;
    attention_shape shape = s->attention;
    if (!windowed) shape.window = 0;
    attention(s->o, s->q, list->tasks, list->n_tasks, &shape, s->partials, w);
}

/* x += branch(in): in one pass, or by way of a norm on the branch's output. */
static void add_branch(const matrix *m, const float *in, const norm_weights *post, step *s, worker *w) {
    const model_config *c = &s->model->config;
    if (post->gain == NULL) {
        linear_add(s->x, m, in, s->n_rows, c->residual_scale, &s->mode, w);
        return;
    }
    linear(&(linear_output){m, s->branch, 0}, 1, in, s->n_rows, &s->mode, w);
    norm(s->branch, s->branch, post, s, w);
    rows_add(s->x, s->branch, s->n_rows, c->d_model, c->residual_scale, w);
}

/* x += Wo attn(rope(Wq n), K, V),  n = norm(x);  K, V grow by T rows */
static void attention_half(const float *n, const layer_weights *l, int il, step *s, worker *w) {
    const model_config *c = &s->model->config;
    kv_open(s, il, w);
    linear((linear_output[]){{&l->wq, s->q, 0}, {&l->wk, s->k, 0}, {&l->wv, s->v, 0}}, 3, n, s->n_rows, &s->mode, w);
    mark(s, OP_QKV, w);
    qk_norm(s->q, config_q_dim(c), &l->q_norm, s, w);
    qk_norm(s->k, config_kv_dim(c), &l->k_norm, s, w);
    rope(s->q, c->n_heads, il, s, w);
    rope(s->k, c->n_kv_heads, il, s, w);
    kv_append(s, w);
    mark(s, OP_KV_WRITE, w);
    attend(s, il, w);
    mark(s, OP_ATTENTION, w);
    add_branch(&l->wo, s->o, &l->attn_post, s, w);
    mark(s, OP_OUTPUT, w);
}

/* x += Wdown act(Wup n), or Wdown (act(Wgate n) * Wup n) */
static void ffn_half(const float *n, const layer_weights *l, step *s, worker *w) {
    const model_config *c = &s->model->config;
    linear_activate(s->h, c->gated ? &l->w_gate : NULL, &l->w_up, (int)c->activation, n, s->n_rows, &s->mode, w);
    add_branch(&l->w_down, s->h, &l->ffn_post, s, w);
    mark(s, OP_FFN, w);
}

/* One block: attention, then the feed-forward. A parallel block takes both from the same x. */
static void layer_forward(step *s, int il, worker *w) {
    const layer_weights *l = &s->model->layers[il];
    const float *n = norm(s->n, s->x, &l->attn_pre, s, w), *n_ffn = n;
    if (s->model->config.parallel_residual) {
        if (l->ffn_pre.gain != NULL) n_ffn = norm(s->n_ffn, s->x, &l->ffn_pre, s, w);
        mark(s, OP_NORM, w);
        attention_half(n, l, il, s, w);
    } else {
        mark(s, OP_NORM, w);
        attention_half(n, l, il, s, w);
        residual_norm(&l->attn_residual, s, w);
        n_ffn = norm(s->n, s->x, &l->ffn_pre, s, w);
        mark(s, OP_NORM, w);
    }
    ffn_half(n_ffn, l, s, w);
    residual_norm(&l->ffn_residual, s, w);
}

/* logits = Whead norm(x), for the rows that want them only */
static void head(step *s, worker *w) {
    if (s->n_logit_rows == 0) return;
    const model *m = s->model;
    const model_config *c = &m->config;
    if (m->final_norm.gain != NULL) {
        row_norm r = norm_of(&m->final_norm, c);
        rows_norm(s->n, s->x, &r, s->n_logit_rows, 1, s->logit_rows, w);
    } else {
        rows_pick(s->n, s->x, s->logit_rows, s->n_logit_rows, c->d_model, w);
    }
    linear(&(linear_output){&m->head, s->logits, TERM_BYTES_LOGITS}, 1, s->n, s->n_logit_rows, &s->mode, w);
    rows_scale_cap(s->logits, s->n_logit_rows, c->n_vocab, c->logit_scale, c->final_softcap, w);
    mark(s, OP_HEAD, w);
}

void forward(step *s, worker *w) {
    const model *m = s->model;
    const model_config *c = &m->config;
    if (s->profile && w->id == 0) s->mark = clock_seconds();
    rows_embed(s->x, &m->embedding, c->position == POSITION_LEARNED ? &m->positions : NULL, s->ids, s->pos, s->n_rows,
               c->embedding_scale, w);
    residual_norm(&m->embedding_norm, s, w);
    if (s->cos_sin != NULL) rope_angles(s->cos_sin, m->rope_freq, c->rope_dim, m->rope_magnitude, s->pos, s->n_rows, w);
    if (s->cos_sin_local != NULL) rope_angles(s->cos_sin_local, m->rope_local_freq, c->rope_dim, 1.0f, s->pos, s->n_rows, w);
    mark(s, OP_EMBED, w);
    for (int il = 0; il < c->n_layers; il++) layer_forward(s, il, w);
    head(s, w);
}
