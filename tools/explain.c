#include "tools/explain.h"

#include <stddef.h>

typedef struct {
    const char *option, *choice, *words;
    size_t offset; /* of an int in question */
    int value;
} convention;

#define CONVENTION(option, field, choice, value, words)                                                                        \
    { option, choice, words, offsetof(question, field), value }

static const convention conventions[] = {
    CONVENTION("--attention", attention, "exact", ATTENTION_EXACT, "the keys that each query may see"),
    CONVENTION("--attention", attention, "full", ATTENTION_FULL, "every key for every query, as if nothing were masked"),
    CONVENTION("--attention", attention, "none", ATTENTION_NONE, "attention scores and values left out"),
    CONVENTION("--logit-rows", logits, "last", LOGITS_LAST, "the head sees the last row of a prefill"),
    CONVENTION("--logit-rows", logits, "all", LOGITS_ALL, "the head sees every row"),
    CONVENTION("--logit-rows", logits, "none", LOGITS_NONE, "the head left out: the blocks alone"),
    CONVENTION("--embedding", embedding, "lookup", EMBEDDING_LOOKUP,
               "rows of the embedding and position tables are read, no FLOPs"),
    CONVENTION("--embedding", embedding, "none", EMBEDDING_NONE, "those rows left out"),
    CONVENTION("--embedding", embedding, "matmul", EMBEDDING_MATMUL, "a product with one-hot rows: the whole table"),
    CONVENTION("--other", other, "exact", OTHER_EXACT, "biases, norms, positions, softmax, activation, residual, scales"),
    CONVENTION("--other", other, "one", OTHER_ONE, "one FLOP for each softmax element and each activation"),
    CONVENTION("--other", other, "none", OTHER_NONE, "matrix products and attention only"),
    CONVENTION("--vectors", vectors, "exact", VECTORS_EXACT, "biases and norm gains are read and applied"),
    CONVENTION("--vectors", vectors, "none", VECTORS_NONE, "biases and norm gains left out"),
};

static status measure(const question *q, uint64_t *flops, uint64_t *bytes, error *e) {
    work w;
    status s = q->prompt != 0 ? estimate_prefill(&w, q, e) : estimate_decode(&w, q, q->batch, e);
    *flops = w.matmul + w.attention + w.other;
    *bytes = w.weights + w.rest;
    return s;
}

static void report_change(report *r, const convention *v, const char *what, uint64_t with, uint64_t without, unit u) {
    char key[96], title[160];
    snprintf(key, sizeof key, "explain_%s_%s_%s", v->option + 2, v->choice, what);
    snprintf(title, sizeof title, "%s %s, %s: %s", v->option, v->choice, what, v->words);
    result *a = report_real(r, key, title, (double)with - (double)without, u);
    result_formula(a, "", "%s - %s", format_exact(with).text, format_exact(without).text);
}

status explain_report(report *r, const question *q, error *e) {
    uint64_t flops, bytes, with_flops, with_bytes;
    status s = measure(q, &flops, &bytes, e);
    report_heading(r, "What other conventions would say of the %s", q->prompt != 0 ? "prefill" : "decode step");
    for (size_t i = 0; s == OK && i < sizeof conventions / sizeof *conventions; i++) {
        const convention *v = &conventions[i];
        question other = *q;
        int *field = (int *)((char *)&other + v->offset);
        if (*field == v->value) continue;
        *field = v->value;
        s = measure(&other, &with_flops, &with_bytes, e);
        if (s != OK) break;
        if (with_flops != flops) report_change(r, v, "FLOPs", with_flops, flops, UNIT_FLOPS);
        if (with_bytes != bytes) report_change(r, v, "bytes", with_bytes, bytes, UNIT_BYTES);
    }
    return s;
}
