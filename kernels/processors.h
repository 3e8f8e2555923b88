/* processors.h - how many processors this process may use: those of its affinity mask, less where its control group has a quota. */
#ifndef TALLY_PROCESSORS_H
#define TALLY_PROCESSORS_H

/* At least 1. */
int processors_usable(void);

/* Processors' worth of time that a control group's quota allows, rounded up; 0: no limit, or not understood. text is what cpu.max says
 * ("max 100000", "150000 100000"): microseconds of time in each period of so many. */
int processors_of_quota(const char *text);

#endif
