#include "tools/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantity.h"

static const char *const phase_names[N_PHASES] = {"prefill", "decode"};

void ledger_init(ledger *l, const model_config *c) {
    *l = (ledger){.config = c};
}

void ledger_free(ledger *l) {
    free(l->entries);
    *l = (ledger){0};
}

void ledger_observe(void *user, const step_report *r) {
    ledger *l = user;
    if (l->n == l->room) {
        size_t room = l->room == 0 ? 64 : 2 * l->room;
        ledger_entry *larger = realloc(l->entries, room * sizeof *larger);
        if (larger == NULL) {
            l->failed = true;
            return;
        }
        l->entries = larger;
        l->room = room;
    }
    ledger_entry *s = &l->entries[l->n++];
    *s = (ledger_entry){.phase = l->phase, .n_steps = 1, .counted = r->counted, .seconds = r->seconds};
    s->n_workers_least = s->n_workers_most = r->n_workers;
    memcpy(s->op_seconds, r->op_seconds, sizeof s->op_seconds);
    cost_predict(&s->predicted, l->config, r->plan);
    for (int i = 0; i < r->plan->n_sequences; i++) {
        const plan_sequence *q = &r->plan->sequences[i];
        s->n_rows += (uint64_t)q->n_new;
        s->n_logit_rows += (uint64_t)q->n_logit_rows;
        s->n_cached += (uint64_t)q->n_cached;
        s->n_visible = (uint64_t)q->n_cached + (uint64_t)q->n_new;
        s->n_sequences++;
    }
}

static void entry_add(ledger_entry *sum, const ledger_entry *s) {
    if (sum->n_steps == 0 || s->n_workers_least < sum->n_workers_least) sum->n_workers_least = s->n_workers_least;
    if (s->n_workers_most > sum->n_workers_most) sum->n_workers_most = s->n_workers_most;
    sum->n_steps += s->n_steps;
    sum->n_rows += s->n_rows;
    sum->n_logit_rows += s->n_logit_rows;
    sum->n_sequences += s->n_sequences;
    sum->n_cached += s->n_cached;
    sum->n_visible = s->n_visible;
    term_counts_add(&sum->predicted, &s->predicted);
    term_counts_add(&sum->counted, &s->counted);
    sum->seconds += s->seconds;
    for (int k = 0; k < N_OPS; k++) sum->op_seconds[k] += s->op_seconds[k];
}

ledger_entry ledger_sum(const ledger *l, phase p) {
    ledger_entry sum = {.phase = p};
    for (size_t i = 0; i < l->n; i++) {
        if (l->entries[i].phase == p) entry_add(&sum, &l->entries[i]);
    }
    return sum;
}

ledger_entry ledger_since(const ledger *l, size_t first) {
    ledger_entry sum = {.phase = l->phase};
    for (size_t i = first; i < l->n; i++) entry_add(&sum, &l->entries[i]);
    return sum;
}

static bool entry_agrees(const ledger_entry *s) {
    return memcmp(&s->predicted, &s->counted, sizeof s->predicted) == 0;
}

bool ledger_agrees(const ledger *l) {
    for (size_t i = 0; i < l->n; i++) {
        if (!entry_agrees(&l->entries[i])) return false;
    }
    return l->n > 0 && !l->failed;
}

static const struct {
    term_class class_;
    const char *words;
} class_rows[] = {
    {CLASS_MATMUL, "matrix products, FLOPs"},
    {CLASS_ATTENTION, "attention, FLOPs"},
    {CLASS_OTHER, "other, FLOPs"},
    {CLASS_WEIGHT_BYTES, "weights read, bytes"},
    {CLASS_KV_BYTES, "K and V, bytes"},
    {CLASS_LOGIT_BYTES, "logits, bytes"},
    {CLASS_COUNT, "counts"},
};

static void print_row(FILE *out, const char *indent, const char *words, uint64_t predicted, uint64_t counted) {
    fprintf(out, "%s%-*s %18s %18s  %s\n", indent, 40 - (int)strlen(indent), words, format_exact(predicted).text,
            format_exact(counted).text, predicted == counted ? "=" : "DIFFERS");
}

static void print_measured(const ledger_entry *s, FILE *out) {
    double flops = (double)term_flops_sum(&s->counted), bytes = (double)term_bytes_sum(&s->counted);
    fprintf(out, "  measured: %s for %s %s", format_rounded(s->seconds, UNIT_SECONDS, UNITS_DECIMAL).text,
            format_exact((uint64_t)s->n_steps).text, s->n_steps == 1 ? "step" : "steps");
    if (s->n_workers_least < s->n_workers_most) fprintf(out, " on %d to %d threads", s->n_workers_least, s->n_workers_most);
    if (s->n_workers_least == s->n_workers_most && s->n_workers_most > 1) fprintf(out, " on %d threads", s->n_workers_most);
    if (s->seconds > 0) {
        fprintf(out, ", %s", format_rounded((double)s->n_rows / s->seconds, UNIT_TOKENS_PER_SECOND, UNITS_DECIMAL).text);
        fprintf(out, ", %s", format_rounded(flops / s->seconds, UNIT_FLOPS_PER_SECOND, UNITS_DECIMAL).text);
        fprintf(out, ", %s", format_rounded(bytes / s->seconds, UNIT_BYTES_PER_SECOND, UNITS_DECIMAL).text);
    }
    fprintf(out, "\n");
}

void ledger_print_phase(const ledger_entry *s, ledger_detail detail, FILE *out) {
    if (s->n_steps == 0) return;
    fprintf(out, "%s: %s rows in %d %s\n", phase_names[s->phase], format_exact(s->n_rows).text, s->n_steps,
            s->n_steps == 1 ? "step" : "steps");
    fprintf(out, "  %-38s %18s %18s\n", "", "predicted", "counted");
    for (size_t k = 0; k < sizeof class_rows / sizeof *class_rows; k++) {
        term_class c = class_rows[k].class_;
        if (c != CLASS_COUNT)
            print_row(out, "  ", class_rows[k].words, term_class_sum(&s->predicted, c), term_class_sum(&s->counted, c));
        for (int i = 0; i < N_TERMS; i++) {
            bool zero = s->predicted.n[i] == 0 && s->counted.n[i] == 0;
            if (term_table[i].class_ != c || detail == DETAIL_CLASSES || (detail == DETAIL_TERMS && zero)) continue;
            print_row(out, c == CLASS_COUNT ? "  " : "    ", term_table[i].words, s->predicted.n[i], s->counted.n[i]);
        }
    }
    print_measured(s, out);
}

void ledger_print_steps(const ledger *l, FILE *out) {
    fprintf(out, "  %4s %-8s %6s %8s %16s %14s %14s %14s %14s %12s\n", "step", "phase", "rows", "keys L", "matmul FLOPs",
            "attention", "other", "weight bytes", "K, V bytes", "time");
    for (size_t i = 0; i < l->n; i++) {
        const ledger_entry *s = &l->entries[i];
        fprintf(out, "  %4zu %-8s %6s %8s", i, phase_names[s->phase], format_exact(s->n_rows).text,
                format_exact(s->n_visible).text);
        fprintf(out, " %16s", format_exact(term_class_sum(&s->counted, CLASS_MATMUL)).text);
        fprintf(out, " %14s", format_exact(term_class_sum(&s->counted, CLASS_ATTENTION)).text);
        fprintf(out, " %14s", format_exact(term_class_sum(&s->counted, CLASS_OTHER)).text);
        fprintf(out, " %14s", format_exact(term_class_sum(&s->counted, CLASS_WEIGHT_BYTES)).text);
        fprintf(out, " %14s", format_exact(term_class_sum(&s->counted, CLASS_KV_BYTES)).text);
        fprintf(out, " %12s  %s\n", format_rounded(s->seconds, UNIT_SECONDS, UNITS_DECIMAL).text,
                entry_agrees(s) ? "= predicted" : "DIFFERS from predicted");
    }
}

static json_t *terms_json(const term_counts *c) {
    json_t *o = json_object();
    for (int i = 0; i < N_TERMS; i++) json_object_set_new(o, term_table[i].key, json_integer((json_int_t)c->n[i]));
    return o;
}

static json_t *entry_json(const ledger_entry *s) {
    json_t *ops = json_object();
    for (int i = 0; i < N_OPS; i++) json_object_set_new(ops, step_op_names[i], json_real(s->op_seconds[i]));
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:b, s:f, s:o}", "phase", phase_names[s->phase],
                     "n_steps", s->n_steps, "n_rows", (json_int_t)s->n_rows, "n_logit_rows", (json_int_t)s->n_logit_rows,
                     "n_sequences", (json_int_t)s->n_sequences, "n_cached", (json_int_t)s->n_cached, "n_visible",
                     (json_int_t)s->n_visible, "n_workers_least", s->n_workers_least, "n_workers_most", s->n_workers_most,
                     "predicted", terms_json(&s->predicted), "counted", terms_json(&s->counted), "agrees", entry_agrees(s),
                     "seconds", s->seconds, "op_seconds", ops);
}

json_t *ledger_json(const ledger *l) {
    json_t *steps = json_array(), *o = json_object();
    for (size_t i = 0; i < l->n; i++) json_array_append_new(steps, entry_json(&l->entries[i]));
    for (int p = 0; p < N_PHASES; p++) {
        ledger_entry s = ledger_sum(l, (phase)p);
        if (s.n_steps > 0) json_object_set_new(o, phase_names[p], entry_json(&s));
    }
    json_object_set_new(o, "steps", steps);
    json_object_set_new(o, "agrees", json_boolean(ledger_agrees(l)));
    return o;
}
