#include "tokenizer/json_steps.h"

#include <string.h>

#define MAX_DEPTH    8
#define SPACE_MARK   "\xE2\x96\x81" /* U+2581 */
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const char *json_text(json_t *j, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(j, key));
    return text != NULL ? text : otherwise;
}

bool json_flag(json_t *j, const char *key, bool otherwise) {
    json_t *flag = json_object_get(j, key);
    return json_is_boolean(flag) ? json_is_true(flag) : otherwise;
}

bool json_is(const char *type, const char *name) {
    return strcmp(type, name) == 0;
}

status json_each_part(tokenizer *t, json_t *j, const char *what, const char *list, json_part_reader f, int depth, error *e) {
    if (j == NULL || json_is_null(j)) return OK;
    const char *type = json_text(j, "type", NULL);
    if (type == NULL) return error_set(e, ERR_FORMAT, "the %s has no type", what);
    status s = OK;
    if (!json_is(type, "Sequence")) {
        s = f(t, j, type, e);
        if (s != ERR_UNSUPPORTED || e == NULL || strstr(e->message, type) != NULL) return s;
        error of_part = *e;
        return error_set(e, s, "the %s \"%s\": %s", what, type, of_part.message);
    }
    json_t *parts = json_object_get(j, list);
    if (!json_is_array(parts)) return error_set(e, ERR_FORMAT, "the %s \"Sequence\" has no %s", what, list);
    if (depth >= MAX_DEPTH) return error_set(e, ERR_LIMIT, "the %s has sequences more than %d deep", what, MAX_DEPTH);
    for (size_t i = 0; s == OK && i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i);
        if (!json_is_object(part)) return error_set(e, ERR_FORMAT, "the %s has a part that is not an object", what);
        s = json_each_part(t, part, what, list, f, depth + 1, e);
    }
    return s;
}

status json_unsupported(const char *what, const char *type, error *e) {
    return error_set(e, ERR_UNSUPPORTED, "the %s \"%s\" is not supported", what, type);
}

status json_pattern(json_t *j, const char **text, const char **regex, error *e) {
    json_t *p = json_object_get(j, "pattern");
    *text = json_is_string(p) ? json_string_value(p) : json_text(p, "String", NULL);
    *regex = json_text(p, "Regex", NULL);
    return *text != NULL || *regex != NULL ? OK : error_set(e, ERR_FORMAT, "a pattern is neither a String nor a Regex");
}

/* The expression that matches this text: every character that means something gets a backslash. */
static status quote(const char *text, byte_buffer *out, error *e) {
    for (; *text != '\0'; text++) {
        if (strchr("\\^$.|?*+()[]{}/-&#", *text) != NULL && !buffer_append(out, "\\", 1)) break;
        if (!buffer_append(out, text, 1)) break;
    }
    return *text == '\0' ? OK : error_set(e, ERR_MEMORY, "no memory for a pattern");
}

/* ---- normalizer ---- */

static status replace_normalizer(tokenizer *t, json_t *j, error *e) {
    const char *text, *regex, *content = json_text(j, "content", NULL);
    status s = json_pattern(j, &text, &regex, e);
    if (s != OK) return s;
    if (content == NULL) return error_set(e, ERR_FORMAT, "the normalizer \"Replace\" has no content");
    if (text != NULL) return steps_add_replace(&t->normalizer, text, content, e);
    return steps_add(&t->normalizer, STEP_REPLACE_PATTERN, NULL, 0, content, strlen(content), regex, strlen(regex), NULL, e);
}

static status strip_normalizer(tokenizer *t, json_t *j, error *e) {
    step *made;
    status s = steps_add(&t->normalizer, STEP_STRIP, NULL, 0, NULL, 0, NULL, 0, &made, e);
    if (s != OK) return s;
    made->left = json_flag(j, "strip_left", true);
    made->right = json_flag(j, "strip_right", true);
    return OK;
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static status charsmap_normalizer(tokenizer *t, json_t *j, error *e) {
    const char *text = json_text(j, "precompiled_charsmap", NULL);
    byte_buffer map = {0};
    unsigned bits = 0, n_bits = 0;
    bool room = true;
    if (text == NULL) return error_set(e, ERR_FORMAT, "the normalizer \"Precompiled\" has no precompiled_charsmap");
    for (; room && base64_digit(*text) >= 0; text++) {
        bits = bits << 6 | (unsigned)base64_digit(*text);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        char byte = (char)(bits >> n_bits & 0xFF);
        room = buffer_append(&map, &byte, 1);
    }
    status s = room ? OK : error_set(e, ERR_MEMORY, "no memory for a map of characters");
    if (s == OK && text[strspn(text, "=")] != '\0') s = error_set(e, ERR_FORMAT, "precompiled_charsmap is not base64");
    if (s == OK && map.n > 0) s = charsmap_check(map.data, map.n, e);
    if (s == OK && map.n > 0) s = steps_add(&t->normalizer, STEP_CHARSMAP, map.data, map.n, NULL, 0, NULL, 0, NULL, e);
    buffer_free(&map);
    return s;
}

static status nmt_normalizer(tokenizer *t, error *e) {
    static const char gone[] = "[\\x{1}-\\x{8}\\x{b}\\x{e}-\\x{1f}\\x{7f}\\x{8f}\\x{9f}]";
    static const char space[] = "[\\t\\n\\f\\r\\x{1680}\\x{200b}-\\x{200f}\\x{2028}\\x{2029}\\x{2581}\\x{feff}\\x{fffd}]";
    step_list *l = &t->normalizer;
    status s = steps_add(l, STEP_REPLACE_PATTERN, NULL, 0, "", 0, gone, sizeof gone - 1, NULL, e);
    if (s == OK) s = steps_add(l, STEP_REPLACE_PATTERN, NULL, 0, " ", 1, space, sizeof space - 1, NULL, e);
    return s;
}

static status normalizer_part(tokenizer *t, json_t *j, const char *type, error *e) {
    step_list *l = &t->normalizer;
    if (json_is(type, "NFC")) return steps_add_kind(l, STEP_NFC, e);
    if (json_is(type, "NFD")) return steps_add_kind(l, STEP_NFD, e);
    if (json_is(type, "NFKC")) return steps_add_kind(l, STEP_NFKC, e);
    if (json_is(type, "NFKD")) return steps_add_kind(l, STEP_NFKD, e);
    if (json_is(type, "Lowercase")) return steps_add_kind(l, STEP_LOWERCASE, e);
    if (json_is(type, "Strip")) return strip_normalizer(t, j, e);
    if (json_is(type, "StripAccents")) return steps_add(l, STEP_REPLACE_PATTERN, NULL, 0, "", 0, "\\p{M}", 5, NULL, e);
    if (json_is(type, "Replace")) return replace_normalizer(t, j, e);
    if (json_is(type, "Nmt")) return nmt_normalizer(t, e);
    if (json_is(type, "Precompiled")) return charsmap_normalizer(t, j, e);
    if (json_is(type, "ByteLevel")) return steps_add_kind(l, STEP_BYTE_CHARS, e);
    if (json_is(type, "Prepend")) {
        const char *text = json_text(j, "prepend", "");
        return steps_add(l, STEP_PREPEND, text, strlen(text), NULL, 0, NULL, 0, NULL, e);
    }
    return json_unsupported("normalizer", type, e);
}

status json_normalizer(tokenizer *t, json_t *j, error *e) {
    return json_each_part(t, j, "normalizer", "normalizers", normalizer_part, 0, e);
}

/* ---- pre_tokenizer ---- */

static status way_of(json_t *j, const char *otherwise, cut_way *way, error *e) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_text(j, "behavior", otherwise);
    for (int i = 0; i < 5; i++)
        if (json_is(name, names[i])) {
            *way = (cut_way)i;
            return OK;
        }
    return json_unsupported("behavior", name, e);
}

static status cut(tokenizer *t, const char *regex, cut_way way, bool invert, error *e) {
    return steps_add_cut(&t->cutter, regex, strlen(regex), way, invert, e);
}

static status split(tokenizer *t, json_t *j, error *e) {
    const char *text, *regex;
    byte_buffer quoted = {0};
    cut_way way = CUT_ISOLATED;
    status s = json_pattern(j, &text, &regex, e);
    if (s == OK) s = way_of(j, "", &way, e);
    if (s == OK && text != NULL) s = quote(text, &quoted, e);
    if (s == OK && text != NULL && quoted.n == 0) s = error_set(e, ERR_FORMAT, "\"Split\" has an empty pattern");
    if (s == OK) {
        const char *words = text != NULL ? quoted.data : regex;
        s = steps_add_cut(&t->cutter, words, text != NULL ? quoted.n : strlen(regex), way, json_flag(j, "invert", false), e);
    }
    buffer_free(&quoted);
    return s;
}

static status prepend_step(tokenizer *t, const char *text, bool at_start_only, error *e) {
    step *made;
    status s = steps_add(&t->cutter, STEP_PREPEND, text, strlen(text), NULL, 0, NULL, 0, &made, e);
    if (s != OK) return s;
    made->unless_there = true;
    made->at_start_only = at_start_only;
    return OK;
}

static status byte_level(tokenizer *t, json_t *j, error *e) {
    status s = OK;
    if (json_flag(j, "add_prefix_space", true)) s = prepend_step(t, " ", false, e);
    if (s == OK && json_flag(j, "use_regex", true)) s = cut(t, GPT2_PATTERN, CUT_ISOLATED, false, e);
    return s == OK ? steps_add_kind(&t->cutter, STEP_BYTE_CHARS, e) : s;
}

const char *json_prepend_scheme(json_t *j) {
    return json_text(j, "prepend_scheme", json_flag(j, "add_prefix_space", true) ? "always" : "never");
}

static status metaspace(tokenizer *t, json_t *j, error *e) {
    const char *mark = json_text(j, "replacement", SPACE_MARK), *scheme = json_prepend_scheme(j);
    if (!json_is(scheme, "always") && !json_is(scheme, "first") && !json_is(scheme, "never"))
        return json_unsupported("prepend_scheme", scheme, e);
    status s = steps_add_replace(&t->cutter, " ", mark, e);
    if (s == OK && !json_is(scheme, "never")) s = prepend_step(t, mark, json_is(scheme, "first"), e);
    if (s != OK || !json_flag(j, "split", true)) return s;
    byte_buffer quoted = {0};
    s = quote(mark, &quoted, e);
    if (s == OK) s = steps_add_cut(&t->cutter, quoted.data, quoted.n, CUT_WITH_NEXT, false, e);
    buffer_free(&quoted);
    return s;
}

static status digits(tokenizer *t, json_t *j, error *e) {
    return cut(t, json_flag(j, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", CUT_ISOLATED, false, e);
}

/* Word characters of Rust's regex, where "Whitespace" comes from. */
#define WORD        "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
#define PUNCTUATION "[!-\\/:-@\\[-`{-~\\p{P}]"

static status pre_tokenizer_part(tokenizer *t, json_t *j, const char *type, error *e) {
    cut_way way = CUT_ISOLATED;
    if (json_is(type, "ByteLevel")) return byte_level(t, j, e);
    if (json_is(type, "Split")) return split(t, j, e);
    if (json_is(type, "Digits")) return digits(t, j, e);
    if (json_is(type, "Metaspace")) return metaspace(t, j, e);
    if (json_is(type, "Whitespace")) return cut(t, "[" WORD "]+|[^" WORD "\\s]+", CUT_REMOVED, true, e);
    if (json_is(type, "WhitespaceSplit")) return cut(t, "\\s", CUT_REMOVED, false, e);
    if (json_is(type, "Punctuation")) {
        status s = way_of(j, "Isolated", &way, e);
        return s == OK ? cut(t, PUNCTUATION, way, false, e) : s;
    }
    if (json_is(type, "BertPreTokenizer")) {
        status s = cut(t, "\\s", CUT_REMOVED, false, e);
        return s == OK ? cut(t, PUNCTUATION, CUT_ISOLATED, false, e) : s;
    }
    if (json_is(type, "CharDelimiterSplit")) {
        byte_buffer quoted = {0};
        status s = quote(json_text(j, "delimiter", ""), &quoted, e);
        if (s == OK && quoted.n == 0) s = error_set(e, ERR_FORMAT, "\"CharDelimiterSplit\" has no delimiter");
        if (s == OK) s = steps_add_cut(&t->cutter, quoted.data, quoted.n, CUT_REMOVED, false, e);
        buffer_free(&quoted);
        return s;
    }
    return json_unsupported("pre_tokenizer", type, e);
}

status json_pre_tokenizer(tokenizer *t, json_t *j, error *e) {
    return json_each_part(t, j, "pre_tokenizer", "pretokenizers", pre_tokenizer_part, 0, e);
}
