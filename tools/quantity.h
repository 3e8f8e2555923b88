/* quantity.h - numbers for people: exact ones with separators, rounded ones with a unit.
 *
 * Bytes have two families of units, never mixed: KiB, MiB, GiB are powers of 1024; kB, MB, GB are powers of 1000. */
#ifndef TALLY_QUANTITY_H
#define TALLY_QUANTITY_H

#include <stdint.h>

typedef enum { UNITS_BINARY, UNITS_DECIMAL } byte_units; /* choices "binary|decimal" */

typedef enum {
    UNIT_NONE,  /* a pure number */
    UNIT_COUNT, /* of something: the result's own word */
    UNIT_BYTES,
    UNIT_FLOPS,
    UNIT_SECONDS,
    UNIT_TOKENS_PER_SECOND,
    UNIT_BYTES_PER_SECOND,
    UNIT_FLOPS_PER_SECOND,
    UNIT_OPERATIONS_PER_SECOND
} unit;

/* The name used in --json: "bytes", "FLOPs", "seconds" ... */
const char *unit_name(unit u);

typedef struct {
    char text[64];
} quantity_text;

/* 524,288 */
quantity_text format_exact(uint64_t n);
/* As the numbers put into a formula are shown: 7e9, 1e12, 0.4, 4,000. The shortest that reads back as x. */
quantity_text format_input(double x);
/* x with a unit, at most two decimals: 512 KiB, 1.95 GiB, 18.19 ms, 54.96 tokens/s, 1.99 GFLOP. */
quantity_text format_rounded(double x, unit u, byte_units units);

#endif
