/* files.h - reading tokenizer files whole, and looking at what lies beside them. */
#ifndef TALLY_TOKENIZER_FILES_H
#define TALLY_TOKENIZER_FILES_H

#include <jansson.h>
#include <stdbool.h>

#include "kernels/status.h"
#include "tokenizer/buffer.h"

#define FILE_MAX_BYTES (512u << 20)

/* The bytes of a file, and a zero after them that is not counted. The caller frees out. */
status file_bytes(const char *path, byte_buffer *out, error *e);
bool is_file(const char *path);
bool is_folder(const char *path);

/* FOLDER/name, or the file called name beside path. The caller frees it; NULL: no memory. */
char *path_in(const char *folder, const char *name);
char *path_beside(const char *path, const char *name);

/* A JSON object; duplicate keys are an error. flags: more of jansson's. */
status json_parse(const char *text, size_t n, size_t flags, json_t **out, error *e);
/* The JSON object in a file; *out is NULL where there is no such file. Whole numbers become reals: configurations hold some that
 * no integer can (model_max_length: 10^30). */
status json_read_if_there(const char *path, json_t **out, error *e);

#endif
