/* attention_row.c - a range of keys for one row: scores, softmax and values of all the job's heads in one call. See attention_job.h. */
#include "kernels/attention_job.h"

/* What the call computed, for all of the job's heads. */
static void post(const head_job *j, int n_keys) {
    meter *m = &j->w->meter;
    uint64_t keys = (uint64_t)n_keys, rows = (uint64_t)j->n_rows, products = 2 * rows * keys * (uint64_t)j->s->head_dim;
    meter_post(m, TERM_FLOPS_SCORES, products);
    meter_post(m, TERM_FLOPS_SOFTMAX, rows * keys * softmax_flops(j->s));
    meter_post(m, TERM_FLOPS_VALUES, products);
    if (j->kv_head == 0) meter_post(m, TERM_KEYS_ATTENDED, keys);
}

bool range_row(const head_job *j, int range, partial p) {
    const kv_view *view = &j->task->views[0];
    const kv_layout *l = view->layout;
    int from, to;
    kv_span span;
    visible_in_range(j->s, j->task->pos[0], range, &from, &to);
    if (from >= to) return true;
    if (l->format->attend == NULL || j->s->alibi_slopes != NULL) return false;
    if (!kv_span_get(&span, view, j->kv_head, j->n_kv_heads, from, to, &j->w->meter)) return false;
    row_attention a = {.o = p.o,
                       .q = j->q,
                       .max = p.max,
                       .sum = p.sum,
                       .scores = j->scores,
                       .ld_scores = (size_t)j->s->key_split,
                       .keys = span.keys,
                       .values = span.values,
                       .k_stride = span.k_stride,
                       .head_bytes = l->head_bytes,
                       .n_heads = j->n_kv_heads,
                       .group = j->group,
                       .head_dim = l->head_dim,
                       .n_keys = to - from,
                       .scale = j->s->scale,
                       .softcap = j->s->softcap};
    l->format->attend(&a, j->w->kernels);
    post(j, to - from);
    return true;
}
