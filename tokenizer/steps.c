#include "tokenizer/steps.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/utf8.h"

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
    free(p->text.data);
    free(p->text_spare.data);
    free(p->spans.data);
    free(p->spans_spare.data);
    *p = (pieces){0};
}

bool pieces_push(pieces *p, size_t start, size_t end) {
    span_list *l = &p->spans_spare;
    if (start == end) return true;
    if (!array_reserve(&l->data, &l->capacity, l->n, 1, sizeof *l->data)) return false;
    l->data[l->n++] = (span){start, end};
    return true;
}

static bool cut_chars(pieces *p, span s) {
    for (size_t i = s.start, length; i < s.end; i += length) {
        length = utf8_step(p->text.data + i, s.end - i);
        if (!pieces_push(p, i, i + length)) return false;
    }
    return true;
}

/* Is the character at s (*length bytes) one that a word is made of? */
static bool in_word(const char *s, size_t n, size_t *length) {
    uint32_t code;
    int known = utf8_decode(s, n, &code);
    *length = known > 0 ? (size_t)known : 1;
    if (known == 0) return false;
    if (code == '_') return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NO;
}

static bool cut_words(pieces *p, span s, bool drop_space) {
    size_t word = s.start, length;
    for (size_t i = s.start; i < s.end; i += length) {
        const char *at = p->text.data + i;
        if (in_word(at, s.end - i, &length)) continue;
        bool dropped = drop_space && length == 1 && strchr(" \t\r\n", *at) != NULL;
        if (!pieces_push(p, word, i) || (!dropped && !pieces_push(p, i, i + length))) return false;
        word = i + length;
    }
    return pieces_push(p, word, s.end);
}

static bool run_step(const step *st, pieces *p, span s) {
    switch (st->kind) {
    case STEP_CHARS:
        return cut_chars(p, s);
    case STEP_WORDS:
        return cut_words(p, s, st->drop_space);
    case N_STEP_KINDS:
        break;
    }
    return true;
}

status steps_run(const step_list *steps, pieces *p, error *e) {
    for (size_t i = 0; i < steps->n; i++) {
        p->spans_spare.n = 0;
        for (size_t j = 0; j < p->spans.n; j++)
            if (!run_step(&steps->data[i], p, p->spans.data[j]))
                return error_set(e, ERR_MEMORY, "no memory for %zu pieces of text", p->spans_spare.n);
        span_list done = p->spans;
        p->spans = p->spans_spare;
        p->spans_spare = done;
    }
    return OK;
}

bool steps_append(step_list *steps, step s) {
    if (!array_reserve(&steps->data, &steps->capacity, steps->n, 1, sizeof *steps->data)) return false;
    steps->data[steps->n++] = s;
    return true;
}

void steps_free(step_list *steps) {
    free(steps->data);
    *steps = (step_list){0};
}
