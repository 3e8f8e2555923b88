/* roofs.h - measured time beside what this machine's limits allow (Williams et al. 2009).
 *
 * With F FLOPs and Q bytes counted, pi the peak and beta the read bandwidth measured by `tally machine`:
 *   overlapped    max(F/pi, Q/beta)               all arithmetic hides behind all reading, or the other way
 *   per operator  sum of max(F_i/pi, Q_i/beta)    operators one after another, each overlapped in itself
 *   serial        F/pi + Q/beta                   nothing overlaps
 * beta is that of the level of the memory hierarchy that a step's working set sits in; pi that of the instruction set in use, of int8 dot products
 * for matrix products of int8 by int8. */
#ifndef TALLY_ROOFS_H
#define TALLY_ROOFS_H

#include "tools/ledger.h"
#include "tools/machine.h"
#include "tools/session.h"

/* Operators, with the terms that belong to each. */
typedef enum { ROOF_QKV, ROOF_ATTENTION, ROOF_OUTPUT, ROOF_FFN, ROOF_HEAD, ROOF_OTHER, N_ROOF_OPS } roof_op;

typedef struct {
    const char *name;
    double flops, bytes, seconds; /* counted; measured by worker 0 */
    double roof;                  /* seconds */
} roof_row;

typedef struct {
    const machine_probe *read, *peak, *int8_peak; /* int8_peak NULL: matrix products are not int8 by int8 */
    double working_set;                           /* bytes a step goes through */
    roof_row rows[N_ROOF_OPS];
    double overlapped, per_operator, serial, measured, overhead; /* seconds, of all the steps */
    double mbu, mfu;
} roofs;

/* What a step runs on. */
typedef struct {
    const char *isa;
    int n_threads;
    bool int8_products;
} roof_setting;

/* Of steps that the session's engine ran on so many threads. */
roof_setting roof_setting_of(const session *s, const session_options *o, int n_threads);

/* The peak that matrix products of this setting run at: int8 dot products, or fp32. NULL: not measured. */
const machine_probe *roof_product_peak(const machine *m, const roof_setting *on);

/* False where the machine has no probe to compare with. */
bool roofs_compute(roofs *out, const ledger_entry *s, const machine *m, const roof_setting *on);
void roofs_print(const roofs *r, const ledger_entry *s, FILE *out);
json_t *roofs_json(const roofs *r);

#endif
