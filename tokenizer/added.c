#include "tokenizer/added.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "tokenizer/buffer.h"
#include "tokenizer/utf8.h"

#define MAX_ADDED_BYTES 1024 /* looking for tokens takes that much time a byte at worst */

status added_add(added_list *l, added_token token, const char *text, size_t n, error *e) {
    if (n > MAX_ADDED_BYTES)
        return error_set(e, ERR_LIMIT, "the added token %d has %zu bytes (at most %d)", token.id, n, MAX_ADDED_BYTES);
    if (!array_reserve(&l->data, &l->capacity, l->n, 1, sizeof *l->data) || !trie_add(&l->texts, text, n, (int)l->n))
        return error_set(e, ERR_MEMORY, "no memory for the added tokens");
    l->data[l->n++] = token;
    return OK;
}

void added_free(added_list *l) {
    free(l->data);
    trie_free(&l->texts);
    *l = (added_list){0};
}

static bool is_space(const char *s, size_t n, size_t *length) {
    uint32_t code;
    int known = utf8_decode(s, n, &code);
    *length = known > 0 ? (size_t)known : 1;
    if (known == 0) return false;
    if ((code >= 0x09 && code <= 0x0D) || code == 0x85) return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

/* \w of Rust's regex: Alphabetic, marks, digits, connectors, joiners. Alphabetic symbols are the letters in circles and squares. */
static bool is_word(const char *s, size_t n) {
    uint32_t code;
    if (utf8_decode(s, n, &code) == 0) return false;
    if ((code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F189)) return true;
    if (code == 0x200C || code == 0x200D) return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC;
}

/* Where the character before `at` begins. at > 0. */
static size_t character_before(const char *text, size_t at) {
    size_t i = at - 1;
    while (i > 0 && at - i < 4 && ((unsigned char)text[i] & 0xC0) == 0x80) i--;
    return utf8_step(text + i, at - i) == at - i ? i : at - 1;
}

static bool inside_word(const char *text, size_t n, size_t start, size_t end) {
    size_t before = start > 0 ? character_before(text, start) : 0;
    return (start > 0 && is_word(text + before, start - before)) || (end < n && is_word(text + end, n - end));
}

/* The longest token that text begins with at i; NULL: none. */
static const added_token *longest_at(const added_list *l, const char *text, size_t n, size_t i, bool special, size_t *end) {
    const added_token *found = NULL;
    uint32_t node = 0;
    for (size_t j = i; j < n; j++) {
        node = trie_step(&l->texts, node, (unsigned char)text[j]);
        if (node == 0) break;
        int at = l->texts.value[node];
        if (at < 0 || (l->data[at].special && !special)) continue;
        found = &l->data[at];
        *end = j + 1;
    }
    return found;
}

added_part added_next(const added_list *l, const char *text, size_t n, size_t from, bool special) {
    for (size_t i = from; i < n; i++) {
        size_t end = i, start = i, length;
        if (!l->texts.first[(unsigned char)text[i]]) continue;
        const added_token *t = longest_at(l, text, n, i, special, &end);
        if (t == NULL) continue;
        if (t->single_word && inside_word(text, n, i, end)) {
            i = end - 1;
            continue;
        }
        while (t->strip_left && start > from) {
            size_t before = character_before(text, start);
            if (before < from || !is_space(text + before, start - before, &length)) break;
            start = before;
        }
        if (start > from) return (added_part){from, start, -1};
        while (t->strip_right && end < n && is_space(text + end, n - end, &length)) end += length;
        return (added_part){from, end, t->id};
    }
    return (added_part){from, n, -1};
}
