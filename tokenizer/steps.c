#include "tokenizer/steps.h"

#include <stdlib.h>
#include <string.h>

#define MAX_GROWTH 64 /* times the text: what normalisers may make of it */

static status no_memory(error *e) {
    return error_set(e, ERR_MEMORY, "no memory for the steps of a tokenizer, or for the text in it");
}

bool pieces_init(pieces *p, size_t n_bytes) {
    size_t limit = MAX_GROWTH * n_bytes + (1 << 16); /* n_bytes: at most 1 GiB */
    *p = (pieces){.text.limit = limit, .text_spare.limit = limit, .m = matcher_new(n_bytes)};
    return p->m != NULL;
}

bool pieces_set(pieces *p, const char *text, size_t n) {
    p->text.n = 0;
    p->spans.n = 0;
    if (n == 0) return true;
    if (!buffer_append(&p->text, text, n)) return false;
    if (!array_reserve(&p->spans.data, &p->spans.capacity, 0, 1, sizeof *p->spans.data)) return false;
    p->spans.data[p->spans.n++] = (span){0, n};
    return true;
}

void pieces_free(pieces *p) {
    buffer_free(&p->text);
    buffer_free(&p->text_spare);
    free(p->spans.data);
    free(p->spans_spare.data);
    matcher_free(p->m);
    *p = (pieces){0};
}

bool pieces_push(pieces *p, size_t start, size_t end) {
    span_list *l = &p->spans_spare;
    if (start == end) return true;
    if (!array_reserve(&l->data, &l->capacity, l->n, 1, sizeof *l->data)) return false;
    l->data[l->n++] = (span){start, end};
    return true;
}

static status rewrite_all(const step *st, pieces *p, error *e) {
    byte_buffer *out = &p->text_spare;
    out->n = 0;
    for (size_t i = 0; i < p->spans.n; i++) {
        span s = p->spans.data[i];
        size_t start = out->n;
        status done = step_rewrite(st, p, p->text.data + s.start, s.end - s.start, i == 0 && p->at_start, out, e);
        if (done != OK) return done;
        if (!pieces_push(p, start, out->n)) return no_memory(e);
    }
    byte_buffer before = p->text;
    p->text = *out;
    *out = before;
    return OK;
}

status steps_run(const step_list *steps, pieces *p, error *e) {
    for (size_t i = 0; i < steps->n; i++) {
        const step *st = &steps->data[i];
        status s = OK;
        p->spans_spare.n = 0;
        if (st->kind < STEP_CUT) s = rewrite_all(st, p, e);
        for (size_t j = 0; st->kind >= STEP_CUT && s == OK && j < p->spans.n; j++) s = step_cut(st, p, p->spans.data[j], e);
        if (s != OK) return s;
        span_list done = p->spans;
        p->spans = p->spans_spare;
        p->spans_spare = done;
    }
    return OK;
}

static bool copy(char **out, size_t *n_out, const char *text, size_t n) {
    if (text == NULL) return true;
    *out = malloc(n + 1);
    if (*out == NULL) return false;
    memcpy(*out, text, n);
    (*out)[n] = '\0';
    *n_out = n;
    return true;
}

static void free_step(step *st) {
    free(st->a);
    free(st->b);
    regex_free(st->re);
}

status steps_add(step_list *steps, step_kind kind, const char *a, size_t n_a, const char *b, size_t n_b, const char *regex,
                 size_t n_regex, step **made, error *e) {
    step st = {.kind = kind};
    status s = OK;
    if (regex != NULL) s = regex_compile(&st.re, regex, n_regex, e);
    if (s == OK && (!copy(&st.a, &st.n_a, a, n_a) || !copy(&st.b, &st.n_b, b, n_b) ||
                    !array_reserve(&steps->data, &steps->capacity, steps->n, 1, sizeof *steps->data)))
        s = no_memory(e);
    if (s != OK) {
        free_step(&st);
        return s;
    }
    steps->data[steps->n++] = st;
    if (made != NULL) *made = &steps->data[steps->n - 1];
    return OK;
}

status steps_add_kind(step_list *steps, step_kind kind, error *e) {
    return steps_add(steps, kind, NULL, 0, NULL, 0, NULL, 0, NULL, e);
}

status steps_add_cut(step_list *steps, const char *regex, size_t n, cut_way way, bool invert, error *e) {
    step *made;
    status s = steps_add(steps, STEP_CUT, NULL, 0, NULL, 0, regex, n, &made, e);
    if (s != OK) return s;
    made->way = way;
    made->invert = invert;
    return OK;
}

status steps_add_replace(step_list *steps, const char *from, const char *to, error *e) {
    return steps_add(steps, STEP_REPLACE, from, strlen(from), to, strlen(to), NULL, 0, NULL, e);
}

void steps_free(step_list *steps) {
    for (size_t i = 0; i < steps->n; i++) free_step(&steps->data[i]);
    free(steps->data);
    *steps = (step_list){0};
}
