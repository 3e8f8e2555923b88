/* gguf_keys.c - the keys and values of a GGUF file (bytes: gguf.h), as a flat JSON object. */
#include <stdio.h>
#include <string.h>

#include "weights/gguf.h"

enum { TEXT = 8, ARRAY = 9, N_TYPES = 13 };

/* Bytes of a value in the file; 0: it has a length of its own. */
static const uint8_t width[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

status gguf_fail(gguf *g, status code, const char *what) {
    return error_set(g->e, code, "GGUF, byte %zu: %s", g->in.at, what);
}

static status no_memory(gguf *g) {
    return error_set(g->e, ERR_MEMORY, "no memory for its metadata");
}

static status charge(gguf *g, size_t bytes) {
    size_t walked = g->in.at - g->touched;
    g->touched = g->in.at;
    g->limit = !reader_charge(g->r, bytes + walked, g->e);
    return g->limit ? ERR_LIMIT : OK;
}

status gguf_text(gguf *g, const char *what, const uint8_t **bytes, size_t *n) {
    uint64_t length;
    if (!cursor_u64(&g->in, &length)) return error_set(g->e, ERR_FORMAT, "GGUF, byte %zu: the file ends at %s", g->in.at, what);
    if (!cursor_take(&g->in, length, bytes))
        return error_set(g->e, ERR_FORMAT, "GGUF, byte %zu: %s of %llu bytes, %zu are left", g->in.at, what,
                         (unsigned long long)length, cursor_left(&g->in));
    *n = (size_t)length;
    return OK;
}

static json_t *integer(gguf *g, int64_t value) {
    if (value < 0 || value > 255) return charge(g, JSON_COST_NUMBER) == OK ? json_integer(value) : NULL;
    if (g->small[value] == NULL) g->small[value] = json_integer(value);
    return json_incref(g->small[value]);
}

static json_t *real(gguf *g, double value) {
    return charge(g, JSON_COST_NUMBER) == OK ? json_number(value) : NULL;
}

/* A number from its bytes, charged for; NULL: no memory. */
static json_t *number(gguf *g, uint32_t type, const uint8_t *bytes) {
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
        uint64_t u64;
    } v = {.u64 = 0};
    memcpy(&v, bytes, width[type]);
    switch (type) {
    case 1:
        return integer(g, v.i8);
    case 3:
        return integer(g, v.i16);
    case 5:
        return integer(g, v.i32);
    case 6:
        return real(g, (double)v.f32);
    case 7:
        return json_boolean(v.u64 == 1);
    case 11:
        return integer(g, v.i64);
    case 12:
        return real(g, v.f64);
    default:
        return v.u64 <= INT64_MAX ? integer(g, (int64_t)v.u64) : real(g, (double)v.u64); /* 0, 2, 4, 10: unsigned */
    }
}

/* One value of a type that is no array. */
static status read_value(gguf *g, uint32_t type, json_t **out) {
    const uint8_t *bytes;
    size_t n = 0;
    if (type == TEXT) {
        status result = gguf_text(g, "a text", &bytes, &n);
        if (result == OK) result = charge(g, JSON_COST_TEXT + n);
        if (result != OK) return result;
        *out = json_bytes(bytes, n);
        return *out != NULL ? OK : no_memory(g);
    }
    if (!cursor_take(&g->in, width[type], &bytes)) return gguf_fail(g, ERR_FORMAT, "the file ends in a value");
    if (type == 7 && *bytes > 1) return gguf_fail(g, ERR_FORMAT, "a bool that is neither 0 nor 1");
    g->limit = false;
    *out = number(g, type, bytes);
    if (*out != NULL) return OK;
    return g->limit ? ERR_LIMIT : no_memory(g);
}

static status read_array(gguf *g, json_t **out) {
    uint32_t type;
    uint64_t n;
    if (!cursor_u32(&g->in, &type) || !cursor_u64(&g->in, &n)) return gguf_fail(g, ERR_FORMAT, "the file ends in an array");
    if (type == ARRAY) return gguf_fail(g, ERR_UNSUPPORTED, "an array of arrays");
    if (type >= N_TYPES) return error_set(g->e, ERR_FORMAT, "GGUF, byte %zu: an array of type %u", g->in.at, type);
    size_t least = type == TEXT ? 8 : width[type];
    if (n > cursor_left(&g->in) / least)
        return error_set(g->e, ERR_FORMAT, "GGUF, byte %zu: an array of %llu values, %zu bytes are left", g->in.at,
                         (unsigned long long)n, cursor_left(&g->in));
    if (charge(g, JSON_COST_ARRAY) != OK) return ERR_LIMIT;
    *out = json_array();
    if (*out == NULL) return no_memory(g);
    for (uint64_t i = 0; i < n; i++) {
        json_t *item = NULL;
        status result = charge(g, JSON_COST_ITEM);
        if (result == OK) result = read_value(g, type, &item);
        if (result != OK) return result;
        if (json_array_append_new(*out, item) != 0) return no_memory(g);
    }
    return OK;
}

/* general.alignment must be a power of two, of type u32. */
static status check_alignment(gguf *g, uint32_t type, const json_t *value) {
    json_int_t a = json_integer_value(value);
    if (type != 4 || a <= 0 || (a & (a - 1)) != 0) return error_set(g->e, ERR_FORMAT, "is no power of two, or not of type u32");
    g->alignment = (uint64_t)a;
    return OK;
}

static status read_key(gguf *g) {
    const uint8_t *key;
    size_t n;
    uint32_t type;
    json_t *value = NULL, *meta = g->r->c->meta;
    status result = gguf_text(g, "a key", &key, &n);
    if (result != OK) return result;
    int shown = (int)(n < 100 ? n : 100);
    const char *name = (const char *)key;
    if (!cursor_u32(&g->in, &type)) return error_set(g->e, ERR_FORMAT, "key %.*s: the file ends at its type", shown, name);
    if (type >= N_TYPES)
        return error_set(g->e, ERR_FORMAT, "key %.*s: has type %u, which GGUF does not know", shown, name, type);
    if (json_object_getn(meta, name, n) != NULL) return error_set(g->e, ERR_FORMAT, "key %.*s: is there twice", shown, name);
    result = charge(g, JSON_COST_MEMBER + n);
    if (result == OK) result = type == ARRAY ? read_array(g, &value) : read_value(g, type, &value);
    if (result == OK && n == 17 && memcmp(key, "general.alignment", 17) == 0) result = check_alignment(g, type, value);
    if (result == OK && json_object_setn_new_nocheck(meta, name, n, json_incref(value)) != 0) result = no_memory(g);
    json_decref(value);
    if (result == OK) return OK;
    char where[128];
    snprintf(where, sizeof where, "key %.*s", shown, name);
    error_prefix(g->e, where);
    return result;
}

status gguf_read_keys(gguf *g, uint64_t n) {
    if (n > cursor_left(&g->in) / 8) /* a key's length alone */
        return error_set(g->e, ERR_FORMAT, "GGUF: %llu keys in a file of %zu bytes", (unsigned long long)n, g->in.size);
    status result = OK;
    for (uint64_t i = 0; i < n && result == OK; i++) result = read_key(g);
    return result;
}
