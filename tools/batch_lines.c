/* batch_lines.c - the lines that `tally batch` writes, and reads again to go on. */
#include <stdlib.h>
#include <string.h>

#include "tools/batch.h"
#include "tools/show.h"

/* Sums by class; "flops_" and "bytes_" as everywhere in --json. */
json_t *batch_classes_json(const term_counts *t) {
    static const char *const keys[] = {"flops_matmul",  "flops_attention", "flops_other",
                                       "bytes_weights", "bytes_kv",        "bytes_logits"};
    json_t *o = json_object();
    for (int k = CLASS_MATMUL; k <= CLASS_LOGIT_BYTES; k++) {
        json_object_set_new(o, keys[k], json_integer((json_int_t)term_class_sum(t, (term_class)k)));
    }
    return o;
}

static json_t *cost_json(const completion *c, const session *s) {
    const bill *b = &c->bill;
    size_t page = kv_cache_page_bytes(engine_cache(s->engine));
    return json_pack("{s:o, s:o, s:{s:i, s:i, s:I}, s:{s:i, s:I, s:I}, s:i, s:i, s:i, s:i}", "prefill",
                     batch_classes_json(&b->prefill), "decode", batch_classes_json(&b->decode), "pages", "most", b->n_pages,
                     "shared", b->n_pages_shared, "bytes", (json_int_t)((size_t)b->n_pages * page), "reused", "tokens",
                     b->n_reused, "flops", (json_int_t)b->flops_reused, "bytes_kv", (json_int_t)b->kv_bytes_reused, "n_steps",
                     b->n_steps, "n_computed", b->n_computed, "n_recomputed", b->n_recomputed, "n_preempted", b->n_preempted);
}

static json_t *ids_json(const int *ids, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* What was generated, as text; the numbers themselves where the model has no tokenizer. Bytes that are no UTF-8 are U+FFFD. */
static json_t *text_json(const session *s, const completion *c) {
    const int *ids = c->ids + c->n_prompt;
    size_t n = (size_t)(c->n_ids - c->n_prompt), n_bytes = 0;
    char *text = NULL;
    if (s->tokenizer != NULL) {
        if (tokenizer_decode(s->tokenizer, ids, n, DETOKENIZE_CONTINUED, &text, &n_bytes, NULL) != OK) return json_null();
    } else {
        text = malloc(n * 12 + 1);
        for (size_t i = 0; text != NULL && i < n; i++) n_bytes += (size_t)sprintf(text + n_bytes, i > 0 ? " %d" : "%d", ids[i]);
    }
    json_t *o = text == NULL ? NULL : json_stringn(text, n_bytes);
    if (o == NULL && text != NULL) o = show_text(text, n_bytes);
    free(text);
    return o != NULL ? o : json_null();
}

static const prompt *prompt_at(const prompt_list *p, size_t number) {
    return &p->items[number];
}

static json_t *prompt_json(const prompt *q) {
    if (q->ids != NULL) return json_deep_copy(q->ids);
    json_t *o = json_stringn(q->text, q->n_bytes);
    return o != NULL ? o : show_text(q->text, q->n_bytes);
}

/* What every line begins with. */
static json_t *line_begin(const prompt_list *p, size_t number, int sample) {
    const prompt *q = prompt_at(p, number);
    json_t *o = json_pack("{s:I, s:i, s:i}", "index", (json_int_t)number, "sample", sample, "line", q->line);
    if (o != NULL && q->id != NULL) json_object_set_new(o, "id", json_deep_copy(q->id));
    if (o != NULL) json_object_set_new(o, q->ids != NULL ? "prompt_ids" : "prompt", prompt_json(q));
    return o;
}

static char *line_end(json_t *o) {
    char *line = o == NULL ? NULL : json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    json_decref(o);
    return line;
}

char *batch_line(const session *s, const prompt_list *p, size_t number, const completion *c) {
    json_t *o = line_begin(p, number, c->sample);
    if (o == NULL) return NULL;
    const bill *b = &c->bill;
    int n = c->n_ids - c->n_prompt;
    json_object_set_new(o, "text", text_json(s, c));
    json_object_set_new(o, "ids", ids_json(c->ids + c->n_prompt, n));
    json_object_set_new(o, "finish_reason", json_string(finish_words[c->finish]));
    if (c->finish == FINISH_FAILED) json_object_set_new(o, "error", json_string(c->error.message));
    json_object_set_new(o, "n_prompt", json_integer(c->n_prompt));
    json_object_set_new(o, "n_generated", json_integer(n));
    json_object_set_new(o, "cost", cost_json(c, s));
    double running = b->finished - b->admitted;
    json_t *first = b->first_token > 0 ? json_real(b->first_token - b->submitted) : json_null();
    json_object_set_new(o, "seconds",
                        json_pack("{s:f, s:o, s:f}", "queued", b->admitted - b->submitted, "first_token", first, "total",
                                  b->finished - b->submitted));
    json_object_set_new(o, "tokens_per_second", json_real(running > 0 ? n / running : 0));
    return line_end(o);
}

char *batch_line_refused(const prompt_list *p, size_t number, int sample, const char *why) {
    json_t *o = line_begin(p, number, sample);
    if (o == NULL) return NULL;
    json_object_set_new(o, "text", json_null());
    json_object_set_new(o, "ids", json_array());
    json_object_set_new(o, "finish_reason", json_string(finish_words[FINISH_FAILED]));
    json_object_set_new(o, "error", json_string(why));
    return line_end(o);
}

static status not_of_these(error *e) {
    return error_set(e, ERR_MISMATCH, "a line of it is not of these prompts (--resume needs the same -f and the same options)");
}

status batch_line_number(void *user, const char *text, size_t n_bytes, size_t *number, error *e) {
    const prompt_list *p = user;
    json_t *o = json_loadb(text, n_bytes, JSON_ALLOW_NUL, NULL);
    json_int_t index = -1, sample = -1;
    status st = o != NULL && json_unpack(o, "{s:I, s:I}", "index", &index, "sample", &sample) == 0 ? OK : not_of_these(e);
    if (st == OK && (index < 0 || (size_t)index >= p->n || sample < 0 || sample >= p->items[index].n_samples))
        st = not_of_these(e);
    if (st == OK) {
        const prompt *q = prompt_at(p, (size_t)index);
        json_t *mine = prompt_json(q);
        if (!json_equal(mine, json_object_get(o, q->ids != NULL ? "prompt_ids" : "prompt"))) st = not_of_these(e);
        json_decref(mine);
        *number = q->slot + (size_t)sample;
    }
    json_decref(o);
    return st;
}
