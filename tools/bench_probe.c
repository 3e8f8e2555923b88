#include "tools/bench_probe.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/memory.h"

/* Long enough to see past a timer tick, short enough to be run beside every repeat. */
static const double PROBE_SECONDS = 0.004;
/* Of the working set: what is larger than every cache reads like what is larger still. */
enum { LEAST_BYTES = 16 << 10, MOST_BYTES = 512 << 20 };

/* The loop of an instruction set: "avx512" names "avx512_vnni" too. */
static probe_loop peak_loop(const char *isa, bool int8) {
    probe_loop all[PROBE_MAX_LOOPS], best = {0};
    size_t n = probe_loops(all);
    for (size_t i = 0; i < n; i++) {
        bool mine = strncmp(all[i].what, isa, strlen(isa)) == 0 ||
                    (int8 && strcmp(isa, "avx2") == 0 && strcmp(all[i].what, "avx2") == 0);
        if (mine && strcmp(all[i].kind, int8 ? "int8" : "fma") == 0) best = all[i];
    }
    return best.work == NULL && int8 ? peak_loop(isa, false) : best;
}

status bench_probe_open(bench_probe *p, int n_threads, size_t bytes, const char *isa, bool int8, error *e) {
    *p = (bench_probe){.n_threads = n_threads, .peak = peak_loop(isa, int8)};
    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
    size_t each = bytes / (size_t)n_threads / 4096 * 4096 + 4096;
    p->bytes = each * (size_t)n_threads;
    p->states = calloc((size_t)n_threads, sizeof *p->states);
    p->rates = calloc((size_t)n_threads, sizeof *p->rates);
    p->data = pages_take(p->bytes);
    status st = crew_create(&p->crew, n_threads, e);
    if (p->states == NULL || p->rates == NULL || p->data == NULL)
        st = error_set(e, ERR_MEMORY, "out of memory for the bandwidth probe");
    if (st == OK && crew_size(p->crew) < n_threads)
        st = error_set(e, ERR_MEMORY, "the system gives no %d threads for the bandwidth probe (lower -t)", n_threads);
    if (st != OK) {
        bench_probe_close(p);
        return st;
    }
    memset(p->data, 1, p->bytes);
    for (int i = 0; i < n_threads; i++) p->states[i] = (probe_state){.data = p->data + (size_t)i * each, .bytes = each};
    return OK;
}

void bench_probe_close(bench_probe *p) {
    crew_free(p->crew);
    free(p->rates);
    free(p->states);
    pages_free(p->data, p->bytes);
    *p = (bench_probe){0};
}

typedef struct {
    bench_probe *probe;
    probe_work work;
} probe_call;

static void member_run(void *user, int id, int n) {
    (void)n;
    probe_call *call = user;
    probe_state *state = &call->probe->states[id];
    uint64_t done = 0;
    double start = clock_seconds(), now = start;
    while (now - start < PROBE_SECONDS) {
        done += call->work(state);
        now = clock_seconds();
    }
    call->probe->rates[id] = (double)done / (now - start);
}

static double rate(bench_probe *p, probe_work work) {
    double total = 0;
    crew_run(p->crew, p->n_threads, member_run, &(probe_call){p, work});
    for (int i = 0; i < p->n_threads; i++) total += p->rates[i];
    return total;
}

double bench_probe_read(bench_probe *p) {
    return rate(p, probe_read());
}
double bench_probe_peak(bench_probe *p) {
    return p->peak.work == NULL ? 0 : rate(p, p->peak.work);
}
