#include "tokenizer/steps.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/byte_chars.h"
#include "tokenizer/utf8.h"

static bool is_white_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool replace(const step *st, const char *text, size_t n, byte_buffer *out) {
    const char *end = text + n, *hit;
    while (st->n_a > 0 && (hit = memmem(text, (size_t)(end - text), st->a, st->n_a)) != NULL) {
        if (!buffer_append(out, text, (size_t)(hit - text)) || !buffer_append(out, st->b, st->n_b)) return false;
        text = hit + st->n_a;
    }
    return buffer_append(out, text, (size_t)(end - text));
}

static bool prepend(const step *st, const char *text, size_t n, bool first, byte_buffer *out) {
    bool there = n >= st->n_a && memcmp(text, st->a, st->n_a) == 0;
    bool left_out = (st->unless_there && there) || (st->at_start_only && !first);
    return (left_out || buffer_append(out, st->a, st->n_a)) && buffer_append(out, text, n);
}

static bool byte_chars(const char *text, size_t n, byte_buffer *out) {
    char utf8[4];
    for (size_t i = 0; i < n; i++)
        if (!buffer_append(out, utf8, utf8_encode(byte_to_char((unsigned char)text[i]), utf8))) return false;
    return true;
}

/* One character to lower case; U+0130 is the only one that becomes two. */
static bool lower(uint32_t code, byte_buffer *out) {
    char utf8[4];
    if (code == 0x130) return buffer_append(out, "i\xCC\x87", 3);
    uint32_t to = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    return buffer_append(out, utf8, utf8_encode(to, utf8));
}

static bool lowercase(const char *text, size_t n, byte_buffer *out) {
    for (size_t i = 0; i < n;) {
        uint32_t code;
        int length = utf8_decode(text + i, n - i, &code);
        bool room = length > 0 ? lower(code, out) : buffer_append(out, text + i, 1);
        if (!room) return false;
        i += length > 0 ? (size_t)length : 1;
    }
    return true;
}

static bool strip(const step *st, const char *text, size_t n, byte_buffer *out) {
    size_t start = 0, end = 0;
    bool begun = !st->left;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        int length = utf8_decode(text + i, n - i, &code);
        bool white = length > 0 && is_white_space(code);
        if (!white && !begun) {
            begun = true;
            start = i;
        }
        i += length > 0 ? (size_t)length : 1;
        if (!white || !st->right) end = i;
    }
    if (!begun || end < start) end = start;
    return buffer_append(out, text + start, end - start);
}

/* At the end, what spaces will be written as (a) goes, too. */
static bool squeeze(const step *st, const char *text, size_t n, byte_buffer *out) {
    for (;;) {
        if (n > 0 && text[n - 1] == ' ') {
            n--;
        } else if (st->n_a > 0 && n >= st->n_a && memcmp(text + n - st->n_a, st->a, st->n_a) == 0) {
            n -= st->n_a;
        } else {
            break;
        }
    }
    bool after_space = true;
    for (size_t i = 0; i < n; i++) {
        bool space = text[i] == ' ';
        if (!(space && after_space) && !buffer_append(out, text + i, 1)) return false;
        after_space = space;
    }
    return true;
}

/* A function of valid UTF-8 on every valid run of text; bytes between them stay as they are. */
typedef status (*run_function)(const step *st, pieces *p, const char *text, size_t n, byte_buffer *out, error *e);

static status each_valid_run(run_function f, const step *st, pieces *p, const char *text, size_t n, byte_buffer *out,
                             error *e) {
    for (size_t i = 0; i < n;) {
        size_t valid = utf8_valid(text + i, n - i);
        status s = valid > 0 ? f(st, p, text + i, valid, out, e) : OK;
        if (s != OK) return s;
        i += valid;
        if (i < n && !buffer_append(out, text + i++, 1)) return error_set(e, ERR_MEMORY, "no memory for a text");
    }
    return OK;
}

static status normalize_run(const step *st, pieces *p, const char *text, size_t n, byte_buffer *out, error *e) {
    (void)p;
    return unicode_normalize(st->kind, text, n, out, e);
}

static status replace_run(const step *st, pieces *p, const char *text, size_t n, byte_buffer *out, error *e) {
    size_t from = 0, done = 0, start, end;
    bool found = true;
    while (from <= n) {
        status s = regex_find(st->re, p->m, text, n, from, &found, &start, &end, e);
        if (s != OK) return s;
        if (!found) break;
        if (!buffer_append(out, text + done, start - done) || !buffer_append(out, st->b, st->n_b))
            return error_set(e, ERR_MEMORY, "no memory for a text");
        done = end;
        from = end > start ? end : end < n ? end + utf8_step(text + end, n - end) : n + 1;
    }
    return buffer_append(out, text + done, n - done) ? OK : error_set(e, ERR_MEMORY, "no memory for a text");
}

status step_rewrite(const step *st, pieces *p, const char *text, size_t n, bool first, byte_buffer *out, error *e) {
    bool room = true;
    switch (st->kind) {
    case STEP_NFC:
    case STEP_NFD:
    case STEP_NFKC:
    case STEP_NFKD:
        return each_valid_run(normalize_run, st, p, text, n, out, e);
    case STEP_REPLACE_PATTERN:
        return each_valid_run(replace_run, st, p, text, n, out, e);
    case STEP_CHARSMAP:
        return charsmap_rewrite(st, text, n, out, e);
    case STEP_LOWERCASE:
        room = lowercase(text, n, out);
        break;
    case STEP_PREPEND:
        room = prepend(st, text, n, first, out);
        break;
    case STEP_REPLACE:
        room = replace(st, text, n, out);
        break;
    case STEP_STRIP:
        room = strip(st, text, n, out);
        break;
    case STEP_SQUEEZE:
        room = squeeze(st, text, n, out);
        break;
    case STEP_BYTE_CHARS:
        room = byte_chars(text, n, out);
        break;
    default:
        break;
    }
    return room ? OK : error_set(e, ERR_MEMORY, "no memory for a text of %zu bytes", n);
}
