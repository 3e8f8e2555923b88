/* Measuring: which probes there are, how they are run in turn, what the rounds say. The loops themselves are in probe.c. */
#include "tools/machine_private.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/clock.h"
#include "tools/probe.h"

enum { N_ROUNDS = 7, QUICK_ROUNDS = 2, MATRIX_FLOATS = PROBE_SGEMM * PROBE_SGEMM };
#define ROUND_SECONDS        0.02
#define MEMORY_ROUND_SECONDS 0.08 /* long enough to go through a good part of the buffer */
#define QUICK_SECONDS        0.002

typedef struct {
    probe_work work[MACHINE_MAX_PROBES];
    double rounds[MACHINE_MAX_PROBES][N_ROUNDS];
    unsigned char *buffer; /* [buffer_bytes] what is read; each thread has its own part */
    size_t buffer_bytes;
    float *matrices; /* [n_threads][3][MATRIX_FLOATS] */
    blas *blas;      /* NULL where there is no OpenBLAS */
    bool quick;
    int n_rounds;
} bench;

typedef enum { WAIT, GO, CANCEL } signal_state;

typedef struct {
    pthread_t thread;
    atomic_int *signal;
    atomic_int *n_ready;
    probe_work work;
    probe_state state;
    double seconds; /* how long to run */
    double rate;    /* out: per second */
} runner;

/* All threads start together and run for the same time; each reports its own rate over its own clock. */
static void *run_thread(void *arg) {
    runner *r = arg;
    r->work(&r->state); /* caches and clocks warm */
    atomic_fetch_add(r->n_ready, 1);
    while (atomic_load(r->signal) == WAIT) sched_yield();
    if (atomic_load(r->signal) == CANCEL) return NULL;
    double begin = clock_seconds(), end = begin, amount = 0;
    while (end - begin < r->seconds) {
        amount += (double)r->work(&r->state);
        end = clock_seconds();
    }
    r->rate = amount / (end - begin);
    return NULL;
}

static void runner_init(runner *r, const bench *b, const machine_probe *p, int i) {
    size_t stride = b->buffer_bytes / (size_t)p->n_threads / 4096 * 4096;
    float *m = b->matrices + (size_t)i * 3 * MATRIX_FLOATS;
    r->state = (probe_state){.data = b->buffer + (size_t)i * stride,
                             .bytes = p->bytes / (size_t)p->n_threads / 4096 * 4096,
                             .blas = b->blas,
                             .a = m,
                             .b = m + MATRIX_FLOATS,
                             .c = m + 2 * MATRIX_FLOATS};
    r->seconds = b->quick ? QUICK_SECONDS : strcmp(p->what, "memory") == 0 ? MEMORY_ROUND_SECONDS : ROUND_SECONDS;
}

/* Sum of the threads' rates; 0 where they cannot all be started. runners: [n_threads] */
static double run_round(const bench *b, const machine_probe *p, probe_work work, runner *runners) {
    atomic_int go = WAIT, ready = 0;
    int n = 0;
    double sum = 0;
    for (; n < p->n_threads; n++) {
        runner *r = &runners[n];
        *r = (runner){.signal = &go, .n_ready = &ready, .work = work};
        runner_init(r, b, p, n);
        if (n > 0 && pthread_create(&r->thread, NULL, run_thread, r) != 0) break;
    }
    bool whole = n == p->n_threads;
    while (whole && atomic_load(&ready) < n - 1) sched_yield();
    atomic_store(&go, whole ? GO : CANCEL);
    if (whole) run_thread(&runners[0]);
    for (int i = 1; i < n; i++) pthread_join(runners[i].thread, NULL);
    for (int i = 0; i < n && whole; i++) sum += runners[i].rate;
    return sum;
}

static void add_probe(machine *m, bench *b, const char *kind, const char *what, int n_threads, size_t bytes, probe_work work) {
    if (m->n == MACHINE_MAX_PROBES) return;
    b->work[m->n] = work;
    machine_probe *p = &m->probes[m->n++];
    *p = (machine_probe){.n_threads = n_threads, .bytes = bytes};
    memcpy(p->kind, kind, strlen(kind) + 1);
    memcpy(p->what, what, strlen(what) + 1);
}

/* Half of a level, so that it stays there; a level that is hardly larger than the one before it is left out. */
static void add_reads(machine *m, bench *b, int n_threads) {
    size_t n = (size_t)n_threads;
    probe_work read = probe_read();
    add_probe(m, b, "read", "L1", n_threads, n * m->l1 / 2, read);
    add_probe(m, b, "read", "L2", n_threads, n * m->l2 / 2, read);
    size_t l3 = m->l3 / 2 < 4 * n * m->l2 ? m->l3 / 2 : 4 * n * m->l2;
    if (l3 >= 2 * n * m->l2) add_probe(m, b, "read", "L3", n_threads, l3, read);
    add_probe(m, b, "read", "memory", n_threads, b->buffer_bytes, read);
}

static void add_arithmetic(machine *m, bench *b, int n_threads) {
    probe_loop loops[PROBE_MAX_LOOPS];
    size_t n = probe_loops(loops);
    for (size_t i = 0; i < n; i++) add_probe(m, b, loops[i].kind, loops[i].what, n_threads, 0, loops[i].work);
    if (b->blas != NULL) add_probe(m, b, "sgemm", "openblas", n_threads, 0, probe_sgemm);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(machine *m, bench *b) {
    for (size_t i = 0; i < m->n; i++) {
        const double *r = b->rounds[i];
        int n = b->n_rounds;
        qsort(b->rounds[i], (size_t)n, sizeof(double), compare);
        m->probes[i].low = r[0];
        m->probes[i].median = (r[n / 2] + r[(n - 1) / 2]) / 2;
        m->probes[i].high = r[n - 1];
    }
}

/* Four times the last cache, from 512 MiB to 2 GiB, and never more than a quarter of the free memory. */
static size_t choose_buffer(const machine *m, bool quick) {
    if (quick) return (size_t)64 << 20;
    size_t bytes = 4 * m->l3, most = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 4;
    if (bytes < ((size_t)512 << 20)) bytes = (size_t)512 << 20;
    if (bytes > ((size_t)2 << 30)) bytes = (size_t)2 << 30;
    if (bytes > most) bytes = most;
    return bytes / (1 << 21) * (1 << 21);
}

static status bench_open(bench *b, machine *m, runner **runners, error *e) {
    size_t floats = (size_t)m->n_threads * 3 * MATRIX_FLOATS;
    b->buffer_bytes = choose_buffer(m, b->quick);
    b->buffer = mmap(NULL, b->buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->matrices = malloc(floats * sizeof(float));
    *runners = malloc((size_t)m->n_threads * sizeof **runners);
    if (b->buffer == MAP_FAILED || b->matrices == NULL || *runners == NULL) {
        return error_set(e, ERR_MEMORY, "no memory for measuring (%zu bytes)", b->buffer_bytes);
    }
    madvise(b->buffer, b->buffer_bytes, MADV_HUGEPAGE);
    memset(b->buffer, 1, b->buffer_bytes); /* pages of zeros would all be the same page */
    for (size_t i = 0; i < floats; i++) b->matrices[i] = (float)(i % 17) * 0.01f;
    if (blas_open(&b->blas, NULL) != OK) b->blas = NULL;
    for (int n = 1; n < m->n_threads; n *= 2) add_reads(m, b, n);
    add_reads(m, b, m->n_threads);
    add_arithmetic(m, b, 1);
    if (m->n_threads > 1) add_arithmetic(m, b, m->n_threads);
    return OK;
}

static void bench_close(bench *b) {
    if (b->buffer != MAP_FAILED && b->buffer != NULL) munmap(b->buffer, b->buffer_bytes);
    free(b->matrices);
    if (b->blas != NULL) blas_close(b->blas);
    free(b);
}

status machine_probe_all(machine *m, bool quick, void (*progress)(int round, int n_rounds), error *e) {
    bench *b = calloc(1, sizeof *b);
    runner *runners = NULL;
    if (b == NULL) return error_set(e, ERR_MEMORY, "no memory for measuring");
    m->n = 0;
    b->quick = quick;
    b->n_rounds = quick ? QUICK_ROUNDS : N_ROUNDS;
    status s = bench_open(b, m, &runners, e);
    for (int round = 0; s == OK && round < b->n_rounds; round++) {
        for (size_t i = 0; i < m->n; i++) b->rounds[i][round] = run_round(b, &m->probes[i], b->work[i], runners);
        if (progress != NULL) progress(round + 1, b->n_rounds);
    }
    if (s == OK) summarise(m, b);
    free(runners);
    bench_close(b);
    return s;
}
