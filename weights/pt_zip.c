/* pt_zip.c - PyTorch files since 1.6: a zip archive with a pickle and one record for each storage.
 *
 *   NAME/data.pkl     the pickle: dicts, numbers, and tensors as (storage key, offset, shape, strides)
 *   NAME/data/KEY     the elements of storage KEY, as they lie in memory; usually stored, deflated is read too
 *   NAME/byteorder    "little" or "big"; absent in older files (little)
 *   NAME/version, .format_version, ...  not read
 *
 * NAME is any word, the same for all; libzip reads the archive from the map. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "kernels/sizes.h"
#include "weights/cursor.h"
#include "weights/pickle.h"

/* libzip takes some 300 bytes for an entry, whose directory record may have 46: the number must be known before it starts. */
enum { MAX_ENTRIES = 65536, END_BYTES = 22, LOCATOR_BYTES = 20 };

static status code_of(zip_error_t *problem) {
    return zip_error_code_zip(problem) == ZIP_ER_MEMORY ? ERR_MEMORY : ERR_FORMAT;
}

typedef struct {
    zip_t *zip;
    char *prefix; /* "NAME/", or empty */
} pt_archive;

static recognition recognise(const uint8_t *data, size_t size) {
    if (size < 4 || data[0] != 'P' || data[1] != 'K') return NOT_MINE;
    return (data[2] == 3 && data[3] == 4) || (data[2] == 5 && data[3] == 6) ? SURELY_MINE : MAYBE_MINE;
}

static void archive_close(void *state) {
    pt_archive *a = state;
    if (a->zip != NULL) zip_discard(a->zip);
    free(a->prefix);
    free(a);
}

/* The largest number of entries that any end-of-directory record in the file's tail claims; 0 where there is none. */
static uint64_t entries_claimed(const uint8_t *data, size_t size) {
    uint64_t most = 0;
    size_t first = size > END_BYTES + 65535 + LOCATOR_BYTES ? size - END_BYTES - 65535 - LOCATOR_BYTES : 0;
    for (size_t at = first; at + END_BYTES <= size; at++) {
        if (memcmp(data + at, "PK\5\6", 4) != 0) continue;
        cursor c = {.data = data, .size = size, .at = at + 10};
        uint16_t n16 = 0;
        uint64_t n = 0, place = 0;
        cursor_u16(&c, &n16);
        n = n16;
        if (at >= LOCATOR_BYTES && memcmp(data + at - LOCATOR_BYTES, "PK\6\7", 4) == 0) { /* zip64: the count is elsewhere */
            c.at = at - LOCATOR_BYTES + 8;
            if (!cursor_u64(&c, &place) || place > size || size - place < 40) continue;
            c.at = (size_t)place + 32;
            cursor_u64(&c, &n);
        }
        if (n > most) most = n;
    }
    return most;
}

static status archive_open(pt_archive *a, reader *r, const source *s, error *e) {
    uint64_t n = entries_claimed(s->data, s->size);
    if (n == 0) return error_set(e, ERR_FORMAT, "zip: no directory at its end (is the file cut off?)");
    if (n > MAX_ENTRIES) return error_set(e, ERR_LIMIT, "zip: %llu entries, more than %d", (unsigned long long)n, MAX_ENTRIES);
    if (!reader_charge(r, (size_t)n * 400, e)) return ERR_LIMIT;
    status result = OK;
    zip_error_t problem;
    zip_error_init(&problem);
    zip_source_t *bytes = zip_source_buffer_create(s->data, s->size, 0, &problem);
    if (bytes != NULL) a->zip = zip_open_from_source(bytes, ZIP_RDONLY, &problem);
    if (a->zip == NULL) {
        if (bytes != NULL) zip_source_free(bytes);
        result = error_set(e, code_of(&problem), "zip: %s", zip_error_strerror(&problem));
    }
    zip_error_fini(&problem);
    return result;
}

/* Finds, of entries whose names are all different, the one that is "data.pkl", or ends in "/data.pkl". */
static status find_pickle(pt_archive *a, zip_uint64_t *index, error *e) {
    zip_int64_t n = zip_get_num_entries(a->zip, 0), found = -1;
    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        size_t length = name != NULL ? strlen(name) : 0;
        if (name != NULL && zip_name_locate(a->zip, name, ZIP_FL_ENC_RAW) != i)
            return error_set(e, ERR_FORMAT, "zip: two entries named %s", name);
        if (length < 8 || strcmp(name + length - 8, "data.pkl") != 0 || (length > 8 && name[length - 9] != '/')) continue;
        if (found >= 0) return error_set(e, ERR_FORMAT, "zip: two entries named data.pkl");
        found = i;
        a->prefix = strndup(name, length - 8);
        if (a->prefix == NULL) return error_set(e, ERR_MEMORY, "no memory");
    }
    if (found < 0) return error_set(e, ERR_FORMAT, "zip: no data.pkl in it, so it is not from torch.save");
    *index = (zip_uint64_t)found;
    return OK;
}

/* What the directory says of an entry. Refuses what would not be read rightly, and what grows beyond the file. */
static status entry_size(zip_t *zip, zip_uint64_t index, size_t file_size, zip_stat_t *info, error *e) {
    zip_uint64_t wanted =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(zip, index, 0, info) != 0 || (info->valid & wanted) != wanted)
        return error_set(e, ERR_FORMAT, "zip: entry %llu: has no size", (unsigned long long)index);
    if (info->encryption_method != ZIP_EM_NONE) return error_set(e, ERR_UNSUPPORTED, "zip: %s: is encrypted", info->name);
    if (info->comp_method != ZIP_CM_STORE && info->comp_method != ZIP_CM_DEFLATE)
        return error_set(e, ERR_UNSUPPORTED, "zip: %s: compression method %d", info->name, info->comp_method);
    if (info->comp_size > file_size) return error_set(e, ERR_FORMAT, "zip: %s: is longer than the file", info->name);
    if (info->comp_method == ZIP_CM_STORE && info->size != info->comp_size)
        return error_set(e, ERR_FORMAT, "zip: %s: two sizes", info->name);
    return OK;
}

/* Reads `size` bytes from `from` on. A whole entry is checked against its checksum. */
static status entry_read(zip_t *zip, const zip_stat_t *info, uint8_t *out, size_t from, size_t size, error *e) {
    zip_file_t *f = zip_fopen_index(zip, info->index, 0);
    if (f == NULL) return error_set(e, code_of(zip_get_error(zip)), "zip: %s: %s", info->name, zip_strerror(zip));
    bool good = true, whole = from == 0 && size == info->size;
    if (from > 0 && info->comp_method == ZIP_CM_STORE) good = zip_fseek(f, (zip_int64_t)from, SEEK_SET) == 0;
    for (size_t skipped = 0; good && info->comp_method != ZIP_CM_STORE && skipped < from;) {
        uint8_t ignored[4096];
        zip_int64_t n = zip_fread(f, ignored, from - skipped < sizeof ignored ? from - skipped : sizeof ignored);
        good = n > 0;
        if (good) skipped += (size_t)n;
    }
    for (size_t done = 0; good && done < size;) {
        zip_int64_t n = zip_fread(f, out + done, size - done);
        good = n > 0;
        if (good) done += (size_t)n;
    }
    uint8_t beyond;
    if (good && whole) good = zip_fread(f, &beyond, 1) == 0; /* the end: libzip compares the checksum there */
    status result = OK;
    if (!good) {
        zip_error_t *problem = zip_file_get_error(f);
        result = error_set(e, code_of(problem), "zip: %s: damaged (%s)", info->name, zip_error_strerror(problem));
    }
    zip_fclose(f);
    return result;
}

static status check_byteorder(const pt_archive *a, const source *s, error *e) {
    char name[1024], order[16] = "";
    zip_stat_t info;
    if (snprintf(name, sizeof name, "%sbyteorder", a->prefix) >= (int)sizeof name)
        return error_set(e, ERR_FORMAT, "zip: the names of its entries are too long");
    zip_int64_t index = zip_name_locate(a->zip, name, ZIP_FL_ENC_RAW);
    if (index < 0) return OK;
    status result = entry_size(a->zip, (zip_uint64_t)index, s->size, &info, e);
    if (result != OK) return result;
    if (info.size >= sizeof order) return error_set(e, ERR_FORMAT, "zip: %s: is no byte order", name);
    result = entry_read(a->zip, &info, (uint8_t *)order, 0, (size_t)info.size, e);
    if (result != OK || strcmp(order, "little") == 0) return result;
    return error_set(e, ERR_UNSUPPORTED,
                     "byte order \"%s\": only little-endian files are read (save it again on such a machine)", order);
}

typedef struct {
    reader *r;
    int shard;
} adding;

/* A tensor of the pickle: its storage's record must be there and long enough. */
static status add_tensor(void *user, tensor *t, const pickle_storage *storage, const char *name, error *e) {
    adding *to = user;
    const source *s = &to->r->sources[to->shard];
    const pt_archive *a = s->state;
    char record[1024];
    zip_stat_t info;
    int shown = (int)(storage->key_bytes < 200 ? storage->key_bytes : 200);
    int n = snprintf(record, sizeof record, "%sdata/%.*s", a->prefix, (int)storage->key_bytes, storage->key);
    zip_int64_t index = n < (int)sizeof record ? zip_name_locate(a->zip, record, ZIP_FL_ENC_RAW) : -1;
    if (index < 0)
        return error_set(e, ERR_FORMAT, "tensor %s: its record data/%.*s is not in the archive", name, shown, storage->key);
    status result = entry_size(a->zip, (zip_uint64_t)index, s->size, &info, e);
    if (result != OK) return result;
    if (info.size / (uint64_t)storage->type->bytes < (uint64_t)storage->n)
        return error_set(e, ERR_FORMAT, "tensor %s: its record data/%.*s has %llu bytes, for %lld elements of %d", name, shown,
                         storage->key, (unsigned long long)info.size, (long long)storage->n, storage->type->bytes);
    t->shard = to->shard;
    t->record = (size_t)index;
    return reader_add(to->r, name, strlen(name), t, e);
}

/* The pickle's bytes, in memory that the caller frees. */
static status read_pickle_bytes(reader *r, const source *s, uint8_t **bytes, size_t *size, error *e) {
    const pt_archive *a = s->state;
    zip_uint64_t index = 0;
    zip_stat_t info;
    *bytes = NULL;
    status result = find_pickle(s->state, &index, e);
    if (result == OK) result = check_byteorder(a, s, e);
    if (result == OK) result = entry_size(a->zip, index, s->size, &info, e);
    if (result != OK) return result;
    if (!reader_charge(r, (size_t)info.comp_size, e) || !reader_charge(r, (size_t)info.size, e)) return ERR_LIMIT;
    *size = (size_t)info.size;
    *bytes = malloc(*size + 1);
    if (*bytes == NULL) return error_set(e, ERR_MEMORY, "no memory for its pickle");
    result = entry_read(a->zip, &info, *bytes, 0, *size, e);
    if (result == OK) return OK;
    free(*bytes);
    *bytes = NULL;
    return result;
}

static status open_archive(reader *r, int shard, error *e) {
    source *s = &r->sources[shard];
    pt_archive *a = s->state = calloc(1, sizeof *a);
    if (a == NULL) return error_set(e, ERR_MEMORY, "no memory");
    uint8_t *bytes = NULL;
    size_t size = 0;
    pickle p = {0};
    status result = archive_open(a, r, s, e);
    if (result == OK) result = read_pickle_bytes(r, s, &bytes, &size, e);
    if (result == OK) result = pickle_read(&p, r, bytes, size, e);
    if (result == OK) {
        adding to = {.r = r, .shard = shard};
        result = pickle_visit(&(pickle_visitor){.p = &p, .r = r, .user = &to, .found = add_tensor}, e);
    }
    pickle_free(&p);
    free(bytes);
    if (size > 0) reader_refund(r, size);
    return result;
}

static status read_tensor(source *s, const tensor *t, tensor_bytes *out, error *e) {
    const pt_archive *a = s->state;
    zip_stat_t info;
    status result = entry_size(a->zip, t->record, s->size, &info, e);
    if (result != OK) return result;
    if (t->span == 0) {
        out->data = s->data; /* no element will be read */
        return OK;
    }
    if (!span_fits(t->offset, t->span, info.size))
        return error_set(e, ERR_FORMAT, "tensor %s: ends beyond its record", t->name);
    out->owned = malloc(t->span);
    out->data = out->owned;
    if (out->owned == NULL) return error_set(e, ERR_MEMORY, "tensor %s: no memory for %zu bytes", t->name, t->span);
    result = entry_read(a->zip, &info, out->owned, t->offset, t->span, e);
    if (result != OK && e != NULL) {
        char why[sizeof e->message];
        memcpy(why, e->message, sizeof why);
        return error_set(e, result, "tensor %s: %s", t->name, why);
    }
    return result;
}

const container_format container_pt_zip = {
    .kind = CHECKPOINT_PT_ZIP, .recognise = recognise, .open = open_archive, .read = read_tensor, .close = archive_close};
