/* file_out.h - a file that appears whole or not at all: written beside its place, flushed to the disk, then renamed. */
#ifndef TALLY_FILE_OUT_H
#define TALLY_FILE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/status.h"

typedef struct {
    char *path, *partial; /* PATH, and PATH.partial */
    FILE *f;
} file_out;

/* Refuses a path that exists and is no plain file. file_out_discard after failure of anything below. */
status file_out_begin(file_out *out, const char *path, error *e);
status file_out_write(file_out *out, const void *bytes, size_t n, error *e);
/* Writes further on in the file; the next file_out_write goes on where the last one ended. */
status file_out_write_at(file_out *out, uint64_t at, const void *bytes, size_t n, error *e);
/* Makes the file `bytes` long, with a hole where nothing is written yet, for readers that only look at its beginning. */
status file_out_reserve(const file_out *out, uint64_t bytes, error *e);
/* Renames into place. Frees everything, whether it succeeds or not. */
status file_out_commit(file_out *out, error *e);
void file_out_discard(file_out *out);

#endif
