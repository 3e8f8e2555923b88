#include "kernels/worker.h"

void worker_barrier(worker *w) {
    if (w->n_workers == 1) return;
    team *t = w->team;
    unsigned seen = event_count_read(&t->all_arrived);
    if (atomic_fetch_add_explicit(&t->n_arrived, 1, memory_order_acq_rel) == w->n_workers - 1) {
        atomic_store_explicit(&t->n_arrived, 0, memory_order_relaxed);
        event_count_advance(&t->all_arrived);
        return;
    }
    event_count_wait(&t->all_arrived, seen);
}
