#include "tokenizer/steps.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/utf8.h"

static status no_memory(error *e) {
    return error_set(e, ERR_MEMORY, "no memory for the pieces of a text");
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

/* Matches and what lies between them come in order; the way of cutting decides which of them become one span. */
typedef struct {
    const step *st;
    pieces *p;
    size_t start, end; /* the span that is being put together; start = end: none */
    bool has_match;    /* it ends with a match */
} cutter;

static bool flush(cutter *c) {
    bool done = pieces_push(c->p, c->start, c->end);
    c->start = c->end;
    return done;
}

/* One part: a match, or the text up to the next one. */
static bool take(cutter *c, size_t start, size_t end, bool match) {
    bool keep = true, joins = false;
    match = match != c->st->invert;
    switch (c->st->way) {
    case CUT_ISOLATED:
        break;
    case CUT_REMOVED:
        keep = !match;
        break;
    case CUT_CONTIGUOUS:
        joins = match == c->has_match;
        break;
    case CUT_WITH_PREVIOUS:
        joins = match && !c->has_match;
        break;
    case CUT_WITH_NEXT:
        joins = !match && c->has_match;
        break;
    }
    if (start == end) return true;
    if ((!joins || c->start == c->end) && !flush(c)) return false;
    if (c->start == c->end) c->start = start;
    c->end = end;
    if (!keep) c->start = c->end;
    c->has_match = match;
    return true;
}

/* The matches in a valid run of text, from byte base of the whole on. */
static status cut_run(cutter *c, size_t base, size_t n, error *e) {
    const char *text = c->p->text.data + base;
    size_t from = 0, done = 0, start, end, last_match = SIZE_MAX;
    bool found;
    while (from <= n) {
        status s = regex_find(c->st->re, c->p->m, text, n, from, &found, &start, &end, e);
        if (s != OK) return s;
        if (!found) break;
        if (start == end && end == last_match) { /* an empty match right after a match is none */
            if (from >= n) break;
            from = end + utf8_step(text + end, n - end);
            last_match = SIZE_MAX;
            continue;
        }
        /* An empty match cuts, although it is no part itself. */
        if (!take(c, base + done, base + start, false)) return no_memory(e);
        if (start == end && c->st->way == CUT_ISOLATED && !flush(c)) return no_memory(e);
        if (!take(c, base + start, base + end, true)) return no_memory(e);
        done = from = last_match = end;
    }
    return take(c, base + done, base + n, false) ? OK : no_memory(e);
}

/* Bytes that are no valid UTF-8 are spans of their own, whatever becomes of matches and of the rest. */
static status cut_pattern(const step *st, pieces *p, span s, error *e) {
    for (size_t i = s.start; i < s.end;) {
        cutter c = {.st = st, .p = p, .start = i, .end = i};
        size_t valid = utf8_valid(p->text.data + i, s.end - i);
        status done = valid > 0 ? cut_run(&c, i, valid, e) : OK;
        if (done != OK) return done;
        size_t invalid = i += valid;
        while (i < s.end && utf8_valid(p->text.data + i, s.end - i < 4 ? s.end - i : 4) == 0) i++;
        if (!flush(&c) || !pieces_push(p, invalid, i)) return no_memory(e);
    }
    return OK;
}

status step_cut(const step *st, pieces *p, span s, error *e) {
    switch (st->kind) {
    case STEP_CHARS:
        return cut_chars(p, s) ? OK : no_memory(e);
    case STEP_WORDS:
        return cut_words(p, s, st->drop_space) ? OK : no_memory(e);
    case STEP_CUT:
        return cut_pattern(st, p, s, e);
    default:
        return OK;
    }
}
