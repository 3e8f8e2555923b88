#include "weights/json_scan.h"

#include <stddef.h>

void json_scan_space(json_scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')) s->at++;
}

bool json_scan_peek(json_scan *s, char c) {
    json_scan_space(s);
    return s->at < s->end && *s->at == c;
}

bool json_scan_char(json_scan *s, char c) {
    if (!json_scan_peek(s, c)) return false;
    s->at++;
    return true;
}

static size_t digits(const char **at, const char *end) {
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9') (*at)++;
    return (size_t)(*at - start);
}

bool json_scan_number(json_scan *s) {
    json_scan_space(s);
    const char *at = s->at;
    if (at < s->end && *at == '-') at++;
    bool leading_zero = at < s->end && *at == '0';
    size_t n = digits(&at, s->end);
    if (n == 0 || (leading_zero && n > 1)) return false;
    if (at < s->end && *at == '.') {
        at++;
        if (digits(&at, s->end) == 0) return false;
    }
    if (at < s->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < s->end && (*at == '+' || *at == '-')) at++;
        if (digits(&at, s->end) == 0) return false;
    }
    s->at = at;
    return true;
}

bool json_scan_text(json_scan *s) {
    json_scan_space(s);
    const char *at = s->at;
    if (at >= s->end || *at != '"') return false;
    for (at++; at < s->end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < s->end) at++;
    if (at >= s->end) return false;
    s->at = at + 1;
    return true;
}

bool json_scan_value(json_scan *s) {
    json_scan_space(s);
    json_scan inner = *s;
    size_t depth = 0;
    do {
        if (inner.at >= inner.end) return false;
        char c = *inner.at;
        if (c == '"') {
            if (!json_scan_text(&inner)) return false;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
            break; /* a value without brackets ends here */
        } else {
            if (c == '{' || c == '[') depth++;
            if (c == '}' || c == ']') depth--;
            inner.at++;
            if (depth == 0 && (c == '}' || c == ']')) break;
        }
    } while (inner.at < inner.end);
    if (depth > 0 || inner.at == s->at) return false;
    s->at = inner.at;
    return true;
}
