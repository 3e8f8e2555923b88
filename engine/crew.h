/* crew.h - the threads of an engine: started once, so that no step starts one, and asleep when there is nothing to do.
 *
 * Not OpenMP's: its team for a region ends the threads that the region has too many of, and starts them anew for the next larger one.
 * Here the number changes from step to step, and those who are not needed are not woken. */
#ifndef TALLY_CREW_H
#define TALLY_CREW_H

#include "kernels/status.h"

typedef struct crew crew;

/* Member number id of the n that this piece of work is done by. */
typedef void (*crew_work)(void *user, int id, int n);

/* Starts n_members - 1 threads: the caller of crew_run is member 0. Where the system gives fewer threads, the crew is smaller. *out is NULL
 * on failure. */
status crew_create(crew **out, int n_members, error *err);
void crew_free(crew *c);
int crew_size(const crew *c);

/* Calls work(user, id, n) for id = 0 .. n - 1, each on its own thread, and returns when all are done. 1 <= n <= crew_size(). */
void crew_run(crew *c, int n, crew_work work, void *user);

#endif
