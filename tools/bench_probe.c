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
    p->data = pages_take(p->bytes);
    if (p->states == NULL || p->data == NULL) {
        bench_probe_close(p);
        return error_set(e, ERR_MEMORY, "out of memory for the bandwidth probe");
    }
    memset(p->data, 1, p->bytes);
    for (int i = 0; i < n_threads; i++) p->states[i] = (probe_state){.data = p->data + (size_t)i * each, .bytes = each};
    return OK;
}

void bench_probe_close(bench_probe *p) {
    free(p->states);
    pages_free(p->data, p->bytes);
    *p = (bench_probe){0};
}

static double rate(bench_probe *p, probe_work work) {
    double total = 0;
#pragma omp parallel num_threads(p->n_threads) reduction(+ : total)
    {
#pragma omp for schedule(static, 1)
        for (int i = 0; i < p->n_threads; i++) {
            uint64_t done = 0;
            double start = clock_seconds(), now = start;
            while (now - start < PROBE_SECONDS) {
                done += work(&p->states[i]);
                now = clock_seconds();
            }
            total += (double)done / (now - start);
        }
    }
    return total;
}

double bench_probe_read(bench_probe *p) {
    return rate(p, probe_read());
}
double bench_probe_peak(bench_probe *p) {
    return p->peak.work == NULL ? 0 : rate(p, p->peak.work);
}
