/* event_count.h - waiting for another thread: a number that one thread advances and others wait to see change.
 *
 * Who waits looks at the number for a while, since the other is usually about to be done and waking a sleeper takes longer than that; then
 * it sleeps, so that a thread that lost its processor to another program can have this one. */
#ifndef TALLY_EVENT_COUNT_H
#define TALLY_EVENT_COUNT_H

#include <stdatomic.h>

typedef struct {
    atomic_uint value;
    atomic_int n_asleep;
} event_count;

static inline unsigned event_count_read(event_count *c) {
    return atomic_load_explicit(&c->value, memory_order_acquire);
}

/* Returns when the value is no longer `seen`; what was written before it was advanced is then seen too. */
void event_count_wait(event_count *c, unsigned seen);

/* Lets all pass who wait. */
void event_count_advance(event_count *c);

#endif
