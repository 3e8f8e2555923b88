/* quality_texts.c - a file as the texts that `tally check --quality` runs. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quality.h"

void quality_texts_free(quality_texts *t) {
    for (size_t i = 0; i < t->n; i++) free(t->texts[i].ids);
    free(t->texts);
    *t = (quality_texts){0};
}

/* Takes ids over, also on failure. */
static status texts_add(quality_texts *t, int *ids, size_t n, size_t first_scored, error *e) {
    if (t->n == t->room) {
        size_t room = t->room == 0 ? 64 : 2 * t->room;
        quality_text *larger = realloc(t->texts, room * sizeof *larger);
        if (larger == NULL) {
            free(ids);
            return error_set(e, ERR_MEMORY, "out of memory for the texts");
        }
        t->texts = larger;
        t->room = room;
    }
    t->texts[t->n++] = (quality_text){.ids = ids, .n = (int)n, .first_scored = (int)first_scored};
    t->n_scored += n - first_scored;
    return OK;
}

static int end_id(const session *s) {
    int id = s->tokenizer != NULL ? tokenizer_eos(s->tokenizer) : -1;
    return id < 0 && s->model->n_eos > 0 ? s->model->eos_ids[0] : id;
}

/* How many tokens a line begins with that are not scored: up to the end of `after`, or the first. */
static status scored_from(const session *s, const char *line, size_t n_bytes, const char *after, const int *ids, size_t n,
                          size_t *first, error *e) {
    *first = 1;
    if (after == NULL) return OK;
    const char *at = memmem(line, n_bytes, after, strlen(after));
    if (at == NULL) return error_set(e, ERR_ARGUMENT, "'%s' is not in it (--after)", after);
    int *head;
    size_t n_head, head_bytes = (size_t)(at - line) + strlen(after);
    status st = tokenizer_encode(s->tokenizer, line, head_bytes, TOKENIZE_ADD_SPECIAL, &head, &n_head, e);
    if (st != OK) return st;
    if (n_head > n || memcmp(head, ids, n_head * sizeof *ids) != 0) {
        st = error_set(e, ERR_ARGUMENT, "'%s' does not end where a token ends (--after)", after);
    }
    *first = n_head > 1 ? n_head : 1;
    free(head);
    return st;
}

/* A line of text, its end token behind it where the model has one and the tokenizer has not put it there. */
static status line_of_text(quality_texts *t, const session *s, const char *line, size_t n_bytes, const char *after, error *e) {
    int *ids, end = end_id(s);
    size_t n, first = 1;
    status st = tokenizer_encode(s->tokenizer, line, n_bytes, TOKENIZE_ADD_SPECIAL, &ids, &n, e);
    if (st != OK) return st;
    if (end >= 0 && (n == 0 || ids[n - 1] != end)) {
        int *longer = realloc(ids, (n + 1) * sizeof *ids);
        if (longer == NULL) {
            free(ids);
            return error_set(e, ERR_MEMORY, "out of memory for the texts");
        }
        ids = longer;
        ids[n++] = end;
    }
    st = scored_from(s, line, n_bytes, after, ids, n, &first, e);
    if (st == OK && n - 1 > (size_t)t->n_ctx)
        st = error_set(e, ERR_LIMIT, "%zu tokens do not fit the context of %d", n - 1, t->n_ctx);
    if (st == OK && n <= first) st = error_set(e, ERR_ARGUMENT, "there is no token to predict in it");
    if (st == OK) return texts_add(t, ids, n, first, e);
    free(ids);
    return st;
}

static status line_of_ids(quality_texts *t, const session *s, char *line, error *e) {
    int *ids;
    size_t n;
    status st = ids_parse(line, &ids, &n, e);
    for (size_t i = 0; st == OK && i < n; i++) {
        if (ids[i] >= s->model->config.n_vocab) st = error_set(e, ERR_ARGUMENT, "id %d is not in the vocabulary", ids[i]);
    }
    if (st == OK && n < 2) st = error_set(e, ERR_ARGUMENT, "there is no token to predict in it");
    if (st == OK && n - 1 > (size_t)t->n_ctx)
        st = error_set(e, ERR_LIMIT, "%zu tokens do not fit the context of %d", n - 1, t->n_ctx);
    if (st == OK) return texts_add(t, ids, n, 1, e);
    free(ids);
    return st;
}

static status read_lines(quality_texts *t, const session *s, const char *path, char *text, size_t n_bytes, const char *after,
                         error *e) {
    char *end = text + n_bytes;
    int number = 1;
    for (char *line = text, *next; line < end; line = next, number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) stop = end;
        next = stop + 1;
        if (stop > line && stop[-1] == '\r') stop--;
        *stop = '\0'; /* the text is zero-terminated besides */
        if (stop == line) continue;
        status st =
            s->tokenizer != NULL ? line_of_text(t, s, line, (size_t)(stop - line), after, e) : line_of_ids(t, s, line, e);
        if (st != OK) {
            char where[PATH_MAX + 32];
            snprintf(where, sizeof where, "%s: line %d", path, number);
            return error_prefix(e, where);
        }
    }
    return OK;
}

/* One long text in windows that do not overlap: a window's first token is the one that begins every text, or else is not scored. */
static status read_windows(quality_texts *t, const session *s, const char *text, size_t n_bytes, error *e) {
    int *all, bos = tokenizer_bos(s->tokenizer);
    size_t n_all;
    status st = tokenizer_encode(s->tokenizer, text, n_bytes, TOKENIZE_ADD_SPECIAL, &all, &n_all, e);
    if (st != OK) return st;
    size_t lead = n_all > 0 && bos >= 0 && all[0] == bos ? 1 : 0, most = (size_t)t->n_ctx + 1 - lead;
    for (size_t at = lead; st == OK && at < n_all;) {
        size_t n = n_all - at < most ? n_all - at : most;
        if (n + lead < 2) break;
        int *ids = malloc((n + lead) * sizeof *ids);
        if (ids == NULL) {
            st = error_set(e, ERR_MEMORY, "out of memory for the texts");
            break;
        }
        if (lead == 1) ids[0] = bos;
        memcpy(ids + lead, all + at, n * sizeof *ids);
        st = texts_add(t, ids, n + lead, 1, e);
        at += n;
    }
    free(all);
    return st;
}

static bool writes_line_breaks(const session *s) {
    int *ids;
    size_t n;
    if (s->tokenizer == NULL || tokenizer_encode(s->tokenizer, "\n", 1, 0, &ids, &n, NULL) != OK) return false;
    free(ids);
    return true;
}

status quality_texts_read(quality_texts *out, const session *s, const char *path, const char *after, int n_ctx, error *e) {
    char *text;
    size_t n_bytes;
    *out = (quality_texts){.n_ctx = n_ctx, .lines = !writes_line_breaks(s) || after != NULL};
    if (s->tokenizer == NULL && after != NULL) {
        return error_set(e, ERR_ARGUMENT, "%s: --after needs a tokenizer, and the model has none", s->name);
    }
    status st = file_read(path, &text, &n_bytes, e);
    if (st != OK) return st;
    if (out->lines) {
        st = read_lines(out, s, path, text, n_bytes, after, e);
    } else {
        st = read_windows(out, s, text, n_bytes, e);
    }
    free(text);
    if (st == OK && out->n == 0) st = error_set(e, ERR_ARGUMENT, "%s: there is no text in it", path);
    if (st != OK) quality_texts_free(out);
    return st;
}
