#include "engine/crew.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/event_count.h"

/* A line of the cache of its own: the counts of two members are written by different threads. */
typedef struct {
    event_count begin;
    pthread_t thread;
    crew *crew;
    int id;
    char pad[64];
} member;

struct crew {
    int n_members;
    crew_work work; /* NULL: time to go */
    void *user;
    int n;
    atomic_int n_busy;
    event_count done;
    member members[]; /* [n_members]; number 0 is whoever calls */
};

static void *member_run(void *arg) {
    member *m = arg;
    crew *c = m->crew;
    for (unsigned seen = 0;; seen++) {
        event_count_wait(&m->begin, seen);
        if (c->work == NULL) return NULL;
        c->work(c->user, m->id, c->n);
        if (atomic_fetch_sub(&c->n_busy, 1) == 1) event_count_advance(&c->done);
    }
}

status crew_create(crew **out, int n_members, error *err) {
    *out = NULL;
    crew *c = calloc(1, sizeof *c + (size_t)n_members * sizeof *c->members);
    if (c == NULL) return error_set(err, ERR_MEMORY, "out of memory for %d threads", n_members);
    c->n_members = 1;
    for (int i = 1; i < n_members; i++) {
        member *m = &c->members[i];
        m->crew = c;
        m->id = i;
        if (pthread_create(&m->thread, NULL, member_run, m) != 0) break;
        c->n_members++;
    }
    *out = c;
    return OK;
}

void crew_free(crew *c) {
    if (c == NULL) return;
    c->work = NULL;
    for (int i = 1; i < c->n_members; i++) event_count_advance(&c->members[i].begin);
    for (int i = 1; i < c->n_members; i++) pthread_join(c->members[i].thread, NULL);
    free(c);
}

int crew_size(const crew *c) {
    return c->n_members;
}

void crew_run(crew *c, int n, crew_work work, void *user) {
    if (n == 1) {
        work(user, 0, 1);
        return;
    }
    unsigned seen = event_count_read(&c->done);
    c->work = work;
    c->user = user;
    c->n = n;
    atomic_store(&c->n_busy, n - 1);
    for (int i = 1; i < n; i++) event_count_advance(&c->members[i].begin);
    work(user, 0, n);
    event_count_wait(&c->done, seen);
}
