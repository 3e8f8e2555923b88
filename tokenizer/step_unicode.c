/* step_unicode.c - Unicode normalisation forms, UAX 15: decompose every character, put marks in order, compose.
 *
 * utf8proc decomposes and composes; marks are put in order here, because utf8proc's own way takes quadratic time on a long
 * run of them. */
#include "tokenizer/steps.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer/utf8.h"

typedef struct {
    utf8proc_int32_t *data; /* [n] code points */
    size_t n, capacity;
} code_list;

static bool all_ascii(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

static int combining_class(utf8proc_int32_t code) {
    return code < 0x300 ? 0 : utf8proc_get_property(code)->combining_class;
}

static bool decompose(utf8proc_option_t options, const char *text, size_t n, code_list *out) {
    uint32_t code = 0;
    int boundary = 0;
    for (size_t i = 0; i < n; i += (size_t)utf8_decode(text + i, n - i, &code)) {
        utf8_decode(text + i, n - i, &code);
        utf8proc_int32_t parts[32]; /* the longest decomposition in Unicode has 18 */
        utf8proc_ssize_t n_parts = utf8proc_decompose_char((utf8proc_int32_t)code, parts, 32, options, &boundary);
        if (n_parts < 0 || n_parts > 32) return false;
        if (!array_reserve(&out->data, &out->capacity, out->n, (size_t)n_parts, sizeof *out->data)) return false;
        memcpy(out->data + out->n, parts, (size_t)n_parts * sizeof *parts);
        out->n += (size_t)n_parts;
    }
    return true;
}

/* Sorts a run of marks by combining class, keeping the order of equals: counting sort. */
static void sort_marks(utf8proc_int32_t *marks, size_t n, utf8proc_int32_t *spare) {
    size_t count[257] = {0};
    for (size_t i = 0; i < n; i++) count[combining_class(marks[i]) + 1]++;
    for (int c = 1; c < 257; c++) count[c] += count[c - 1];
    for (size_t i = 0; i < n; i++) spare[count[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, spare, n * sizeof *marks);
}

static bool order_marks(code_list *l) {
    utf8proc_int32_t *spare = NULL;
    for (size_t i = 0; i < l->n;) {
        size_t start = i;
        bool sorted = true;
        for (; i < l->n && combining_class(l->data[i]) > 0; i++)
            if (i > start && combining_class(l->data[i]) < combining_class(l->data[i - 1])) sorted = false;
        if (!sorted) {
            if (spare == NULL) spare = malloc(l->n * sizeof *spare);
            if (spare == NULL) return false;
            sort_marks(l->data + start, i - start, spare);
        }
        if (i == start) i++;
    }
    free(spare);
    return true;
}

status unicode_normalize(step_kind form, const char *text, size_t n, byte_buffer *out, error *e) {
    bool compat = form == STEP_NFKC || form == STEP_NFKD, compose = form == STEP_NFC || form == STEP_NFKC;
    if (all_ascii(text, n)) {
        return buffer_append(out, text, n) ? OK : error_set(e, ERR_MEMORY, "no memory for a text of %zu bytes", n);
    }
    code_list codes = {0};
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    bool room = decompose(options, text, n, &codes) && order_marks(&codes);
    if (room && compose) {
        utf8proc_ssize_t left =
            utf8proc_normalize_utf32(codes.data, (utf8proc_ssize_t)codes.n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        room = left >= 0;
        codes.n = (size_t)left;
    }
    char utf8[4];
    for (size_t i = 0; room && i < codes.n; i++) room = buffer_append(out, utf8, utf8_encode((uint32_t)codes.data[i], utf8));
    free(codes.data);
    return room ? OK : error_set(e, ERR_MEMORY, "no memory for a text of %zu bytes", n);
}
