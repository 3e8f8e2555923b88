/* fill.h - one tensor's rows into the model: converted, checked, packed. */
#ifndef TALLY_FILL_H
#define TALLY_FILL_H

#include "weights/build.h"

/* What became of values that fp16 (or the fp16 scale of a Q8_0 block) cannot hold. */
typedef struct {
    uint64_t n_overflow;  /* finite, but beyond the largest: the load is refused */
    uint64_t n_underflow; /* not zero, but rounded to zero: said, not refused */
} fill_counts;

/* Bytes of scratch that one thread needs for a matrix (type, n_cols) from a source; false on overflow. */
bool fill_scratch_bytes(const row_source *from, dtype type, int group, size_t n_cols, size_t *out);

/* Fills `out` (matrix_bytes(w) bytes) with w's rows, as w->packed says. scratch: n_threads pieces of scratch_bytes. */
void fill_matrix(const matrix *w, void *out, const row_source *from, void *scratch, size_t scratch_bytes, int n_threads,
                 fill_counts *counts);

/* n numbers as fp32. scratch: of a matrix with one column. */
void fill_vector(float *out, int n, const row_source *from, void *scratch);

#endif
