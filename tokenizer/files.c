#include "tokenizer/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static status read_all(FILE *f, size_t size, byte_buffer *out, error *e) {
    if (!array_reserve(&out->data, &out->capacity, 0, size + 1, 1))
        return error_set(e, ERR_MEMORY, "no memory for %zu bytes", size);
    out->n = fread(out->data, 1, size, f);
    out->data[out->n] = '\0';
    return out->n == size && !ferror(f) ? OK
                                        : error_set(e, ERR_IO, "cannot be read to its end (%zu of %zu bytes)", out->n, size);
}

status file_bytes(const char *path, byte_buffer *out, error *e) {
    struct stat info;
    *out = (byte_buffer){0};
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &info) != 0 || !S_ISREG(info.st_mode)) {
        const char *why = f == NULL ? strerror(errno) : "is not a file";
        if (f != NULL) fclose(f);
        return error_set(e, ERR_IO, "%s: %s", path, why);
    }
    status s = OK;
    if (info.st_size > (off_t)FILE_MAX_BYTES) {
        s = error_set(e, ERR_LIMIT, "%s: %lld bytes (a tokenizer has at most %u)", path, (long long)info.st_size,
                      FILE_MAX_BYTES);
    } else if (read_all(f, (size_t)info.st_size, out, e) != OK) {
        s = error_prefix(e, path);
    }
    fclose(f);
    if (s != OK) buffer_free(out);
    return s;
}

bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *path_in(const char *folder, const char *name) {
    size_t n = strlen(folder), size = n + strlen(name) + 2;
    char *path = malloc(size);
    if (path == NULL) return NULL;
    snprintf(path, size, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

char *path_beside(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash - path) + 1 : 0, n_name = strlen(name);
    char *out = malloc(n + n_name + 1);
    if (out == NULL) return NULL;
    memcpy(out, path, n);
    memcpy(out + n, name, n_name + 1);
    return out;
}

status json_parse(const char *text, size_t n, size_t flags, json_t **out, error *e) {
    json_error_t why;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &why);
    if (*out == NULL) return error_set(e, ERR_FORMAT, "is not valid JSON: %s (line %d)", why.text, why.line);
    if (json_is_object(*out)) return OK;
    json_decref(*out);
    *out = NULL;
    return error_set(e, ERR_FORMAT, "is JSON, but not an object");
}

status json_read_if_there(const char *path, json_t **out, error *e) {
    byte_buffer text;
    *out = NULL;
    if (path == NULL) return error_set(e, ERR_MEMORY, "no memory for a path");
    if (!is_file(path)) return OK;
    status s = file_bytes(path, &text, e);
    if (s != OK) return s;
    s = json_parse(text.data, text.n, JSON_DECODE_INT_AS_REAL, out, e);
    if (s != OK) error_prefix(e, path);
    buffer_free(&text);
    return s;
}
