#include "tests/made_files.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "weights/container.h"

void bytes_free(bytes *b) {
    free(b->data);
    *b = (bytes){0};
}

void put(bytes *b, const void *data, size_t n) {
    if (b->n + n > b->capacity) {
        b->capacity = 2 * b->capacity + n + 256;
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL) abort();
    }
    if (n > 0) memcpy(b->data + b->n, data, n);
    b->n += n;
}

void put_u8(bytes *b, uint8_t v) {
    put(b, &v, sizeof v);
}
void put_u16(bytes *b, uint16_t v) {
    put(b, &v, sizeof v);
}
void put_u32(bytes *b, uint32_t v) {
    put(b, &v, sizeof v);
}
void put_u64(bytes *b, uint64_t v) {
    put(b, &v, sizeof v);
}
void put_f32(bytes *b, float v) {
    put(b, &v, sizeof v);
}
void put_text(bytes *b, const char *text) {
    put(b, text, strlen(text));
}

void put_zeros(bytes *b, size_t n) {
    static const uint8_t zeros[256];
    for (; n > 256; n -= 256) put(b, zeros, 256);
    put(b, zeros, n);
}

void put_padding(bytes *b, size_t multiple) {
    while (b->n % multiple != 0) put_u8(b, 0);
}

/* Opens an exact copy, so that reads past the end are seen. The copy lives as long as the process where the test needs it. */
static status open_copy(checkpoint **c, const bytes *b, void **copy, error *e) {
    *copy = malloc(b->n > 0 ? b->n : 1);
    if (*copy == NULL) abort();
    if (b->n > 0) memcpy(*copy, b->data, b->n);
    return checkpoint_open_bytes(c, "made", *copy, b->n, e);
}

checkpoint *opened(const bytes *b) {
    error e = {0};
    checkpoint *c;
    if (checkpoint_open_bytes(&c, "made", b->data, b->n, &e) != OK) fail_msg("refused: %s", e.message);
    return c;
}

void accepted(bytes *b) {
    error e = {0};
    checkpoint *c;
    void *copy;
    status s = open_copy(&c, b, &copy, &e);
    if (s != OK) fail_msg("refused: %s", e.message);
    for (size_t i = 0; i < c->n_tensors; i++) {
        tensor_bytes t;
        if (tensor_read(c, &c->tensors[i], &t, &e) != OK) fail_msg("not read: %s", e.message);
        tensor_release(&t);
    }
    checkpoint_close(c);
    free(copy);
    bytes_free(b);
}

void refused(bytes *b, const char *why) {
    error e = {0};
    checkpoint *c;
    void *copy;
    status s = open_copy(&c, b, &copy, &e);
    if (s == OK) fail_msg("opened, although: %s", why);
    assert_null(c);
    assert_int_equal(s, e.code);
    if (strncmp(e.message, "made: ", 6) != 0) fail_msg("the file's name is not in front of: %s", e.message);
    if (strstr(e.message, why) == NULL) fail_msg("expected \"%s\" in: %s", why, e.message);
    free(copy);
    bytes_free(b);
}

static double plain_value(dtype type, const void *at) {
    union {
        float f32;
        double f64;
        uint16_t u16;
        int8_t i8;
        int64_t i64;
    } v;
    switch (type) {
    case DTYPE_F32:
        memcpy(&v.f32, at, 4);
        return (double)v.f32;
    case DTYPE_F64:
        memcpy(&v.f64, at, 8);
        return v.f64;
    case DTYPE_F16:
        memcpy(&v.u16, at, 2);
        return (double)f16_to_f32(v.u16);
    case DTYPE_BF16:
        memcpy(&v.u16, at, 2);
        return (double)bf16_to_f32(v.u16);
    case DTYPE_I64:
        memcpy(&v.i64, at, 8);
        return (double)v.i64;
    case DTYPE_I8G:
    case DTYPE_I8:
        memcpy(&v.i8, at, 1);
        return v.i8;
    default:
        fail_msg("type %s", dtype_info(type)->name);
        return 0;
    }
}

/* The offset of element i, in elements, by the shape and the strides. */
static int64_t place_of(const tensor *t, size_t i) {
    int64_t place = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        place += (int64_t)(i % (size_t)t->shape[d]) * t->stride[d];
        i /= (size_t)t->shape[d];
    }
    return place;
}

double element(checkpoint *c, const char *name, size_t i) {
    error e = {0};
    tensor_bytes b;
    const tensor *t = checkpoint_find(c, name);
    if (t == NULL) fail_msg("no tensor %s", name);
    assert_true(i < t->n_elems);
    if (tensor_read(c, t, &b, &e) != OK) fail_msg("%s", e.message);
    double v = plain_value(t->type, (const uint8_t *)b.data + place_of(t, i) * dtype_info(t->type)->block_bytes);
    tensor_release(&b);
    return v;
}

uint8_t *contiguous(checkpoint *c, const tensor *t, size_t element_bytes, size_t *n) {
    error e = {0};
    tensor_bytes b;
    if (tensor_read(c, t, &b, &e) != OK) fail_msg("%s", e.message);
    *n = t->n_elems * element_bytes;
    uint8_t *out = malloc(*n + 1);
    if (out == NULL) abort();
    for (size_t i = 0; i < t->n_elems; i++)
        memcpy(out + i * element_bytes, (const uint8_t *)b.data + (size_t)place_of(t, i) * element_bytes, element_bytes);
    tensor_release(&b);
    return out;
}

bytes make_safetensors(const char *header, size_t n_data) {
    bytes b = {0};
    put_u64(&b, strlen(header));
    put_text(&b, header);
    for (size_t i = 0; i < n_data; i++) put_u8(&b, (uint8_t)i);
    return b;
}

void gguf_start(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
    put_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_keys);
}

void gguf_text_bytes(bytes *b, const char *text) {
    put_u64(b, strlen(text));
    put_text(b, text);
}

void gguf_tensor(bytes *b, const char *name, int n_dims, const uint64_t *extents, uint32_t type, uint64_t offset) {
    gguf_text_bytes(b, name);
    put_u32(b, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++) put_u64(b, extents[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

void pickle_start(bytes *b) {
    put_text(b, "\x80\x02");
}

void pickle_text(bytes *b, const char *text) {
    put_u8(b, 'X');
    put_u32(b, (uint32_t)strlen(text));
    put_text(b, text);
}

void pickle_int(bytes *b, int32_t v) {
    put_u8(b, 'J');
    put_u32(b, (uint32_t)v);
}

static void pickle_long(bytes *b, int64_t v) {
    put_text(b, "\x8a\x08");
    put_u64(b, (uint64_t)v);
}

void pickle_global(bytes *b, const char *module, const char *name) {
    put_u8(b, 'c');
    put_text(b, module);
    put_u8(b, '\n');
    put_text(b, name);
    put_u8(b, '\n');
}

void pickle_storage_id(bytes *b, const made_tensor *t) {
    put_u8(b, '(');
    pickle_text(b, "storage");
    pickle_global(b, "torch", t->type != NULL ? t->type : "FloatStorage");
    pickle_text(b, t->key != NULL ? t->key : "0");
    pickle_text(b, "cpu");
    pickle_long(b, t->n);
    put_text(b, "tQ");
}

void pickle_tensor(bytes *b, const made_tensor *t) {
    pickle_global(b, "torch._utils", "_rebuild_tensor_v2");
    put_u8(b, '(');
    pickle_storage_id(b, t);
    pickle_long(b, t->offset);
    put_u8(b, '(');
    for (int i = 0; i < t->n_dims; i++) pickle_long(b, t->shape[i]);
    put_u8(b, 't');
    put_u8(b, '(');
    for (int i = 0; i < t->n_strides; i++) pickle_long(b, t->stride[i]);
    put_u8(b, 't');
    put_u8(b, 0x89); /* requires_grad: False */
    pickle_global(b, "collections", "OrderedDict");
    put_text(b, ")RtR");
}

uint32_t crc32_of(const void *data, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* The fields that a local header and a directory record share. */
static void zip_fields(bytes *b, uint16_t method, uint32_t crc, size_t compressed, size_t plain, const char *name) {
    put_u16(b, 20); /* version */
    put_u16(b, 0);  /* flags */
    put_u16(b, method);
    put_u32(b, 0x58210000); /* a date */
    put_u32(b, crc);
    put_u32(b, (uint32_t)compressed);
    put_u32(b, (uint32_t)plain);
    put_u16(b, (uint16_t)strlen(name));
    put_u16(b, 0); /* extra */
}

static void zip_any(made_zip *z, const char *name, uint16_t method, uint32_t crc, const void *data, size_t n, size_t n_plain) {
    size_t place = z->file.n;
    put_text(&z->file, "PK\3\4");
    zip_fields(&z->file, method, crc, n, n_plain, name);
    put_text(&z->file, name);
    put(&z->file, data, n);
    put_text(&z->directory, "PK\1\2");
    put_u16(&z->directory, 20);
    zip_fields(&z->directory, method, crc, n, n_plain, name);
    put_zeros(&z->directory, 10); /* comment, disk, attributes */
    put_u32(&z->directory, (uint32_t)place);
    put_text(&z->directory, name);
    z->n++;
}

void zip_entry(made_zip *z, const char *name, const void *data, size_t n) {
    zip_any(z, name, 0, crc32_of(data, n), data, n, n);
}

void zip_entry_deflated(made_zip *z, const char *name, const void *compressed, size_t n, const void *plain, size_t n_plain) {
    zip_any(z, name, 8, crc32_of(plain, n_plain), compressed, n, n_plain);
}

bytes zip_done(made_zip *z) {
    size_t place = z->file.n, n = z->directory.n;
    put(&z->file, z->directory.data, n);
    put_text(&z->file, "PK\5\6");
    put_zeros(&z->file, 4);
    put_u16(&z->file, (uint16_t)z->n);
    put_u16(&z->file, (uint16_t)z->n);
    put_u32(&z->file, (uint32_t)n);
    put_u32(&z->file, (uint32_t)place);
    put_u16(&z->file, 0);
    bytes_free(&z->directory);
    return z->file;
}

bytes make_pt(const made_tensor *t, size_t n) {
    made_zip z = {0};
    bytes pickle = {0}, storage = {0};
    pickle_start(&pickle);
    put_u8(&pickle, '}');
    pickle_text(&pickle, "w");
    pickle_tensor(&pickle, t);
    put_text(&pickle, "s.");
    for (size_t i = 0; i < n; i++) put_f32(&storage, (float)i);
    zip_entry(&z, "made/data.pkl", pickle.data, pickle.n);
    zip_entry(&z, "made/data/0", storage.n > 0 ? storage.data : (uint8_t *)"", storage.n);
    bytes_free(&pickle);
    bytes_free(&storage);
    return zip_done(&z);
}

char *folder_make(void) {
    char template[] = "/tmp/tally-test-XXXXXX";
    char *made = mkdtemp(template);
    if (made == NULL) fail_msg("no folder under /tmp");
    return strdup(template);
}

static char *path_in(const char *folder, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) abort();
    return path;
}

void folder_put(const char *folder, const char *name, const void *data, size_t n) {
    char *path = path_in(folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) fail_msg("%s: not written", path);
    free(path);
}

void folder_remove(char *folder) {
    DIR *d = opendir(folder);
    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *path = path_in(folder, entry->d_name);
        unlink(path);
        free(path);
    }
    if (d != NULL) closedir(d);
    rmdir(folder);
    free(folder);
}
