/* engine_private.h - what the files of engine/ share and nobody else needs. */
#ifndef TALLY_ENGINE_PRIVATE_H
#define TALLY_ENGINE_PRIVATE_H

#include "engine/crew.h"
#include "engine/engine.h"
#include "engine/team_size.h"
#include "kernels/blas.h"

struct engine {
    const model *model;
    engine_options options;
    const kernel_set *kernels;
    blas *blas;
    kv_cache *cache;
    weight_storage storage;
    step step;
    step_report report;
    crew *crew;
    bool finds_team_size; /* no number of threads was given */
    team_size team_size;
    team team;
    worker *workers;      /* [n_threads] */
    double multiply_adds; /* of the matrices, for one row */
    void *arena;          /* every array of a step, and the workers */
    size_t arena_bytes;
    void *scratch; /* [n_threads], one part each */
    size_t scratch_bytes;
    step_sequence *decode_seqs; /* [max_sequences], for engine_decode */
    long long n_steps;          /* so far */
    step_observer observer;
    void *observer_user;
};

/* arena.c: lays out the arena and the workers' scratch. */
status engine_memory_prepare(engine *e, error *err);
/* Sets their sizes only; returns the bytes of one worker's scratch, 0 on overflow. */
size_t engine_memory_measure(engine *e);

/* Bytes of what the cache keeps about each page. */
static inline size_t engine_table_bytes(int n_pages) {
    return (size_t)n_pages * (3 * sizeof(int) + sizeof(uint64_t));
}

/* How many workers so many rows are worth. */
int engine_workers_worth(const engine *e, double n_rows);

#endif
