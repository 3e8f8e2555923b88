/* quality_report.c - what quality.c found, as a table and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/quality.h"
#include "tools/quantity.h"
#include "tools/show.h"

static const char *const weight_words[N_WEIGHTS] = {"f32", "f16", "int8", "file"};
static const char *const word[] = {"f32", "f16", "int8"};

/* The storage of the file itself, where it is none of ours (llama2.c's int8). */
static const char *run_weights(const quality *q, const quality_run *r) {
    if (r->weights < N_WEIGHTS - 1) return weight_words[r->weights];
    return dtype_info(q->sessions[r->weights].model->layers[0].wq.type)->name;
}

quantity_text quality_run_name(const quality *q, const quality_run *r) {
    quantity_text t;
    snprintf(t.text, sizeof t.text, "%s weights, %s cache, %s activations", run_weights(q, r), word[r->kv_type],
             r->int8_activations ? "int8" : "f32");
    return t;
}

bool quality_agrees(const quality *q) {
    bool agrees = true;
    for (int k = 0; k < q->n_runs; k++) agrees = agrees && q->runs[k].agrees;
    return agrees;
}

static double perplexity(const quality *q, const quality_run *r) {
    return exp(-r->sum_log / (double)q->texts.n_scored);
}

void quality_print(const quality *q) {
    const quality_texts *t = &q->texts;
    printf("%s on %s: %s %s, %s tokens scored", q->sessions[0].name, q->path, format_exact(t->n).text,
           t->lines ? "lines" : "windows", format_exact(t->n_scored).text);
    if (q->after != NULL) printf(" (what follows '%s')", q->after);
    printf("\nd: a logit less that of fp32, whose largest |logit| is %.4g\n", q->runs[0].max_logit);
    printf("\n  %-8s %-6s %-11s %16s %12s %10s %10s %10s %12s%s\n", "weights", "cache", "activations", "bytes a step",
           "bytes a token", "top-1 %", "max |d|", "mean |d|", "perplexity", t->lines ? "   lines right" : "");
    for (int k = 0; k < q->n_runs; k++) {
        const quality_run *r = &q->runs[k];
        if (r->engine == NULL) {
            if (r->kv_type == 0 && !r->int8_activations)
                printf("  %-8s %s\n", weight_words[r->weights], q->refused[r->weights].message);
            continue;
        }
        printf("  %-8s %-6s %-11s %16s %12s", run_weights(q, r), word[r->kv_type], r->int8_activations ? "int8" : "f32",
               format_exact(r->weight_bytes).text, format_exact(r->kv_bytes).text);
        printf(" %10.3f %10.2e %10.2e %12.6f", 100.0 * (double)r->n_agree / (double)t->n_scored, r->max_difference,
               r->sum_difference / (double)r->n_logits, perplexity(q, r));
        if (t->lines) printf(" %13s", format_exact(r->n_right).text);
        putchar('\n');
    }
    printf("\n%s\n", quality_agrees(q) ? "counted = predicted in every term of every step" : "counted DIFFERS from predicted");
}

static json_t *run_json(const quality *q, const quality_run *r) {
    json_t *o = json_pack("{s:s, s:s, s:s}", "weights", r->engine == NULL ? weight_words[r->weights] : run_weights(q, r),
                          "kv_type", word[r->kv_type], "activations", r->int8_activations ? "int8" : "f32");
    if (r->engine == NULL) {
        json_object_set_new(o, "error", show_text(q->refused[r->weights].message, strlen(q->refused[r->weights].message)));
        return o;
    }
    json_t *numbers = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:b}", "weight_bytes_per_step",
                                (json_int_t)r->weight_bytes, "kv_bytes_per_token", (json_int_t)r->kv_bytes, "n_agree",
                                (json_int_t)r->n_agree, "top1_agreement", (double)r->n_agree / (double)q->texts.n_scored,
                                "max_logit_difference", r->max_difference, "mean_logit_difference",
                                r->sum_difference / (double)r->n_logits, "perplexity", perplexity(q, r), "agrees", r->agrees);
    json_object_update(o, numbers);
    json_decref(numbers);
    if (q->texts.lines) json_object_set_new(o, "n_lines_right", json_integer((json_int_t)r->n_right));
    return o;
}

int quality_json(const quality *q) {
    json_t *runs = json_array();
    for (int k = 0; k < q->n_runs; k++) json_array_append_new(runs, run_json(q, &q->runs[k]));
    json_t *report =
        json_pack("{s:o, s:s, s:I, s:I, s:f, s:o, s:b}", "model", show_text(q->sessions[0].name, strlen(q->sessions[0].name)),
                  "cut", q->texts.lines ? "lines" : "windows", "n_texts", (json_int_t)q->texts.n, "n_scored",
                  (json_int_t)q->texts.n_scored, "max_logit", q->runs[0].max_logit, "runs", runs, "agrees", quality_agrees(q));
    int rc = show_json(report);
    json_decref(report);
    return rc;
}
