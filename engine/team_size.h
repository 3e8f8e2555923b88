/* team_size.h - how many workers a step gets: found by trial, and looked at again now and then.
 *
 * Steps of about as many rows are a class. A class has a best count, at first all workers. When a run of its steps has shown how long they take,
 * a run with another count is the trial; the faster stays, and of two that are about as fast the smaller. The other counts are all, one less,
 * and halves down to 1. A trial is paid for: it begins only when what it may lose is less than a small share of the time that the class
 * has taken since (and at first, less than half a second), so that long prompts are not read slowly to find out what is likely.
 * A best count that has become slower, because another program took a processor, is a reason to look at once.
 *
 * There is no clock here, and nothing is decided but the number: bits and counts do not depend on it. */
#ifndef TALLY_TEAM_SIZE_H
#define TALLY_TEAM_SIZE_H

#include <stdbool.h>

/* Rows 1 to 8 are classes of their own; above, four to each power of two. */
enum { TEAM_SIZE_CLASSES = 64 };

typedef struct {
    int best, other;     /* counts by number: 0 all workers, 1 one less, 2 half, 3 a quarter, ... */
    bool trying;         /* the steps of the run use `other` */
    bool looked;         /* every other count has been tried once */
    int n;               /* of the run that goes on: steps, */
    double sum, slowest; /* seconds a row, */
    double seconds;      /* seconds in all */
    double standing;     /* seconds a row of the best, from its last whole run; 0: none yet */
    double decided;      /* the same when the last trial was over */
    double credit;       /* seconds that trials may lose */
    int pause;           /* steps before the next look at the other counts */
} team_class;

/* All zeros is a good beginning. */
typedef struct {
    team_class classes[TEAM_SIZE_CLASSES];
} team_size;

/* How many of at most n_most workers the next step of so many rows should have. n_rows, n_most >= 1. */
int team_size_next(const team_size *t, int n_rows, int n_most);
/* It took so long. For every step after its team_size_next(), with the same arguments. */
void team_size_record(team_size *t, int n_rows, int n_most, double seconds);

/* The best count as far as is known, and whether the first look at the others is over (or not worth what it may lose, as yet). */
int team_size_best(const team_size *t, int n_rows, int n_most);
bool team_size_settled(const team_size *t, int n_rows, int n_most);

#endif
