/* panel.h - a piece of a weight matrix as the product loops want it.
 *
 * A slice is some panels over a range of columns (of rows of a file, or where it is to be decoded, at most PANEL_GROUP). It is the accessor of weights: panel_slice hands out what lies in
 * the matrix, packing rows of a mapped file into scratch on the way; panel_decode turns any storage into fp32 panels. */
#ifndef TALLY_PANEL_H
#define TALLY_PANEL_H

#include "kernels/kernels.h"
#include "kernels/matrix.h"
#include "kernels/meter.h"

enum {
    PANEL_GROUP = 4,     /* panels in flight: one row of x feeds 64 outputs, and memory is read in four streams */
    PANEL_COLUMNS = 1024 /* columns decoded or packed at a time: 64 x 1024 fp32 stay in L2 */
};

typedef struct {
    const void *data;    /* first panel, first column of the range */
    size_t panel_stride; /* bytes from one panel to the next */
    int n_panels, width; /* width: outputs in all; only a slice of one panel may be short of 16 a panel */
    int column, n_columns;
} panel_slice;

/* Panels [panel, panel + n_panels) of the columns [column, column + n_columns): a range that starts on a block (or group) edge.
 * Posts the bytes of the rows handed out, as the part of row_bytes that the columns take. `scratch`: PANEL_SLICE_BYTES, used
 * where the matrix is not packed. */
panel_slice panel_slice_get(const matrix *w, int panel, int n_panels, int column, int n_columns, void *scratch, meter *m);

/* The slice as fp32 panels: out[p * out_panel_stride + k * lanes + r], lanes = min(16, width). Exact for fp16; for int8 each weight is
 * scale * q, rounded once, and one multiplication is posted as quantisation. */
void panel_decode(float *out, size_t out_panel_stride, const panel_slice *s, const matrix *w, const kernel_set *kernels,
                  meter *m);

/* How many columns a slice that is packed or decoded may take: a multiple of the storage's block, PANEL_COLUMNS or a little less.
 * (A model with an i8g group above PANEL_COLUMNS is refused when it is loaded.) */
int panel_columns(const matrix *w);

enum { PANEL_SLICE_BYTES = PANEL_GROUP * PANEL_ROWS * PANEL_COLUMNS * 4 };

#endif
