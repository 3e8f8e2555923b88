/* regex_words.c - Oniguruma's and Rust's regular expressions in PCRE2's words. Only what would otherwise match something
 * else is rewritten; all the rest is handed on as it is. */
#include "tokenizer/regex.h"

#include <string.h>

/* White_Space of Unicode; PCRE2's \s has U+180E too. */
#define SPACE "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* Oniguruma's word characters, with the raised digits and fractions of Latin-1; PCRE2's \w has no marks. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX  "0-9a-fA-F"

typedef struct {
    const char *at, *end;
    byte_buffer *out;
    error *e;
} reader;

static status put(reader *r, const char *text, size_t n) {
    return buffer_append(r->out, text, n) ? OK : error_set(r->e, ERR_MEMORY, "no memory for a pattern");
}

static status put_text(reader *r, const char *text) {
    return put(r, text, strlen(text));
}

static status refuse(reader *r, const char *what) {
    return error_set(r->e, ERR_UNSUPPORTED, "a pattern uses %s, which Tally does not match", what);
}

static bool has(const reader *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, text, n) == 0;
}

/* A set of characters by a shorthand: its list inside [...], or the list in brackets of its own. */
static status put_set(reader *r, bool in_class, bool negated, const char *list) {
    r->at += 2;
    if (in_class && negated) return refuse(r, "a negated shorthand (such as \\S) inside [...]");
    if (in_class) return put_text(r, list);
    status s = put_text(r, negated ? "[^" : "[");
    if (s == OK) s = put_text(r, list);
    return s == OK ? put_text(r, "]") : s;
}

/* \p{Name}, \P{Name}, \x{...}: a script is meant by itself, without the characters that it shares with others. */
static status put_property(reader *r) {
    static const char *const scripts[] = {"Han",    "Hiragana", "Katakana", "Hangul", "Latin",
                                          "Arabic", "Cyrillic", "Greek",    "Thai",   "Hebrew"};
    status s = put(r, r->at, 3);
    r->at += 3;
    if (s == OK && has(r, "^")) {
        s = put_text(r, "^");
        r->at++;
    }
    for (size_t i = 0; s == OK && i < sizeof scripts / sizeof *scripts; i++) {
        size_t n = strlen(scripts[i]);
        if (has(r, scripts[i]) && r->at + n < r->end && r->at[n] == '}') s = put_text(r, "sc:");
    }
    while (s == OK && r->at < r->end && *r->at != '}') s = put(r, r->at++, 1);
    return s == OK && r->at < r->end ? put(r, r->at++, 1) : s;
}

static status put_code(reader *r) {
    if (r->end - r->at < 6) return refuse(r, "an incomplete \\u");
    status s = put_text(r, "\\x{");
    if (s == OK) s = put(r, r->at + 2, 4);
    r->at += 6;
    return s == OK ? put_text(r, "}") : s;
}

static status put_escape(reader *r, bool in_class) {
    if (r->end - r->at < 2) return refuse(r, "a backslash at its end");
    switch (r->at[1]) {
    case 's':
        return put_set(r, in_class, false, SPACE);
    case 'S':
        return put_set(r, in_class, true, SPACE);
    case 'w':
        return put_set(r, in_class, false, WORD);
    case 'W':
        return put_set(r, in_class, true, WORD);
    case 'h':
        return put_set(r, in_class, false, HEX);
    case 'H':
        return put_set(r, in_class, true, HEX);
    case 'u':
        return put_code(r);
    case 'b':
        if (in_class) break;
        r->at += 2;
        return put_text(r, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
    case 'B':
        r->at += 2;
        return put_text(r, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
    case 'x': /* \x{...}: not a quantifier */
    case 'p':
    case 'P':
        if (r->end - r->at > 3 && r->at[2] == '{') return put_property(r);
        break;
    case 'K':
    case 'G':
    case 'y':
    case 'Y':
        return refuse(r, "\\K, \\G, \\y or \\Y");
    default:
        break;
    }
    status s = put(r, r->at, 2);
    r->at += 2;
    return s;
}

static status put_posix(reader *r) {
    const char *close = memchr(r->at + 2, ']', (size_t)(r->end - r->at - 2));
    if (close == NULL) return refuse(r, "an open [:");
    status s = put(r, r->at, (size_t)(close + 1 - r->at));
    r->at = close + 1;
    return s;
}

/* [...] without a set inside it, or (with_sets) with && and one set at its end. at stands on the bracket. */
static status put_class(reader *r, bool with_sets);

/* at stands on &&: what came before is the class from byte `start` of the output on. [a&&[^b]] becomes (?:(?=[^b])[a]). */
static status put_intersection(reader *r, size_t start) {
    byte_buffer left = {0}, *out = r->out;
    bool room = buffer_append(&left, out->data + start, out->n - start);
    out->n = start;
    r->at += 2;
    status s = room ? put_text(r, "(?:(?=") : error_set(r->e, ERR_MEMORY, "no memory for a pattern");
    if (s == OK && !has(r, "[")) s = refuse(r, "&& with something else than [...] after it");
    if (s == OK) s = put_class(r, false);
    if (s == OK && !has(r, "]")) s = refuse(r, "more than one set after &&");
    r->at++;
    if (s == OK) s = put_text(r, ")");
    if (s == OK) s = put(r, left.data, left.n);
    if (s == OK) s = put_text(r, "])");
    buffer_free(&left);
    return s;
}

static status put_class(reader *r, bool with_sets) {
    size_t start = r->out->n;
    status s = put_text(r, "[");
    r->at++;
    if (s == OK && has(r, "^")) {
        s = put_text(r, "^");
        r->at++;
        with_sets = false;
    }
    if (s == OK && has(r, "]")) return refuse(r, "an empty [] or a ] that stands first");
    while (s == OK && r->at < r->end && *r->at != ']') {
        if (has(r, "&&")) return with_sets ? put_intersection(r, start) : refuse(r, "&& more than once, or in [^...]");
        if (has(r, "[:")) {
            s = put_posix(r);
        } else if (*r->at == '[') {
            return refuse(r, "a set inside a set ([a[b]])");
        } else if (*r->at == '\\') {
            s = put_escape(r, true);
        } else {
            s = put(r, r->at++, 1);
        }
    }
    if (s == OK && r->at == r->end) return refuse(r, "an open [");
    r->at++;
    return s == OK ? put_text(r, "]") : s;
}

/* (?imsx-...: the letters m and s mean other things in other languages. */
static status put_group(reader *r) {
    const char *p = r->at + 2;
    if (has(r, "(*")) return refuse(r, "a verb (*...)");
    if (has(r, "(?"))
        for (; p < r->end && ((*p >= 'a' && *p <= 'z') || *p == '-'); p++)
            if (*p == 'm' || *p == 's') return refuse(r, "the flags (?m) or (?s)");
    return put(r, r->at++, 1);
}

status regex_translate(const char *regex, size_t n, byte_buffer *out, error *e) {
    reader r = {.at = regex, .end = regex + n, .out = out, .e = e};
    status s = OK;
    while (s == OK && r.at < r.end) {
        if (*r.at == '\\') {
            s = put_escape(&r, false);
        } else if (*r.at == '[') {
            s = put_class(&r, true);
        } else if (*r.at == '(') {
            s = put_group(&r);
        } else if (has(&r, "}+")) {
            s = refuse(&r, "a quantifier }+"); /* possessive for some, one more repetition for others */
        } else {
            s = put(&r, r.at++, 1);
        }
    }
    return s;
}
