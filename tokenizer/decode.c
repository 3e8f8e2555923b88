#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/utf8.h"

/* A stream's buffer: what is held back (3 bytes at most), a space, and the longest piece. */
status token_stream_init(token_stream *s, const tokenizer *t, unsigned flags, error *e) {
    *s = (token_stream){.t = t, .flags = flags, .capacity = t->vocab.longest + 16};
    if (!(flags & DETOKENIZE_CONTINUED)) s->n_strip = t->n_strip;
    s->bytes = malloc(s->capacity);
    return s->bytes != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for %zu bytes", s->capacity);
}

void token_stream_free(token_stream *s) {
    free(s->bytes);
    *s = (token_stream){0};
}

static void put(token_stream *s, const char *bytes, size_t n) {
    for (; n > 0 && s->n_strip > 0 && *bytes == ' '; n--, bytes++) s->n_strip--;
    if (n > 0) s->n_strip = 0;
    memcpy(s->bytes + s->n_bytes, bytes, n);
    s->n_bytes += n;
}

static void put_piece(token_stream *s, int id) {
    const tokenizer *t = s->t;
    size_t n;
    const char *piece = vocab_piece(&t->vocab, id, &n);
    if (t->join_with_space && (s->n_tokens > 0 || s->flags & DETOKENIZE_CONTINUED)) put(s, " ", 1);
    put(s, piece, n);
    s->n_tokens++;
}

/* Drops what the last call gave out. */
static void forget_given(token_stream *s) {
    s->n_bytes -= s->n_given;
    memmove(s->bytes, s->bytes + s->n_given, s->n_bytes);
    s->n_given = 0;
}

status token_stream_push(token_stream *s, int id, const char **text, size_t *n_bytes, error *e) {
    const tokenizer *t = s->t;
    forget_given(s);
    *text = s->bytes;
    *n_bytes = 0;
    if (!tokenizer_has(t, id))
        return error_set(e, ERR_ARGUMENT, "%s: the id %d is not in the vocabulary of %d tokens", t->source, id,
                         tokenizer_n_vocab(t));
    if (tokenizer_is_special(t, id) && !(s->flags & DETOKENIZE_SPECIAL)) return OK;
    put_piece(s, id);
    *n_bytes = s->n_given = s->n_bytes - utf8_incomplete_tail(s->bytes, s->n_bytes);
    return OK;
}

void token_stream_flush(token_stream *s, const char **text, size_t *n_bytes) {
    forget_given(s);
    *text = s->bytes;
    *n_bytes = s->n_given = s->n_bytes;
}

status tokenizer_decode(const tokenizer *t, const int *ids, size_t n_ids, unsigned flags, char **text, size_t *n_bytes,
                        error *e) {
    token_stream s;
    byte_buffer out = {0};
    const char *part;
    size_t n;
    *text = NULL;
    *n_bytes = 0;
    status st = token_stream_init(&s, t, flags, e);
    bool room = true;
    for (size_t i = 0; st == OK && room && i < n_ids; i++) {
        st = token_stream_push(&s, ids[i], &part, &n, e);
        room = st != OK || buffer_append(&out, part, n);
    }
    if (st == OK && room) {
        token_stream_flush(&s, &part, &n);
        room = buffer_append(&out, part, n) && buffer_append(&out, "", 1);
    }
    token_stream_free(&s);
    if (st == OK && !room) st = error_set(e, ERR_MEMORY, "no memory for the text of %zu tokens", n_ids);
    if (st != OK) {
        free(out.data);
        return st;
    }
    *text = out.data;
    *n_bytes = out.n - 1;
    return OK;
}
