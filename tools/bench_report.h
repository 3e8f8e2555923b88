/* bench_report.h - the results of tally bench as a table, CSV or JSON. */
#ifndef TALLY_BENCH_REPORT_H
#define TALLY_BENCH_REPORT_H

#include <jansson.h>

#include "tools/bench_case.h"

void bench_print_head(void);
void bench_print(const bench_result *r);
void bench_csv_head(void);
void bench_csv(const bench_result *r);
json_t *bench_json(const bench_result *r); /* new reference; NULL: out of memory */

/* Decode: tokens/s over the batch, a line for each storage, instruction set and context. */
status bench_plot(const char *path, const bench_result *results, size_t n, error *e);

#endif
