/* attention_gather.c - a range of keys for many rows of one sequence, without a window. See attention_job.h.
 *
 * The range's keys are converted to fp32 once, side by side, and then its values: products over the whole range in place of one a page,
 * and no conversion inside them. Every row sees the range from its beginning, and the rows see one key more each:
 *
 *            keys ->  begin          shared (a multiple of 16)
 *     first row       |###############|##
 *                     |###############|###         all rows at once up to `shared`; beyond it each row for itself,
 *     last row        |###############|####        exactly as far as it sees
 */
#include "kernels/attention_job.h"

/* Keys [begin, to) in blocks of 16: element e of key i at [i / 16][e][i % 16]. scale[i]: int8's. */
static void keys_gather(const head_job *j, int begin, int to, float *scale) {
    const kv_view *view = &j->task->views[0];
    const kv_layout *l = view->layout;
    size_t hd = (size_t)l->head_dim;
    for (int key = begin, n; key < to; key += n) {
        int at = key - begin, lane = at % KV_BLOCK, end = key + KV_BLOCK - lane;
        kv_run run = kv_keys(view, j->kv_head, key, end < to ? end : to, &j->w->meter);
        float *out = j->gathered + (size_t)(at - lane) * hd + (size_t)lane;
        n = run.n;
        if (n == KV_BLOCK && run.k_stride == KV_BLOCK) {
            l->format->to_f32(out, run.data, hd * KV_BLOCK, j->w->kernels);
        } else {
            for (size_t e = 0; e < hd; e++) {
                l->format->to_f32(out + e * KV_BLOCK, (const unsigned char *)run.data + e * run.k_stride * l->elem_bytes,
                                  (size_t)n, j->w->kernels);
            }
        }
        if (run.scales != NULL) halves_read(scale + at, run.scales, n, j->w->kernels);
    }
}

static void values_gather(const head_job *j, int begin, int to, float *scale) {
    const kv_view *view = &j->task->views[0];
    const kv_layout *l = view->layout;
    size_t hd = (size_t)l->head_dim;
    for (int key = begin, n; key < to; key += n) {
        kv_run run = kv_values(view, j->kv_head, key, to, &j->w->meter);
        n = run.n;
        l->format->to_f32(j->gathered + (size_t)(key - begin) * hd, run.data, (size_t)n * hd, j->w->kernels);
        if (run.scales != NULL) halves_read(scale + (key - begin), run.scales, n, j->w->kernels);
    }
}

/* Scores of n_rows rows for keys [from, to) of the range, from a multiple of 16. */
static void block_scores(const head_job *j, int row, int n_rows, int from, int to, const float *scale) {
    if (from >= to) return;
    panel_product p = {.y = j->scores + (size_t)row * (size_t)j->s->key_split + from,
                       .ldy = (size_t)j->s->key_split,
                       .x = j->q + (size_t)row * j->ldq,
                       .ldx = j->ldq,
                       .w = j->gathered + (size_t)from * (size_t)j->s->head_dim,
                       .k_stride = KV_BLOCK,
                       .chunk_stride = KV_BLOCK * (size_t)j->s->head_dim,
                       .n_t = n_rows,
                       .n_k = j->s->head_dim,
                       .width = to - from};
    job_scores(j, &p, &kv_f32);
    if (scale != NULL) job_scale(j, row, n_rows, from, to - from, scale + from);
}

static void block_values(const head_job *j, int row, int n_rows, int from, int to, const float *scale, const partial *out) {
    if (from >= to) return;
    if (scale != NULL) job_scale(j, row, n_rows, from, to - from, scale + from);
    panel_product p = {.y = out->o + (size_t)row * out->ldo,
                       .ldy = out->ldo,
                       .x = j->scores + (size_t)row * (size_t)j->s->key_split + from,
                       .ldx = (size_t)j->s->key_split,
                       .w = j->gathered + (size_t)from * (size_t)j->s->head_dim,
                       .k_stride = (size_t)j->s->head_dim,
                       .chunk_stride = KV_BLOCK,
                       .n_t = n_rows,
                       .n_k = to - from,
                       .width = j->s->head_dim,
                       .more = from > 0};
    job_values(j, &p, &kv_f32);
}

void range_gather(const head_job *j, int range, partial p) {
    const attention_task *t = j->task;
    int begin = range * j->s->key_split, from, to, unused;
    visible_in_range(j->s, t->pos[0], range, &from, &to);
    int shared = to > begin ? (to - begin) / KV_BLOCK * KV_BLOCK : 0;
    visible_in_range(j->s, t->pos[t->n_rows - 1], range, &unused, &to);
    float *scale =
        t->views[0].layout->format->scale_bytes > 0 ? j->gathered + (size_t)j->s->key_split * (size_t)j->s->head_dim : NULL;

    keys_gather(j, begin, to, scale);
    block_scores(j, 0, j->n_rows, 0, shared, scale);
    for (int i = 0; i < t->n_rows; i++) {
        visible_in_range(j->s, t->pos[i], range, &from, &to);
        block_scores(j, i * j->group, j->group, shared, to - begin, scale);
    }
    job_softmax(j, range, p);

    values_gather(j, begin, to, scale);
    block_values(j, 0, j->n_rows, 0, shared, scale, &p);
    for (int i = 0; i < t->n_rows; i++) {
        visible_in_range(j->s, t->pos[i], range, &from, &to);
        block_values(j, i * j->group, j->group, shared, to - begin, scale, &p);
    }
}
