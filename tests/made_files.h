/* made_files.h - checkpoints that tests write themselves, byte by byte, and open.
 *
 * Opening goes through a heap block of the exact size, so that a sanitizer sees a read past the end. */
#ifndef TALLY_MADE_FILES_H
#define TALLY_MADE_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "weights/checkpoint.h"

typedef struct {
    uint8_t *data;
    size_t n, capacity;
} bytes;

void bytes_free(bytes *b);
void put(bytes *b, const void *data, size_t n);
void put_u8(bytes *b, uint8_t v);
void put_u16(bytes *b, uint16_t v);
void put_u32(bytes *b, uint32_t v);
void put_u64(bytes *b, uint64_t v);
void put_f32(bytes *b, float v);
void put_text(bytes *b, const char *text); /* without its terminating zero */
void put_zeros(bytes *b, size_t n);
void put_padding(bytes *b, size_t multiple);

/* Opens; fails the test when it is refused. The checkpoint borrows b. */
checkpoint *opened(const bytes *b);
/* Opens; fails the test unless it is refused with a message that names the file ("made") and contains `why`. Frees b. */
void refused(bytes *b, const char *why);
/* Opens and closes; frees b. */
void accepted(bytes *b);

/* Element number i (row-major over the shape) of a tensor of a plain type, read through tensor_read and the strides. */
double element(checkpoint *c, const char *name, size_t i);
/* All elements, contiguous, as they lie in memory; *n bytes; the caller frees. */
uint8_t *contiguous(checkpoint *c, const tensor *t, size_t element_bytes, size_t *n);

/* safetensors: the header's text, then n bytes 0, 1, 2, ... */
bytes make_safetensors(const char *header, size_t n_data);

/* GGUF: header with counts; then keys and tensors by hand. */
void gguf_start(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys);
void gguf_text_bytes(bytes *b, const char *text); /* length and bytes */
void gguf_tensor(bytes *b, const char *name, int n_dims, const uint64_t *extents, uint32_t type, uint64_t offset);

/* Pickles, protocol 2. */
void pickle_start(bytes *b);
void pickle_text(bytes *b, const char *text);
void pickle_int(bytes *b, int32_t v);
void pickle_global(bytes *b, const char *module, const char *name);
/* torch._utils._rebuild_tensor_v2(storage, offset, shape, stride, False, OrderedDict()); a float32 storage unless type says. */
typedef struct {
    const char *key, *type;
    int64_t n, offset;
    int n_dims, n_strides;
    int64_t shape[10], stride[10];
} made_tensor;
void pickle_tensor(bytes *b, const made_tensor *t);
void pickle_storage_id(bytes *b, const made_tensor *t);

/* Zip archives with stored entries. */
typedef struct {
    bytes file, directory;
    int n;
} made_zip;
void zip_entry(made_zip *z, const char *name, const void *data, size_t n);
void zip_entry_deflated(made_zip *z, const char *name, const void *compressed, size_t n, const void *plain, size_t n_plain);
bytes zip_done(made_zip *z);
/* A whole .pt: {"w": t} over one storage "0" of floats 0, 1, 2, ... (n of them). */
bytes make_pt(const made_tensor *t, size_t n);
uint32_t crc32_of(const void *data, size_t n);

/* A folder of the test's own under /tmp, removed by folder_remove. */
char *folder_make(void);
void folder_put(const char *folder, const char *name, const void *data, size_t n);
void folder_remove(char *folder);

#endif
