/* cursor.h - reading numbers from bytes that may end too early. Little-endian, any alignment.
 *
 * Every function returns false, and moves nothing, when fewer bytes are left than asked for. */
#ifndef TALLY_CURSOR_H
#define TALLY_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats are little-endian, and are read as they lie");

typedef struct {
    const uint8_t *data;
    size_t size, at; /* at <= size */
} cursor;

static inline size_t cursor_left(const cursor *c) {
    return c->size - c->at;
}

/* Steps over n bytes; *bytes points at the first. */
static inline bool cursor_take(cursor *c, uint64_t n, const uint8_t **bytes) {
    if (n > cursor_left(c)) return false;
    *bytes = c->data + c->at;
    c->at += (size_t)n;
    return true;
}

static inline bool cursor_copy(cursor *c, void *out, size_t n) {
    const uint8_t *bytes;
    if (!cursor_take(c, n, &bytes)) return false;
    memcpy(out, bytes, n);
    return true;
}

static inline bool cursor_u8(cursor *c, uint8_t *out) {
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u16(cursor *c, uint16_t *out) {
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u32(cursor *c, uint32_t *out) {
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_i32(cursor *c, int32_t *out) {
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u64(cursor *c, uint64_t *out) {
    return cursor_copy(c, out, sizeof *out);
}

#endif
