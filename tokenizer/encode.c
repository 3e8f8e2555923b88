#include "tokenizer/internal.h"

#include <stdlib.h>

#define MAX_TEXT_BYTES (1u << 28) /* steps may make it longer; places in it are 32 bits */

typedef struct {
    const tokenizer *t;
    bool special; /* are special tokens looked for in the text? */
    pieces p, later;
    model_work work;
    id_list ids;
    error *e;
} encoder;

static status no_memory(encoder *c) {
    return error_set(c->e, ERR_MEMORY, "no memory for the ids of a text");
}

/* Cuts the text of p, and gives every span to the model. */
static status encode_spans(encoder *c, pieces *p) {
    status s = steps_run(&c->t->cutter, p, c->e);
    if (s == OK && p->text.n > INT32_MAX) s = error_set(c->e, ERR_LIMIT, "a text of %zu bytes", p->text.n);
    for (size_t i = 0; s == OK && i < p->spans.n; i++) {
        span at = p->spans.data[i];
        s = model_encode(c->t, &c->work, p->text.data + at.start, at.end - at.start, &c->ids, c->e);
    }
    return s;
}

/* Text without special tokens, normalised: added tokens that are looked for now, and text between them. */
static status encode_normalized(encoder *c, bool at_start) {
    const char *text = c->p.text.data;
    size_t n = c->p.spans.n > 0 ? c->p.text.n : 0;
    status s = OK;
    for (size_t i = 0; s == OK && i < n;) {
        added_part part = added_next(&c->t->added_later, text, n, i, c->special);
        if (part.id >= 0) {
            s = ids_append(&c->ids, part.id) ? OK : no_memory(c);
        } else {
            c->later.at_start = at_start && i == 0;
            s = pieces_set(&c->later, text + part.start, part.end - part.start) ? encode_spans(c, &c->later) : no_memory(c);
        }
        i = part.end;
    }
    return s;
}

static status encode_section(encoder *c, const char *text, size_t n, bool at_start) {
    c->p.at_start = at_start;
    if (!pieces_set(&c->p, text, n)) return no_memory(c);
    status s = steps_run(&c->t->normalizer, &c->p, c->e);
    if (s != OK) return s;
    return c->t->added_later.n > 0 ? encode_normalized(c, at_start) : encode_spans(c, &c->p);
}

static status encode_text(encoder *c, const char *text, size_t n) {
    status s = OK;
    for (size_t i = 0; s == OK && i < n;) {
        added_part part = added_next(&c->t->added, text, n, i, c->special);
        if (part.id >= 0) {
            s = ids_append(&c->ids, part.id) ? OK : no_memory(c);
        } else {
            s = encode_section(c, text + part.start, part.end - part.start, i == 0);
        }
        i = part.end;
    }
    return s;
}

/* The prefix in front of ids and the suffix after them. A text that begins with the prefix has it already. */
static bool add_special(const tokenizer *t, id_list *ids) {
    size_t n = t->prefix.n, same = 0;
    while (same < n && same < ids->n && ids->data[same] == t->prefix.data[same]) same++;
    if (same < n) {
        if (!array_reserve(&ids->data, &ids->capacity, ids->n, n, sizeof *ids->data)) return false;
        for (size_t i = ids->n; i-- > 0;) ids->data[i + n] = ids->data[i];
        for (size_t i = 0; i < n; i++) ids->data[i] = t->prefix.data[i];
        ids->n += n;
    }
    for (size_t i = 0; i < t->suffix.n; i++)
        if (!ids_append(ids, t->suffix.data[i])) return false;
    return true;
}

static status run(encoder *c, const char *text, size_t n, unsigned flags) {
    if (n > MAX_TEXT_BYTES) return error_set(c->e, ERR_LIMIT, "a text of %zu bytes (at most %u)", n, MAX_TEXT_BYTES);
    if (!pieces_init(&c->p, n) || !pieces_init(&c->later, n)) return no_memory(c);
    status s = encode_text(c, text, n);
    if (s != OK) return s;
    if (flags & TOKENIZE_ADD_SPECIAL && !add_special(c->t, &c->ids)) return no_memory(c);
    return array_reserve(&c->ids.data, &c->ids.capacity, c->ids.n, 1, sizeof *c->ids.data) ? OK : no_memory(c);
}

status tokenizer_encode(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int **ids, size_t *n_ids,
                        error *e) {
    encoder c = {.t = t, .special = (flags & TOKENIZE_PARSE_SPECIAL) != 0, .e = e};
    status s = run(&c, text, n_bytes, flags);
    pieces_free(&c.p);
    pieces_free(&c.later);
    model_work_free(&c.work);
    if (s != OK) {
        free(c.ids.data);
        c.ids = (id_list){0};
    }
    *ids = c.ids.data;
    *n_ids = c.ids.n;
    return s;
}
