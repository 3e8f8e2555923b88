#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <time.h>

#define MAX_PATTERN_BYTES   (1 << 16)
#define MAX_STEPS_PER_MATCH 1000000 /* plus 16 a byte of text: backtracking over one long run of blanks is no fault */
#define MAX_HEAP_KIB        (64 << 10)
#define MAX_SECONDS         2.0 /* of this thread, and 10 microseconds a byte: for all the matches of one text */
#define SECONDS_PER_BYTE    1e-5
#define WINDOW              512 /* places at which a match is tried before the clock is looked at */
#define CLOCK_EVERY         8   /* so many calls */

struct compiled_regex {
    pcre2_code *code;
};

struct matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    double deadline; /* seconds, of this thread */
    unsigned n_calls;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static status compile_failed(int code, size_t offset, const char *regex, size_t n, error *e) {
    PCRE2_UCHAR why[256];
    pcre2_get_error_message(code, why, sizeof why);
    return error_set(e, code == PCRE2_ERROR_HEAP_FAILED ? ERR_MEMORY : ERR_UNSUPPORTED,
                     "the pattern \"%.*s\" cannot be matched: %s (near byte %zu)", (int)(n < 200 ? n : 200), regex,
                     (const char *)why, offset);
}

status regex_compile(compiled_regex **out, const char *regex, size_t n, error *e) {
    byte_buffer words = {0};
    *out = NULL;
    if (n > MAX_PATTERN_BYTES) return error_set(e, ERR_LIMIT, "a pattern of %zu bytes (at most %d)", n, MAX_PATTERN_BYTES);
    status s = regex_translate(regex, n, &words, e);
    compiled_regex *p = s == OK ? calloc(1, sizeof *p) : NULL;
    pcre2_compile_context *context = s == OK ? pcre2_compile_context_create(NULL) : NULL;
    if (s == OK && (p == NULL || context == NULL)) s = error_set(e, ERR_MEMORY, "no memory for a pattern");
    if (s == OK) {
        int code;
        size_t offset;
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        /* In Oniguruma ^ and $ stand at the ends of lines. */
        uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
        p->code = pcre2_compile((PCRE2_SPTR)words.data, words.n, options, &code, &offset, context);
        if (p->code == NULL) s = compile_failed(code, offset, regex, n, e);
    }
    /* Without memory that may be run, JIT fails and the interpreter does the same, more slowly. */
    if (s == OK) pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    pcre2_compile_context_free(context);
    free(words.data);
    if (s != OK) {
        free(p);
        return s;
    }
    *out = p;
    return OK;
}

void regex_free(compiled_regex *p) {
    if (p == NULL) return;
    pcre2_code_free(p->code);
    free(p);
}

matcher *matcher_new(size_t n_bytes) {
    matcher *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (m->data == NULL || m->context == NULL) {
        matcher_free(m);
        return NULL;
    }
    size_t limit = MAX_STEPS_PER_MATCH + (n_bytes < (1u << 26) ? 16 * n_bytes : 1u << 30);
    pcre2_set_match_limit(m->context, (uint32_t)limit);
    pcre2_set_heap_limit(m->context, MAX_HEAP_KIB);
    m->deadline = now() + MAX_SECONDS + SECONDS_PER_BYTE * (double)n_bytes;
    return m;
}

void matcher_free(matcher *m) {
    if (m == NULL) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    free(m);
}

static status match_failed(int code, error *e) {
    PCRE2_UCHAR why[256];
    pcre2_get_error_message(code, why, sizeof why);
    if (code == PCRE2_ERROR_NOMEMORY) return error_set(e, ERR_MEMORY, "no memory for matching a pattern");
    return error_set(e, ERR_LIMIT, "a pattern of the tokenizer backtracks without end on this text: %s", (const char *)why);
}

status regex_find(const compiled_regex *p, matcher *m, const char *text, size_t n, size_t from, bool *found, size_t *start,
                  size_t *end, error *e) {
    *found = false;
    for (; from <= n; from += WINDOW + 1) {
        while (from < n && ((unsigned char)text[from] & 0xC0) == 0x80) from++; /* windows end anywhere, characters do not */
        pcre2_set_offset_limit(m->context, n - from > WINDOW ? from + WINDOW : n);
        PCRE2_SPTR subject = (PCRE2_SPTR)text;
        int code = pcre2_match(p->code, subject, n, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
        if (code == PCRE2_ERROR_JIT_STACKLIMIT)
            code = pcre2_match(p->code, subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
        if (code < 0 && code != PCRE2_ERROR_NOMATCH) return match_failed(code, e);
        if (now() > m->deadline) return error_set(e, ERR_LIMIT, "a pattern of the tokenizer takes too long on this text");
        if (code >= 0) {
            const size_t *at = pcre2_get_ovector_pointer(m->data);
            *start = at[0];
            *end = at[1] > at[0] ? at[1] : at[0]; /* \K in a look-ahead may put the start behind the end */
            *found = true;
            return OK;
        }
    }
    return OK;
}
