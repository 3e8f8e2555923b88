/* cost_report.h - the answers to a question, section by section: each a formula, the numbers put in, and the result. */
#ifndef TALLY_COST_REPORT_H
#define TALLY_COST_REPORT_H

#include "tools/estimate.h"
#include "tools/formula.h"

/* Every section that the question has the numbers for. q is resolved. */
status cost_report(report *r, const question *q, error *e);

/* The sections. */
void cost_report_shape(report *r, const question *q); /* parameters by kind */
void cost_report_cache(report *r, const question *q); /* kappa; a conversation; pages; keys computed with and without a cache */
void cost_report_weights(report *r, const question *q);             /* bytes by storage type */
void cost_report_memory(report *r, const question *q);              /* what it takes together; how many tokens and users fit */
status cost_report_token(report *r, const question *q, error *e);   /* FLOPs of one token by term (a shape) */
status cost_report_decode(report *r, const question *q, error *e);  /* a step of q->batch users */
status cost_report_prefill(report *r, const question *q, error *e); /* q->prompt tokens */
void cost_report_training(report *r, const question *q);            /* 6 N a token */

#endif
