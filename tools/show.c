#include "tools/show.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

json_t *show_text(const char *bytes, size_t n) {
    json_t *text = json_stringn(bytes, n);
    if (text != NULL) return text;
    char *safe = malloc(3 * n + 1); /* U+FFFD is three bytes */
    if (safe == NULL) return NULL;
    size_t out = 0;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)bytes + at, (utf8proc_ssize_t)(n - at), &code);
        const char *from = step > 0 ? bytes + at : "\xef\xbf\xbd";
        size_t length = step > 0 ? (size_t)step : 3;
        memcpy(safe + out, from, length);
        out += length;
        at += step > 0 ? (size_t)step : 1;
    }
    text = json_stringn(safe, out);
    free(safe);
    return text;
}

typedef struct {
    size_t most_items, most_text;
    size_t left; /* bytes that the copy may still take, about */
} copying;

static json_t *copy_value(copying *c, const json_t *value);

static json_t *copy_items(copying *c, const json_t *value, size_t n) {
    json_t *copy = json_is_array(value) ? json_array() : json_object();
    if (json_is_array(value)) {
        for (size_t i = 0; i < n; i++) json_array_append_new(copy, copy_value(c, json_array_get(value, i)));
        return copy;
    }
    const char *key;
    size_t length, i = 0;
    json_t *item;
    json_object_keylen_foreach((json_t *)(uintptr_t)value, key, length, item) {
        if (i++ == n) break;
        json_t *name = show_text(key, length < c->most_text ? length : c->most_text);
        json_object_set_new(copy, name != NULL ? json_string_value(name) : "", copy_value(c, item));
        json_decref(name);
    }
    return copy;
}

static json_t *copy_value(copying *c, const json_t *value) {
    size_t n = json_is_string(value) ? json_string_length(value) : 0, cost = 200 + (n < c->most_text ? n : c->most_text);
    if (cost > c->left) return json_string("...");
    c->left -= cost;
    if (json_is_string(value)) {
        if (n <= c->most_text) return show_text(json_string_value(value), n);
        return json_pack("{s:I, s:o?}", "n_bytes", (json_int_t)n, "first", show_text(json_string_value(value), c->most_text));
    }
    if (!json_is_array(value) && !json_is_object(value)) return json_incref((json_t *)(uintptr_t)value);
    n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    if (n <= c->most_items) return copy_items(c, value, n);
    return json_pack("{s:I, s:o?}", "n_items", (json_int_t)n, "first", copy_items(c, value, 8));
}

json_t *show_copy(const json_t *value, size_t most_items, size_t most_text) {
    copying c = {.most_items = most_items, .most_text = most_text, .left = 4 << 20};
    return copy_value(&c, value);
}

/* A value on one line, as JSON writes it. */
static void print_line(FILE *out, const char *name, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    fprintf(out, "  %s = %s\n", name, text != NULL ? text : "?");
    free(text);
}

void show_flat(FILE *out, const char *name, const json_t *value) {
    const char *key;
    json_t *item, *first = json_object_get(value, "first");
    if (json_object_size(value) == 2 && first != NULL && json_object_get(value, "n_items") != NULL) { /* shortened */
        char *text = json_dumps(first, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        size_t n = text != NULL ? strlen(text) : 0;
        if (n > 0)
            fprintf(out, "  %s = %.*s, ...%c (%lld items)\n", name, (int)n - 1, text, text[n - 1],
                    (long long)json_integer_value(json_object_get(value, "n_items")));
        free(text);
        return;
    }
    if (!json_is_object(value) || json_object_size(value) == 0) {
        print_line(out, name, value);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item) {
        json_t *safe = json_string(key);
        char *escaped = json_dumps(safe, JSON_ENCODE_ANY); /* no control character reaches the terminal */
        size_t n = escaped != NULL ? strlen(escaped) : 0, before = strlen(name);
        char *inner = n >= 2 ? malloc(before + n + 2) : NULL;
        if (inner != NULL) {
            snprintf(inner, before + n + 2, "%s%s%.*s", name, before > 0 ? "." : "", (int)n - 2, escaped + 1);
            show_flat(out, inner, item);
        }
        free(inner);
        free(escaped);
        json_decref(safe);
    }
}

int show_end(bool good) {
    good = fflush(stdout) == 0 && ferror(stdout) == 0 && good;
    if (!good) fprintf(stderr, "tally: the output cannot be written\n");
    return good ? 0 : 1;
}

int show_json(const json_t *report) {
    bool good = json_dumpf(report, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) == 0;
    return show_end(putchar('\n') != EOF && good);
}
