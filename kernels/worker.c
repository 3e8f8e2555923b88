#include "kernels/worker.h"

#include <sched.h>

#if defined(__x86_64__)
#define SPIN_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SPIN_PAUSE() __asm__ __volatile__("yield")
#else
#define SPIN_PAUSE() ((void)0)
#endif

/* About 20 microseconds of spinning covers the spread of one operation's shares; beyond that another process has the core. */
enum { SPINS_BEFORE_YIELD = 2000 };

void worker_barrier(worker *w) {
    if (w->n_workers == 1) return;
    team *t = w->team;
    unsigned generation = atomic_load_explicit(&t->generation, memory_order_acquire);
    if (atomic_fetch_add_explicit(&t->n_arrived, 1, memory_order_acq_rel) == w->n_workers - 1) {
        atomic_store_explicit(&t->n_arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&t->generation, 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&t->generation, memory_order_acquire) == generation; spins++) {
        if (spins < SPINS_BEFORE_YIELD) {
            SPIN_PAUSE();
        } else {
            sched_yield();
        }
    }
}
