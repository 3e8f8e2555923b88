/* ordered.h - lines that are made in any order and written in theirs; and a file of them gone on with after it was broken off.
 *
 * Line i is written when lines 0 ... i-1 have been. What is kept back when the work stops is written all the same, after a gap: going on
 * takes it up, and writes it again in its place. */
#ifndef TALLY_ORDERED_H
#define TALLY_ORDERED_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/status.h"

typedef struct {
    FILE *f;
    const char *path;            /* "stdout", or the file */
    char **lines;                /* [n] made and not yet written */
    bool *made;                  /* [n] */
    size_t n, n_made, n_written; /* written: in order, without a gap */
} ordered_lines;

/* Which line is this? text: [n_bytes], without the newline. */
typedef status (*line_number)(void *user, const char *text, size_t n_bytes, size_t *number, error *e);

/* path NULL: standard output. A file that is there with something in it is refused unless resume says to go on with it: then its lines
 * count as made. A last line without its newline was not written whole, and is made again. */
status ordered_open(ordered_lines *o, const char *path, size_t n, bool resume, line_number number, void *user, error *e);

/* Takes line, which malloc made. A line that is made already is dropped. */
status ordered_put(ordered_lines *o, size_t number, char *line, error *e);

/* Writes what was kept back and closes. The first line that was not made is o->n_written, before this. */
status ordered_close(ordered_lines *o, error *e);

#endif
