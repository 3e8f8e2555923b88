#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_chars.h"
#include "tokenizer/utf8.h"

/* How long a piece may become on its way through the steps: a replacement may stretch every byte of it. */
static size_t longest_text(const tokenizer *t) {
    size_t n = t->vocab.longest + 8;
    for (size_t i = 0; i < t->n_decoder; i++) {
        const decode_step *d = &t->decoder[i];
        if (d->kind == DECODE_REPLACE && d->n_a > 0) n *= d->n_b / d->n_a + 1;
    }
    return n;
}

/* bytes: what is held back and a piece after it; behind that, room for the steps to work. */
status token_stream_init(token_stream *s, const tokenizer *t, unsigned flags, error *e) {
    size_t n = longest_text(t) + 8;
    *s = (token_stream){.t = t, .flags = flags, .capacity = n};
    if (!(flags & DETOKENIZE_CONTINUED)) s->n_strip = t->n_strip;
    s->bytes = malloc(2 * n);
    return s->bytes != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for %zu bytes", 2 * n);
}

void token_stream_free(token_stream *s) {
    free(s->bytes);
    *s = (token_stream){0};
}

/* The characters of byte-level BPE to bytes, in place; a piece with another character in it is text as it stands. */
static size_t chars_to_bytes(char *text, size_t n) {
    size_t n_out = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n;) {
            uint32_t code;
            int length = utf8_decode(text + i, n - i, &code);
            int byte = length > 0 ? char_to_byte(code) : -1;
            if (byte < 0) return n;
            i += (size_t)length;
            if (pass == 1) text[n_out++] = (char)byte;
        }
    }
    return n_out;
}

/* a to b in place; spare has room for the result. */
static size_t replace(const decode_step *d, char *text, size_t n, char *spare) {
    size_t n_out = 0;
    if (d->n_a == 0) return n;
    for (size_t i = 0; i < n;) {
        if (n - i >= d->n_a && memcmp(text + i, d->a, d->n_a) == 0) {
            memcpy(spare + n_out, d->b, d->n_b);
            n_out += d->n_b;
            i += d->n_a;
        } else {
            spare[n_out++] = text[i++];
        }
    }
    memcpy(text, spare, n_out);
    return n_out;
}

static size_t strip_piece(const decode_step *d, char *text, size_t n) {
    size_t start = 0;
    for (int i = 0; i < d->n_left && n - start >= d->n_a && memcmp(text + start, d->a, d->n_a) == 0; i++) start += d->n_a;
    for (int i = 0; i < d->n_right && n - start >= d->n_a && memcmp(text + n - d->n_a, d->a, d->n_a) == 0; i++) n -= d->n_a;
    memmove(text, text + start, n - start);
    return n - start;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Is text "<0xE6>"? The byte, or -1. */
static int written_byte(const char *text, size_t n) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t apply(token_stream *s, const decode_step *d, piece_kind kind, char *text, size_t n) {
    bool made = kind == PIECE_NORMAL || kind == PIECE_BYTE; /* by the model, rather than added as text */
    switch (d->kind) {
    case DECODE_BYTE_CHARS:
        return made ? chars_to_bytes(text, n) : n;
    case DECODE_REPLACE:
        return replace(d, text, n, s->bytes + s->capacity);
    case DECODE_STRIP:
        return strip_piece(d, text, n);
    case DECODE_BYTE_FALLBACK: {
        int byte = made ? written_byte(text, n) : -1;
        if (byte < 0) return n;
        text[0] = (char)byte;
        return 1;
    }
    case DECODE_SUFFIX:
        if (n < d->n_a || memcmp(text + n - d->n_a, d->a, d->n_a) != 0) return n;
        s->separate = true;
        return n - d->n_a;
    }
    return n;
}

/* Leaves out what the beginning of a text has too much. */
static size_t strip_start(token_stream *s, char *text, size_t n) {
    const char *what = s->t->strip_text;
    size_t length = strlen(what), start = 0;
    int left = s->n_strip;
    for (; s->n_strip > 0 && n - start >= length && memcmp(text + start, what, length) == 0; start += length) s->n_strip--;
    memmove(text, text + start, n - start);
    if (s->t->strip_each) s->n_strip = left;
    if (n > start) s->n_strip = 0;
    return n - start;
}

static void put_piece(token_stream *s, int id) {
    const tokenizer *t = s->t;
    size_t n;
    const char *piece = vocab_piece(&t->vocab, id, &n);
    bool first = s->n_tokens == 0 && !(s->flags & DETOKENIZE_CONTINUED);
    if (s->separate || (t->join_with_space && !first)) s->bytes[s->n_bytes++] = ' ';
    s->separate = false;
    char *text = s->bytes + s->n_bytes;
    memcpy(text, piece, n);
    for (size_t i = 0; i < t->n_decoder; i++) n = apply(s, &t->decoder[i], t->vocab.kind[id], text, n);
    s->n_bytes += strip_start(s, text, n);
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
        buffer_free(&out);
        return st;
    }
    *text = out.data;
    *n_bytes = out.n - 1;
    return OK;
}
