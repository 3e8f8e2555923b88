/* cost_request.h - the command line of `tally cost`, as options and as a question. `tally lesson` asks in the same words. */
#ifndef TALLY_COST_REQUEST_H
#define TALLY_COST_REQUEST_H

#include "tools/formula.h"
#include "tools/options.h"
#include "tools/question.h"

typedef struct {
    question question;
    const char *model, *preset, *shape; /* where the shape comes from; NULL: not from there */
    const char *sweep, *plot, *product; /* as given, or NULL */
    bool presets, json, csv, explain, machine;
    int head;    /* -1: not asked */
    int weights; /* STORAGE_*, or -1: as the file has it */
    int units;
    arguments args;
} cost_request;

/* -1: go on; else an exit status (options.h). r points into argv. */
int cost_request_parse(cost_request *r, int argc, char **argv);

/* The shape that is asked about (a file, a preset), and this machine's figures where they were asked for, into r->question. */
status cost_request_load(cost_request *r, error *e);

/* All answers but a sweep. */
status cost_request_answer(report *out, cost_request *r, error *e);

#endif
