#include "engine/step.h"

#include <stdio.h>

#include "kernels/rows.h"

const char *const step_op_names[N_OPS] = {
#define OP_NAME(id, name) name,
    OP_LIST(OP_NAME)
#undef OP_NAME
};

static void rows_prepare(step *s) {
    s->n_rows = s->n_logit_rows = 0;
    for (int i = 0; i < s->n_seqs; i++) {
        const step_sequence *q = &s->seqs[i];
        for (int t = 0; t < q->n_new; t++, s->n_rows++) {
            s->ids[s->n_rows] = q->ids[t];
            s->pos[s->n_rows] = q->kv->n_tokens + t;
            s->row_seq[s->n_rows] = i;
            s->stored[s->n_rows] = true;
            if (t >= q->n_new - q->n_logit_rows) s->logit_rows[s->n_logit_rows++] = s->n_rows;
        }
    }
}

/* Tokens in the full pages that both sequences lead with, as far as both have them cached. */
static int shared_tokens(const kv_sequence *a, const kv_sequence *b, int page_size) {
    int n = a->n_tokens < b->n_tokens ? a->n_tokens / page_size : b->n_tokens / page_size, i = 0;
    while (i < n && a->pages[i] >= 0 && a->pages[i] == b->pages[i]) i++;
    return i * page_size;
}

/* Decode rows of neighbours that lead with the same pages read these once, together. A group takes in the next sequence as long as what is
 * shared does not shrink, and as its rows fit a tile. */
static void groups_prepare(step *s) {
    int n_groups = 0;
    for (int i = 0, size; i < s->n_seqs; i += size) {
        size = 1;
        int shared = 0;
        while (s->seqs[i].n_new == 1 && i + size < s->n_seqs && s->seqs[i + size].n_new == 1 && size < s->plan.query_tile) {
            int n = shared_tokens(s->seqs[i].kv, s->seqs[i + size].kv, s->plan.page_size);
            if (n == 0 || (size > 1 && n < shared)) break;
            if (size == 1) shared = n;
            size++;
        }
        for (int m = i; m < i + size && size > 1; m++) {
            s->plan_seqs[m].group = n_groups;
            s->plan_seqs[m].n_shared = shared;
        }
        n_groups += size > 1;
    }
}

static void plan_prepare(step *s) {
    for (int i = 0; i < s->n_seqs; i++) {
        const step_sequence *q = &s->seqs[i];
        s->plan_seqs[i] =
            (plan_sequence){.n_cached = q->kv->n_tokens, .n_new = q->n_new, .n_logit_rows = q->n_logit_rows, .group = -1};
    }
    s->plan.n_sequences = s->n_seqs;
    s->plan.sequences = s->plan_seqs;
    groups_prepare(s);
}

/* One task for each tile of rows of a sequence, or for each group. */
static void tasks_prepare(const step *s, task_list *list, bool with_groups) {
    list->n_tasks = 0;
    int row = 0;
    for (int i = 0; i < s->n_seqs;) {
        const plan_sequence *p = &s->plan_seqs[i];
        if (with_groups && p->group >= 0) {
            int size = 1;
            while (i + size < s->n_seqs && s->plan_seqs[i + size].group == p->group) size++;
            list->tasks[list->n_tasks++] = (attention_task){.n_members = size,
                                                            .first_row = row,
                                                            .n_rows = 1,
                                                            .n_shared = p->n_shared,
                                                            .pos = s->pos + row,
                                                            .views = s->views + i};
            row += size;
            i += size;
            continue;
        }
        for (int t = 0; t < p->n_new; t += s->plan.query_tile) {
            int n = p->n_new - t < s->plan.query_tile ? p->n_new - t : s->plan.query_tile;
            list->tasks[list->n_tasks++] = (attention_task){
                .n_members = 1, .first_row = row + t, .n_rows = n, .pos = s->pos + row + t, .views = s->views + i};
        }
        row += p->n_new;
        i++;
    }
}

static void views_prepare(step *s) {
    int at = 0;
    for (int i = 0; i < s->n_seqs; i++) {
        s->first_page_pointer[i] = at;
        s->views[i] =
            (kv_view){.layout = &s->cache->layout, .pages = s->page_pointers + at, .n_cached = s->seqs[i].kv->n_tokens};
        at += s->seqs[i].kv->n_pages;
    }
}

void step_prepare(step *s, step_sequence *seqs, int n_seqs) {
    s->seqs = seqs;
    s->n_seqs = n_seqs;
    rows_prepare(s);
    plan_prepare(s);
    views_prepare(s);
    tasks_prepare(s, &s->tasks, true);
    if (s->model->config.window > 0) tasks_prepare(s, &s->windowed_tasks, false);
}

void step_judge(step *s) {
    const float *logits = s->logits;
    for (int i = 0, row = 0; i < s->n_seqs; i++) {
        step_sequence *q = &s->seqs[i];
        size_t n = (size_t)q->n_logit_rows * (size_t)s->model->config.n_vocab;
        q->bad_position = -1;
        for (int t = q->n_new - 1; t >= 0; t--) {
            if (!s->stored[row + t]) q->bad_position = s->pos[row + t];
        }
        q->finite = q->bad_position < 0 && row_finite(logits, n);
        if (n > 0) logits += n;
        row += q->n_new;
    }
}

status step_not_finite(const step_sequence *q, int which, error *err) {
    char who[32] = "", where[48];
    int last = q->kv->n_tokens - 1, first = last - q->n_new + 1;
    if (which >= 0) snprintf(who, sizeof who, " of sequence %d", which);
    if (first < last) {
        snprintf(where, sizeof where, "positions %d to %d", first, last);
    } else {
        snprintf(where, sizeof where, "position %d", last);
    }
    if (q->bad_position >= 0) {
        return error_set(
            err, ERR_NUMERIC,
            "K or V of position %d%s is not a finite number as the cache stores it, in the step of %s (beyond the range "
            "of the cache's type: try --kv-type f32; else a weight is NaN or infinite)",
            q->bad_position, who, where);
    }
    return error_set(err, ERR_NUMERIC,
                     "a logit%s is not a finite number in the step of %s (a weight is NaN or infinite, or fp16 overflowed: try "
                     "--weights f32 --kv-type f32)",
                     who, where);
}
