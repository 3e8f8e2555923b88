#include "engine/cost_share.h"

enum { N_FLOP_TERMS = TERM_FLOPS_MERGE + 1 }; /* terms.h has them first */

/* FLOPs that one more of something adds: f(2) - f(1), because some are per pass. */
static void rate_of(uint64_t *rate, const cost_shares *s, cost_rows one, const execution_plan *p) {
    uint64_t first[N_TERMS] = {0};
    cost_rows two = {2 * one.rows, 2 * one.logit_rows, 2 * one.pairs, 2 * one.merges};
    cost_flop_terms(first, s->config, &s->dims, &one, p);
    cost_flop_terms(rate, s->config, &s->dims, &two, p);
    for (int t = 0; t < N_FLOP_TERMS; t++) rate[t] -= first[t];
}

void cost_shares_init(cost_shares *s, const model_config *c, const execution_plan *p) {
    *s = (cost_shares){.config = c, .dims = cost_dims_of(c)};
    for (int blas = 0; blas < 2; blas++) {
        execution_plan plan = *p;
        plan.blas = blas != 0;
        rate_of(s->rates[blas].row, s, (cost_rows){.rows = 1}, &plan);
        rate_of(s->rates[blas].logit_row, s, (cost_rows){.logit_rows = 1}, &plan);
        rate_of(s->rates[blas].pair, s, (cost_rows){.pairs = 1}, &plan);
        rate_of(s->rates[blas].merge, s, (cost_rows){.merges = 1}, &plan);
    }
}

/* This sequence's part of the tokens that its group reads once. */
static uint64_t shared_part(const execution_plan *p, int b) {
    const plan_sequence *q = p->sequences;
    int first = b, end = b + 1;
    while (first > 0 && q[first - 1].group == q[b].group) first--;
    while (end < p->n_sequences && q[end].group == q[b].group) end++;
    uint64_t size = (uint64_t)(end - first), n = (uint64_t)q[b].n_shared;
    return n / size + ((uint64_t)(b - first) < n % size);
}

void cost_own(term_counts *out, const cost_shares *s, const execution_plan *p, int b) {
    *out = (term_counts){{0}};
    cost_rows r = cost_rows_of(&s->dims, p, b);
    for (int t = 0; t < N_FLOP_TERMS; t++) {
        out->n[t] = r.rows * s->rates[p->blas].row[t] + r.logit_rows * s->rates[p->blas].logit_row[t] +
                    r.pairs * s->rates[p->blas].pair[t] + r.merges * s->rates[p->blas].merge[t];
    }
    cost_kv_sequence(out->n, &s->dims, p, b, p->sequences[b].group >= 0 ? shared_part(p, b) : 0);
    out->n[TERM_BYTES_LOGITS] = 4 * r.logit_rows * s->dims.v;
    out->n[TERM_KEYS_COMPUTED] = s->dims.nl * r.rows;
    out->n[TERM_KEYS_ATTENDED] = r.pairs;
}

/* What is left of a term, by rows. */
static void rest_divide(term_counts *parts, const execution_plan *p, int t, uint64_t rest, uint64_t n_rows) {
    uint64_t each = rest / n_rows, odd = rest % n_rows;
    for (int b = 0; b < p->n_sequences; b++) {
        uint64_t n = (uint64_t)p->sequences[b].n_new, more = odd < n ? odd : n;
        parts[b].n[t] += n * each + more;
        odd -= more;
    }
}

void cost_divide(term_counts *parts, const cost_shares *s, const execution_plan *p, const term_counts *counted) {
    term_counts rest = *counted;
    uint64_t n_rows = 0;
    for (int b = 0; b < p->n_sequences; b++) {
        cost_own(&parts[b], s, p, b);
        for (int t = 0; t < N_TERMS; t++) rest.n[t] -= parts[b].n[t];
        n_rows += (uint64_t)p->sequences[b].n_new;
    }
    for (int t = 0; t < N_TERMS; t++) {
        if (rest.n[t] != 0) rest_divide(parts, p, t, rest.n[t], n_rows);
    }
}

uint64_t cost_bytes_spared(const cost_shares *s, const execution_plan *p) {
    uint64_t tokens = 0;
    for (int b = 1; b < p->n_sequences; b++) {
        const plan_sequence *q = &p->sequences[b];
        if (q->group >= 0 && q[-1].group == q->group) tokens += (uint64_t)q->n_shared;
    }
    return tokens * cost_shared_token_bytes(&s->dims, p->kv_type);
}
