#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *status_text(status code) {
    switch (code) {
#define STATUS_CASE(name, text)                                                                                                \
    case name:                                                                                                                 \
        return text;
        STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

/* Copies text, escaping control characters; UTF-8 bytes (0x80 and above) pass. Always terminates. */
static void copy_printable(char *out, size_t size, const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        int need = c < 0x20 || c == 0x7f ? 4 : 1;
        if (n + (size_t)need + 1 > size) break;
        if (need == 1) {
            out[n] = (char)c;
        } else {
            snprintf(out + n, size - n, "\\x%02x", c);
        }
        n += (size_t)need;
    }
    out[n] = '\0';
}

status error_set(error *e, status code, const char *format, ...) {
    if (e == NULL) return code;
    char text[sizeof e->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->code = code;
    copy_printable(e->message, sizeof e->message, text);
    return code;
}

status error_prefix(error *e, const char *where) {
    if (e == NULL) return ERR_IO;
    char text[sizeof e->message];
    snprintf(text, sizeof text, "%s", e->message);
    return error_set(e, e->code, "%s: %s", where, text);
}
