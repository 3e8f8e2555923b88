#include "weights/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512, MAX_BRACKETS = 4 };

static size_t n_patterns(const json_t *patterns) {
    return json_is_array(patterns) ? json_array_size(patterns) : json_is_string(patterns);
}

static const char *nth_pattern(const json_t *patterns, size_t i) {
    return json_string_value(json_is_array(patterns) ? json_array_get(patterns, i) : patterns);
}

static unsigned n_variants(const char *pattern) {
    unsigned n = 0;
    for (; *pattern; pattern++) n += *pattern == '[';
    return 1u << (n > MAX_BRACKETS ? MAX_BRACKETS : n);
}

/* "{layer+1}" at p: its number, and where it ends. NULL: no such thing at p. */
static const char *index_at(const char *p, int layer, int head, int *index) {
    int add = 0, length = 0;
    if (strncmp(p, "{layer", 6) == 0)
        *index = layer, p += 6;
    else if (strncmp(p, "{head", 5) == 0)
        *index = head, p += 5;
    else
        return NULL;
    if (sscanf(p, "+%d%n", &add, &length) == 1) p += length;
    *index += add;
    return *p == '}' ? p + 1 : NULL;
}

/* Appends while there is room; a name that is cut off matches nothing. */
static void put(char *out, size_t size, size_t *n, const char *text, size_t length) {
    if (*n + length >= size) length = size - 1 - *n;
    // cppcheck-suppress uninitvar -- it has been written by the snprintf that gives its length
    memcpy(out + *n, text, length);
    *n += length;
    out[*n] = '\0';
}

/* The pattern with its indices; bit i of `without` leaves the i-th bracket's content out. layer < 0: indices stay as they are. */
static void expand(char *out, size_t size, const char *prefix, const char *pattern, int layer, int head, unsigned without) {
    size_t n = 0;
    bool skip = false;
    unsigned bracket = 0;
    put(out, size, &n, prefix, strlen(prefix));
    for (const char *p = pattern; *p; p++) {
        int index;
        const char *end;
        if (*p == '[')
            skip = without >> bracket++ & 1;
        else if (*p == ']')
            skip = false;
        else if (!skip && layer >= 0 && *p == '{' && (end = index_at(p, layer, head, &index)) != NULL) {
            char digits[16];
            put(out, size, &n, digits, (size_t)snprintf(digits, sizeof digits, "%d", index));
            p = end - 1;
        } else if (!skip)
            put(out, size, &n, p, 1);
    }
}

const tensor *pattern_find(const checkpoint *c, const char *prefix, const json_t *patterns, int layer, int head) {
    char name[NAME_SIZE];
    for (size_t i = 0; i < n_patterns(patterns); i++) {
        const char *pattern = nth_pattern(patterns, i);
        for (unsigned v = 0; v < n_variants(pattern); v++) {
            expand(name, sizeof name, prefix, pattern, layer < 0 ? 0 : layer, head, v);
            const tensor *t = checkpoint_find(c, name);
            if (t != NULL) return t;
        }
    }
    return NULL;
}

void pattern_first_name(char *out, size_t size, const char *prefix, const json_t *patterns, int layer, int head) {
    const char *pattern = n_patterns(patterns) > 0 ? nth_pattern(patterns, 0) : "?";
    expand(out, size, prefix, pattern, layer < 0 ? 0 : layer, head, 0);
}

static bool glob(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL; /* the last '*', and the name from where it was last tried */
    while (*name) {
        int unused;
        const char *end = *pattern == '{' ? index_at(pattern, 0, 0, &unused) : NULL;
        if (*pattern == '*')
            star = ++pattern, retry = name;
        else if (end != NULL && isdigit((unsigned char)*name)) {
            while (isdigit((unsigned char)*name)) name++;
            pattern = end;
        } else if (*pattern == *name && *pattern != '{')
            pattern++, name++;
        else if (star != NULL)
            pattern = star, name = ++retry;
        else
            return false;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

bool pattern_fits(const char *pattern, const char *name) {
    char one[NAME_SIZE];
    for (unsigned v = 0; v < n_variants(pattern); v++) {
        expand(one, sizeof one, "", pattern, -1, -1, v);
        if (glob(one, name)) return true;
    }
    return false;
}

bool pattern_matches(const json_t *patterns, const char *name) {
    for (size_t i = 0; i < n_patterns(patterns); i++)
        if (pattern_fits(nth_pattern(patterns, i), name)) return true;
    return false;
}

bool pattern_ends(const json_t *patterns, const char *name, size_t *prefix_length) {
    char end[NAME_SIZE];
    size_t n = strlen(name);
    for (size_t i = 0; i < n_patterns(patterns); i++)
        for (unsigned v = 0; v < n_variants(nth_pattern(patterns, i)); v++) {
            expand(end, sizeof end, "", nth_pattern(patterns, i), 0, 0, v);
            size_t m = strlen(end);
            if (m > n || strcmp(name + n - m, end) != 0 || (m < n && name[n - m - 1] != '.')) continue;
            *prefix_length = n - m;
            return true;
        }
    return false;
}

bool pattern_has(const json_t *patterns, const char *word) {
    return n_patterns(patterns) > 0 && strstr(nth_pattern(patterns, 0), word) != NULL;
}

json_t *meta_find(json_t *root, const char *path) {
    json_t *whole = json_object_get(root, path);
    if (whole != NULL) return whole;
    for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        char key[NAME_SIZE];
        size_t n = (size_t)(dot - path);
        if (n >= sizeof key) return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        json_t *inner = json_object_get(root, key), *found = json_is_object(inner) ? meta_find(inner, dot + 1) : NULL;
        if (found != NULL) return found;
    }
    return NULL;
}
