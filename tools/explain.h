/* explain.h - what each counting convention adds to a question's numbers, or leaves out of them. */
#ifndef TALLY_EXPLAIN_H
#define TALLY_EXPLAIN_H

#include "tools/estimate.h"
#include "tools/formula.h"

/* One line for each convention and choice that is not in use: the FLOPs and bytes of the prefill (where q->prompt is given) or of
 * the decode step would change by so much. A shape only; q is resolved. */
status explain_report(report *r, const question *q, error *e);

#endif
