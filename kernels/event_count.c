#include "kernels/event_count.h"

#include <limits.h>
#include <sched.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SPIN_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SPIN_PAUSE() __asm__ __volatile__("yield")
#else
#define SPIN_PAUSE() ((void)0)
#endif

/* Looking covers the spread of one operation's shares, and most of what is done between two steps: some 100 microseconds. Waking a sleeper takes
 * about 50 here, so that an eighth of this halved the speed of a quiet machine's decoding, and four times as much made it worst on a busy
 * one. Yielding then offers the processor to whoever wants it before it is left. */
enum { LOOKS_BEFORE_YIELD = 2000, YIELDS_BEFORE_SLEEP = 100 };

/* Sleepers say so before they look a last time, and who advances looks for sleepers after: with both in one order of all threads
 * (seq_cst) one of the two sees the other. The kernel compares the value once more before it puts a thread to sleep. */
void event_count_wait(event_count *c, unsigned seen) {
    for (int i = 0; i < LOOKS_BEFORE_YIELD; i++) {
        if (event_count_read(c) != seen) return;
        SPIN_PAUSE();
    }
    for (int i = 0; i < YIELDS_BEFORE_SLEEP; i++) {
        if (event_count_read(c) != seen) return;
        sched_yield();
    }
    atomic_fetch_add(&c->n_asleep, 1);
    while (atomic_load(&c->value) == seen) syscall(SYS_futex, &c->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&c->n_asleep, 1);
}

void event_count_advance(event_count *c) {
    atomic_fetch_add(&c->value, 1);
    if (atomic_load(&c->n_asleep) > 0) syscall(SYS_futex, &c->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
