#include "tokenizer/utf8.h"

int utf8_decode(const char *s, size_t n, uint32_t *code) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        *code = u[0];
        return 1;
    }
    int length = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2;
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (u[0] < 0xC2 || u[0] > 0xF4 || n < (size_t)length) return 0;
    uint32_t c = u[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((u[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (u[i] & 0x3Fu);
    }
    if (c < smallest[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    *code = c;
    return length;
}

size_t utf8_step(const char *s, size_t n) {
    uint32_t code;
    int length = utf8_decode(s, n, &code);
    return length > 0 ? (size_t)length : 1;
}

size_t utf8_encode(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00u >> length & 0xF0) | code);
    return length;
}

size_t utf8_valid(const char *s, size_t n) {
    size_t i = 0;
    uint32_t code;
    while (i < n) {
        int length = utf8_decode(s + i, n - i, &code);
        if (length == 0) break;
        i += (size_t)length;
    }
    return i;
}

size_t utf8_incomplete_tail(const char *s, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xC0) == 0x80) continue;
        size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 1;
        return c <= 0xF4 && length > back ? back : 0;
    }
    return 0;
}
