/* generation.h - the options of run and batch that say how tokens are drawn, and how many. */
#ifndef TALLY_GENERATION_H
#define TALLY_GENERATION_H

#include "engine/sample.h"
#include "tools/options.h"

typedef struct {
    sampling sampling;                                /* whole after generation_settle */
    double temperature, top_p, min_p, repeat_penalty; /* as options have them */
    int n_predict;                                    /* -1: up to the end token or the context */
    int samples;                                      /* completions of one prompt */
    bool parse_special;
} generation_options;

void generation_init(generation_options *o);

/* The rows of these options, for a command's table: writes at most GENERATION_ROWS rows, returns how many. */
enum { GENERATION_ROWS = 12 };
size_t generation_option_rows(generation_options *o, option *rows);

/* Fills o->sampling and checks it. */
status generation_settle(generation_options *o, error *e);

#endif
