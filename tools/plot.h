/* plot.h - a chart through gnuplot, where it is installed. */
#ifndef TALLY_PLOT_H
#define TALLY_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/status.h"

typedef enum { PLOT_LINE, PLOT_DASHED, PLOT_POINTS } plot_style; /* predicted; a roof; measured */

typedef struct {
    const char *name;    /* in the key */
    const double *x, *y; /* [n]; a y that is not finite is a gap */
    size_t n;
    plot_style style;
} plot_series;

typedef struct {
    const char *title, *x_label, *y_label;
    bool log_x, log_y;
    double mark_x; /* a vertical line with a label; 0: none */
    const char *mark_name;
} plot_axes;

/* Will PATH do: .svg or .png, in a place that can be written? Asked before anything is measured. */
status plot_check(const char *path, error *e);

/* Writes PATH: .svg or .png by its ending. Fails with advice where gnuplot is not installed. */
status plot_write(const char *path, const plot_axes *axes, const plot_series *series, size_t n_series, error *e);

#endif
