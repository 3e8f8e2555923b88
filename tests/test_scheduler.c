/* test_scheduler.c - many requests at once give what each gives alone, step by step counted as predicted, and nobody starves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "engine/scheduler.h"

enum { N_VOCAB = 31, MAX_REQUESTS = 64, MAX_IDS = 160 };

static error err;
static void must(status st) {
    if (st != OK) fail_msg("%s", err.message);
}

/* Every dimension different, so that none hides behind another. */
static model_config small_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 20, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 37, c.n_vocab = N_VOCAB,
    c.n_ctx = 150;
    c.rope_dim = 10, c.rope_base = 10000, c.attn_scale = 0.31f;
    return c;
}

static model_config windowed_config(bool every_layer) {
    model_config c = small_config();
    c.window = 13;
    for (int il = 0; il < c.n_layers; il++) c.layer_windowed[il] = every_layer || il == 1;
    return c;
}

static model *model_in(const model_config *c, dtype weights) {
    model_options o;
    model_options_init(&o);
    o.weights = (int)weights;
    model *m = NULL;
    must(model_random(&m, c, 3, &o, &err));
    return m;
}

static model *model_make(const model_config *c) {
    return model_in(c, DTYPE_F32);
}

/* ---- a run: requests through a scheduler, everything checked after every step ---- */

typedef struct {
    int ids[MAX_IDS], n_prompt, max_new, n_samples;
    sampling sampling;
    uint64_t seed;
    int arrives; /* at this step; 0: at once */
} job;

typedef struct {
    int ids[MAX_IDS], n_ids, n_done;
    finish_reason finish;
    bill bill; /* alone: prefill and decode only */
} answer;

typedef struct {
    engine *engine;
    scheduler *scheduler;
    const model_config *config;
    answer answers[MAX_REQUESTS][4];
    term_counts billed;
    long long n_steps, n_mismatches, n_grouped, n_mixed; /* steps: all; wrong; with a group; with prompts and single rows */
    double now, seconds_a_row;
} run;

static void compare(void *user, const step_report *r) {
    run *k = user;
    term_counts predicted;
    cost_predict(&predicted, k->config, r->plan);
    int rows = 0, single = 0, grouped = 0;
    for (int i = 0; i < r->plan->n_sequences; i++) {
        rows += r->plan->sequences[i].n_new;
        single += r->plan->sequences[i].n_new == 1;
        grouped += r->plan->sequences[i].group >= 0;
    }
    k->n_steps++;
    k->n_grouped += grouped > 0;
    k->n_mixed += single > 0 && single < r->plan->n_sequences;
    k->now += k->seconds_a_row * rows;
    for (int i = 0; i < N_TERMS; i++) {
        if (predicted.n[i] == r->counted.n[i]) continue;
        k->n_mismatches++;
        print_message("%s: predicted %llu, counted %llu\n", term_table[i].key, (unsigned long long)predicted.n[i],
                      (unsigned long long)r->counted.n[i]);
    }
}

static void note_done(void *user, const completion *c) {
    run *k = user;
    answer *a = &k->answers[(size_t)c->user][c->sample];
    a->n_done++;
    a->finish = c->finish;
    a->bill = c->bill;
    a->n_ids = c->n_ids;
    memcpy(a->ids, c->ids, (size_t)c->n_ids * sizeof *a->ids);
    term_counts_add(&k->billed, &c->bill.prefill);
    term_counts_add(&k->billed, &c->bill.decode);
}

static bool ends_at_one(void *user, int id) {
    (void)user;
    return id == 1;
}

static double simulated_clock(void *user) {
    return ((run *)user)->now;
}

static run *run_make(const model *m, const engine_options *eo, const scheduler_options *so) {
    run *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->config = &m->config;
    k->seconds_a_row = 1;
    must(engine_create(&k->engine, m, eo, &err));
    engine_observe(k->engine, compare, k);
    scheduler_options o = *so;
    o.is_end = ends_at_one;
    o.clock = simulated_clock;
    o.clock_user = k;
    must(scheduler_create(&k->scheduler, k->engine, &o, note_done, k, &err));
    return k;
}

static void run_free(run *k) {
    scheduler_free(k->scheduler);
    assert_int_equal(engine_cache(k->engine)->n_free, engine_cache(k->engine)->n_pages);
    engine_free(k->engine);
    free(k);
}

static status job_submit(run *k, const job *j, size_t number) {
    request r = {.ids = j->ids,
                 .n_ids = j->n_prompt,
                 .max_new = j->max_new,
                 .n_samples = j->n_samples,
                 .sampling = j->sampling,
                 .seed = j->seed,
                 .user = (void *)number};
    return scheduler_submit(k->scheduler, &r, &err);
}

static void run_step(run *k) {
    must(scheduler_step(k->scheduler, &err));
    must(scheduler_check(k->scheduler, &err));
}

static void run_jobs(run *k, const job *jobs, int n) {
    int n_submitted = 0;
    for (int t = 0; n_submitted < n || scheduler_busy(k->scheduler); t++) {
        while (n_submitted < n && jobs[n_submitted].arrives <= t) {
            must(job_submit(k, &jobs[n_submitted], (size_t)n_submitted));
            n_submitted++;
        }
        run_step(k);
        assert_true(t < 20000);
    }
}

/* The bills of all completions are the counts of all steps, term by term, and every step's counts were predicted. */
static void assert_adds_up(run *k) {
    const scheduler_stats *s = scheduler_statistics(k->scheduler);
    for (int t = 0; t < N_TERMS; t++) assert_true(k->billed.n[t] == s->counted.n[t]);
    assert_int_equal(k->n_mismatches, 0);
    assert_int_equal(k->n_steps, s->n_steps);
}

/* ---- what each gives alone: prefill and decode, without a scheduler ---- */

static void solo(const model *m, const engine_options *eo, const job *j, int sample, answer *a) {
    engine_options o = *eo;
    o.max_sequences = 1, o.n_pages = 0, o.page_size = 16, o.n_threads = 1, o.prefill_chunk = 512;
    engine *e;
    must(engine_create(&e, m, &o, &err));
    kv_sequence *s;
    must(kv_sequence_create(&s, engine_cache(e), engine_n_ctx(e), &err));
    sample_scratch scratch;
    must(sample_scratch_create(&scratch, N_VOCAB, N_VOCAB, &err));
    sample_rng rng;
    sample_rng_init(&rng, j->seed, (uint64_t)sample);
    float logits[N_VOCAB];
    *a = (answer){.n_ids = j->n_prompt, .finish = FINISH_LENGTH};
    memcpy(a->ids, j->ids, (size_t)j->n_prompt * sizeof *a->ids);
    must(engine_prefill(e, s, j->ids, j->n_prompt, 1, logits, &err));
    a->bill.prefill = engine_last_report(e)->counted; /* one step */
    while (j->max_new < 0 || a->n_ids - j->n_prompt < j->max_new) {
        int id = sample_token(logits, &j->sampling, a->ids, a->n_ids, &rng, &scratch);
        a->finish = FINISH_END;
        if (id == 1) break;
        a->ids[a->n_ids++] = id;
        a->finish = FINISH_LENGTH;
        if (j->max_new >= 0 && a->n_ids - j->n_prompt >= j->max_new) break;
        a->finish = FINISH_CONTEXT;
        if (s->n_tokens == engine_n_ctx(e)) break;
        must(engine_decode(e, &s, &id, 1, logits, &err));
        term_counts_add(&a->bill.decode, &engine_last_report(e)->counted);
    }
    sample_scratch_free(&scratch);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
}

static void assert_same_answer(const answer *want, const answer *got) {
    assert_int_equal(got->n_done, 1);
    assert_int_equal(want->n_ids, got->n_ids);
    assert_memory_equal(want->ids, got->ids, (size_t)want->n_ids * sizeof *want->ids);
    assert_int_equal(want->finish, got->finish);
}

/* FLOPs and K and V written are one's own, whoever else is in the step. */
static void assert_same_work(const answer *want, const answer *got) {
    for (int t = 0; t < N_TERMS; t++) {
        if (term_table[t].class_ > CLASS_OTHER && t != TERM_BYTES_KV_WRITTEN && t != TERM_BYTES_LOGITS) continue;
        assert_true(want->bill.prefill.n[t] == got->bill.prefill.n[t]);
        assert_true(want->bill.decode.n[t] == got->bill.decode.n[t]);
    }
}

/* ---- work ---- */

static unsigned random_state;
static int draw(int n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (unsigned)n);
}

/* Prompts of many lengths; some begin alike, some are the same. */
static void jobs_make(job *jobs, int n, int longest, unsigned seed) {
    random_state = seed;
    for (int i = 0; i < n; i++) {
        job *j = &jobs[i];
        *j = (job){.n_prompt = 1 + draw(longest),
                   .max_new = draw(30),
                   .n_samples = 1,
                   .seed = (uint64_t)i,
                   .arrives = i < n / 2 ? 0 : draw(40)};
        sampling_init(&j->sampling);
        if (i % 3 == 1) j->sampling.temperature = 1.5f;
        if (i % 7 == 3) j->n_samples = 3;
        int alike = i % 4 == 0 ? 0 : draw(j->n_prompt + 1);
        for (int k = 0; k < j->n_prompt; k++) j->ids[k] = k < alike ? 2 + k % 5 + 3 * (i % 2) : draw(N_VOCAB);
        if (i > 0 && j->arrives < jobs[i - 1].arrives) j->arrives = jobs[i - 1].arrives;
    }
}

static void answers_make(const model *m, const engine_options *o, const job *jobs, int n, answer (*want)[4]) {
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < jobs[i].n_samples; s++) solo(m, o, &jobs[i], s, &want[i][s]);
    }
}

static engine_options options_make(int parallel, int chunk, int page_size, int n_pages, int n_threads, dtype kv) {
    engine_options o;
    engine_options_init(&o);
    o.max_sequences = parallel, o.prefill_chunk = chunk, o.page_size = page_size, o.n_pages = n_pages, o.n_threads = n_threads,
    o.kv_type = kv;
    return o;
}

typedef struct {
    int parallel, chunk, page_size, n_pages, n_threads;
    bool prefix;
    uint64_t mask;
} arrangement;

static answer wanted[MAX_REQUESTS][4];
static job work[MAX_REQUESTS];

/* Runs the work and compares it with the answers; returns the run for further questions. */
static run *assert_answers(const model *m, dtype kv, const arrangement *a, int n) {
    engine_options o = options_make(a->parallel, a->chunk, a->page_size, a->n_pages, a->n_threads, kv);
    scheduler_options so;
    scheduler_options_init(&so);
    so.prefix_cache = a->prefix;
    if (a->mask != 0) so.prefix_hash_mask = a->mask - 1;
    run *k = run_make(m, &o, &so);
    run_jobs(k, work, n);
    assert_adds_up(k);
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < work[i].n_samples; s++) assert_same_answer(&wanted[i][s], &k->answers[i][s]);
        if (!a->prefix && a->n_pages == 0 && work[i].n_samples == 1) assert_same_work(&wanted[i][0], &k->answers[i][0]);
    }
    return k;
}

static void every_answer_is_as_if_alone_however_the_work_is_arranged(void **state) {
    (void)state;
    const arrangement arrangements[] = {
        {3, 512, 16, 0, 1, true, 0},  {7, 16, 4, 0, 2, true, 0},  {40, 64, 1, 0, 1, true, 0},  {7, 16, 4, 0, 1, false, 0},
        {40, 40, 16, 0, 3, false, 0}, {7, 9, 4, 30, 1, true, 0},  {7, 64, 1, 110, 2, true, 0}, {7, 64, 1, 110, 1, false, 0},
        {5, 7, 16, 7, 1, true, 0},    {7, 16, 4, 30, 1, true, 1}, {7, 16, 4, 60, 2, true, 4},
    };
    enum { N = 40 };
    const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    model_config configs[] = {small_config(), windowed_config(false), windowed_config(true)};
    long long n_preemptions = 0, n_grouped = 0, n_mixed = 0, n_reused = 0, n_copies = 0;
    for (int c = 0; c < 3; c++) {
        model *m = model_make(&configs[c]);
        for (int t = 0; t < 3; t++) {
            jobs_make(work, N, 80, (unsigned)(1 + c + 3 * t));
            engine_options o = options_make(1, 512, 16, 0, 1, types[t]);
            answers_make(m, &o, work, N, wanted);
            for (size_t i = (size_t)t; i < sizeof arrangements / sizeof *arrangements; i += t == 1 ? 1 : 3) {
                run *k = assert_answers(m, types[t], &arrangements[i], N);
                const scheduler_stats *s = scheduler_statistics(k->scheduler);
                n_preemptions += s->n_preemptions;
                n_reused += s->n_reused;
                n_grouped += k->n_grouped;
                n_mixed += k->n_mixed;
                n_copies += engine_cache(k->engine)->n_copies;
                run_free(k);
            }
        }
        model_free(m);
    }
    print_message("%lld preemptions, %lld grouped, %lld mixed steps, %lld tokens reused, %lld copies\n", n_preemptions,
                  n_grouped, n_mixed, n_reused, n_copies);
    assert_true(n_preemptions > 50 && n_grouped > 500 && n_mixed > 500 && n_reused > 1000 && n_copies > 50);
}

/* A pool that is just large enough for the longest, or up to four times that; pages, chunks, batches of any size. */
static arrangement arrangement_draw(const model_config *c, const job *jobs, int n) {
    arrangement a = {.parallel = 3 + draw(12), .page_size = 1 + draw(18), .n_threads = 1, .prefix = draw(4) > 0};
    a.chunk = a.parallel + draw(40);
    a.mask = draw(3) == 0 ? 1 + (uint64_t)draw(5) : 0;
    int longest = 0, most = a.page_size - 1;
    for (int i = 0; i < n; i++) {
        int length = jobs[i].n_prompt + (jobs[i].max_new > 1 ? jobs[i].max_new - 1 : 0);
        if (length > longest) longest = length;
    }
    int pages = (longest + most) / a.page_size, windowed = (c->window - 1 + a.chunk + most) / a.page_size + 1;
    if (c->layer_windowed[0] && windowed < pages) pages = windowed; /* layer 0 is windowed only where all are */
    a.n_pages = pages + draw(3 * pages);
    return a;
}

static void random_work_in_random_arrangements_is_as_if_alone(void **state) {
    (void)state;
    enum { N = 30, N_SEEDS = 27 };
    model_config configs[] = {small_config(), windowed_config(false), windowed_config(true)};
    const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    long long n_preemptions = 0, n_reused = 0;
    for (unsigned seed = 0; seed < N_SEEDS; seed++) {
        model_config c = configs[seed % 3];
        if (seed % 5 == 0 && c.window > 0) c.window = 3;
        dtype kv = types[seed / 3 % 3];
        model *m = model_in(&c, types[seed % 7 % 3]);
        jobs_make(work, N, 10 + (int)seed * 3, seed * 7919u + 1);
        engine_options o = options_make(1, 512, 16, 0, 1, kv);
        answers_make(m, &o, work, N, wanted);
        arrangement a = arrangement_draw(&c, work, N);
        run *k = assert_answers(m, kv, &a, N);
        n_preemptions += scheduler_statistics(k->scheduler)->n_preemptions;
        n_reused += scheduler_statistics(k->scheduler)->n_reused;
        run_free(k);
        model_free(m);
    }
    assert_true(n_preemptions > 20 && n_reused > 1000);
}

/* One prompt of n tokens that go up, the end token never drawn where the run is short. */
static job plain_job(int n, int max_new) {
    job j = {.n_prompt = n, .max_new = max_new, .n_samples = 1};
    sampling_init(&j.sampling);
    for (int i = 0; i < n; i++) j.ids[i] = 2 + i * 7 % (N_VOCAB - 2);
    return j;
}

static run *plain_run(const model *m, engine_options o, bool prefix) {
    scheduler_options so;
    scheduler_options_init(&so);
    so.prefix_cache = prefix;
    return run_make(m, &o, &so);
}

static void what_can_never_fit_is_refused_when_it_is_submitted(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    run *k = plain_run(m, options_make(3, 512, 16, 4, 1, DTYPE_F16), true);
    job j = plain_job(65, 0);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT);
    assert_non_null(strstr(err.message, "up to 65 tokens takes 5 pages of 16, and the KV cache has 4"));
    j = plain_job(60, 6);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT); /* the 65th token has to be read to draw the 66th */
    j = plain_job(60, -1);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT); /* up to the context of 150 */
    j = plain_job(151, 1);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT);
    assert_non_null(strstr(err.message, "151 tokens does not fit the context of 150"));
    j = plain_job(5, 5);
    j.n_samples = 4;
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT);
    j.n_samples = 1, j.ids[3] = N_VOCAB;
    assert_int_equal(job_submit(k, &j, 0), ERR_ARGUMENT);
    j.ids[3] = 3, j.sampling.temperature = -1;
    assert_int_equal(job_submit(k, &j, 0), ERR_ARGUMENT);
    j = plain_job(0, 5);
    assert_int_equal(job_submit(k, &j, 0), ERR_ARGUMENT);
    assert_false(scheduler_busy(k->scheduler));

    /* What just fits runs, three at a time over a pool for one. */
    for (size_t i = 0; i < 3; i++) {
        j = plain_job(60, 5);
        j.ids[0] = (int)i + 2;
        must(job_submit(k, &j, i));
    }
    while (scheduler_busy(k->scheduler)) run_step(k);
    for (int i = 0; i < 3; i++) assert_true(k->answers[i][0].n_done == 1 && k->answers[i][0].finish != FINISH_FAILED);
    assert_adds_up(k);
    run_free(k);
    model_free(m);
}

static void generation_stops_at_the_context(void **state) {
    (void)state;
    model_config c = small_config();
    c.n_ctx = 32;
    model *m = model_make(&c);
    const int lengths[] = {31, 32, 7, 1}, limits[] = {-1, -1, 1000000000, 1000000000};
    for (int i = 0; i < 4; i++) {
        run *k = plain_run(m, options_make(2, 512, 16, 0, 1, DTYPE_F16), true);
        job j = plain_job(lengths[i], limits[i]);
        j.sampling.temperature = 3;   /* so that it does not settle on the end token */
        for (j.seed = 0;; j.seed++) { /* a seed with which it goes on to the end */
            solo(m, &(engine_options){.isa = "auto", .kv_type = DTYPE_F16, .int8_activations = true}, &j, 0, &wanted[0][0]);
            if (wanted[0][0].finish == FINISH_CONTEXT) break;
        }
        run_jobs(k, &j, 1);
        assert_same_answer(&wanted[0][0], &k->answers[0][0]);
        assert_int_equal(k->answers[0][0].n_ids, 33); /* 32 positions, and the token drawn from the last */
        run_free(k);
    }
    run *k = plain_run(m, options_make(2, 512, 16, 0, 1, DTYPE_F16), true);
    job j = plain_job(33, -1);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT);
    run_free(k);
    model_free(m);
}

static void a_number_that_is_not_finite_ends_its_own_sequence_only(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    enum { N = 9 };
    jobs_make(work, N, 40, 5);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < work[i].n_prompt; k++) work[i].ids[k] += work[i].ids[k] == 7; /* no 7 in the prompts */
        work[i].max_new = 1;
        work[i].n_samples = i == 4 ? 3 : 1;
    }
    engine_options o = options_make(1, 512, 16, 0, 1, DTYPE_F32);
    answers_make(m, &o, work, N, wanted);
    assert_false(m->embedding.packed);
    ((float *)(uintptr_t)m->embedding.data)[7 * c.d_model + 3] = NAN;
    work[2].ids[0] = work[4].ids[work[4].n_prompt / 2] = 7;

    run *k = plain_run(m, options_make(6, 16, 4, 0, 2, DTYPE_F32), true);
    run_jobs(k, work, N);
    assert_adds_up(k);
    for (int i = 0; i < N; i++) {
        for (int s = 0; s < work[i].n_samples; s++) {
            if (i == 2 || i == 4) {
                assert_int_equal(k->answers[i][s].n_done, 1);
                assert_int_equal(k->answers[i][s].finish, FINISH_FAILED);
            } else {
                assert_same_answer(&wanted[i][s], &k->answers[i][s]);
            }
        }
    }
    assert_int_equal(scheduler_statistics(k->scheduler)->n_failed, 4);
    run_free(k);
    model_free(m);
}

static void pages_behind_the_window_of_every_layer_are_given_back(void **state) {
    (void)state;
    model_config c = windowed_config(true);
    model *m = model_make(&c);
    engine_options o = options_make(1, 8, 4, 0, 1, DTYPE_F16);
    job j = plain_job(100, 40);
    j.sampling.temperature = 3;
    for (j.seed = 0;; j.seed++) {
        solo(m, &o, &j, 0, &wanted[0][0]);
        if (wanted[0][0].finish == FINISH_LENGTH) break;
    }
    /* 12 tokens behind the first of 8 rows, wherever in a page that begins: 6 pages do for 140 tokens. */
    o.n_pages = 6;
    run *k = plain_run(m, o, false);
    run_jobs(k, &j, 1);
    assert_same_answer(&wanted[0][0], &k->answers[0][0]);
    assert_true(k->answers[0][0].bill.n_pages <= 6);
    assert_adds_up(k);
    run_free(k);
    o.n_pages = 5;
    k = plain_run(m, o, false);
    assert_int_equal(job_submit(k, &j, 0), ERR_LIMIT);
    run_free(k);
    model_free(m);
}

static void a_prompt_that_is_wholly_known_computes_its_last_page_again(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    for (int n = 16; n <= 32; n += 16) {
        run *k = plain_run(m, options_make(1, 512, 16, 0, 1, DTYPE_F16), true);
        job jobs[3] = {plain_job(n, 3), plain_job(n, 3), plain_job(n, 3)};
        run_jobs(k, jobs, 3);
        const answer *a = k->answers[0];
        assert_int_equal(a->bill.n_reused, 0);
        assert_int_equal(a->bill.n_pages_shared, 0);
        for (int i = 1; i < 3; i++) {
            const answer *b = k->answers[i];
            assert_int_equal(b->n_ids, a->n_ids);
            assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
            assert_int_equal(b->bill.n_reused, n - 16);
            /* What was not computed and what was are the whole prompt: FLOPs, and bytes written (n tokens of 2 sides, 3 layers, 2
             * heads of 10, fp16). */
            uint64_t whole = 0, part = 0;
            for (term_class t = CLASS_MATMUL; t <= CLASS_OTHER; t++) {
                whole += term_class_sum(&a->bill.prefill, t);
                part += term_class_sum(&b->bill.prefill, t);
            }
            assert_true(whole == part + b->bill.flops_reused);
            assert_true((b->bill.flops_reused > 0) == (n > 16));
            assert_int_equal(b->bill.prefill.n[TERM_BYTES_KV_WRITTEN], 16 * 2 * 3 * 2 * 10 * 2);
        }
        assert_adds_up(k);
        run_free(k);
    }
    model_free(m);
}

static void prompts_that_come_together_compute_their_common_beginning_once(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    run *k = plain_run(m, options_make(8, 512, 16, 0, 1, DTYPE_F16), true);
    job jobs[8];
    for (int i = 0; i < 8; i++) {
        jobs[i] = plain_job(70, 6);
        jobs[i].ids[68] = i + 2;
    }
    run_jobs(k, jobs, 8);
    /* 4 pages of the 70 tokens are the same; the first computes them, the others 6 tokens each. */
    assert_int_equal(scheduler_statistics(k->scheduler)->n_reused, 7 * 64);
    assert_true(k->n_grouped > 0);
    assert_true(scheduler_statistics(k->scheduler)->bytes_spared > 0);
    assert_true(scheduler_statistics(k->scheduler)->peak.shared_bytes >= 7u * 4 * 16 * 240);
    assert_adds_up(k);
    run_free(k);
    model_free(m);
}

static void samples_of_a_prompt_share_its_pages_and_pay_for_it_once(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    engine_options o = options_make(4, 512, 16, 0, 1, DTYPE_F16);
    const int lengths[] = {15, 16, 17, 37};
    for (int l = 0; l < 4; l++) {
        run *k = plain_run(m, o, false);
        int n = lengths[l];
        work[0] = plain_job(n, 20);
        work[0].n_samples = 4;
        work[0].sampling.temperature = 2;
        answers_make(m, &o, work, 1, wanted);
        run_jobs(k, work, 1);
        uint64_t rows = 0;
        for (int s = 0; s < 4; s++) {
            assert_same_answer(&wanted[0][s], &k->answers[0][s]);
            const bill *b = &k->answers[0][s].bill;
            assert_int_equal(b->n_reused, s == 0 ? 0 : n);
            assert_int_equal(b->prefill.n[TERM_KEYS_COMPUTED], s == 0 ? n * 3 : 0);
            rows += b->decode.n[TERM_KEYS_COMPUTED] / 3;
            for (int other = 0; other < s; other++) {
                assert_memory_not_equal(k->answers[0][s].ids, k->answers[0][other].ids, (size_t)(n + 4) * sizeof(int));
            }
        }
        assert_int_equal(scheduler_statistics(k->scheduler)->n_rows, (uint64_t)n + rows);
        assert_int_equal(engine_cache(k->engine)->n_copies, n == 16 ? 0 : 3); /* a half-full last page, for all but one */
        assert_true((scheduler_statistics(k->scheduler)->bytes_spared > 0) == (n > 15)); /* whole pages are read together */
        assert_adds_up(k);
        run_free(k);
    }
    model_free(m);
}

static void a_short_prompt_beside_a_long_one_is_as_if_alone(void **state) {
    (void)state;
    for (int learned = 0; learned < 2; learned++) {
        model_config c = small_config();
        if (learned) c.position = POSITION_LEARNED, c.rope_dim = 0;
        model *m = model_make(&c);
        work[0] = plain_job(2, 12), work[1] = plain_job(40, 12);
        engine_options o = options_make(2, 512, 16, 0, 2, DTYPE_F32);
        answers_make(m, &o, work, 2, wanted);
        for (int order = 0; order < 2; order++) {
            run *k = plain_run(m, o, true);
            for (size_t i = 0; i < 2; i++) must(job_submit(k, &work[order == 0 ? i : 1 - i], order == 0 ? i : 1 - i));
            while (scheduler_busy(k->scheduler)) run_step(k);
            for (int i = 0; i < 2; i++) assert_same_answer(&wanted[i][0], &k->answers[i][0]);
            assert_adds_up(k);
            run_free(k);
        }
        model_free(m);
    }
}

/* ---- time: the simulated clock goes on by one second a row ---- */

static void a_long_prompt_does_not_stall_those_who_generate(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    engine_options o = options_make(4, 10, 4, 0, 1, DTYPE_F16);
    run *k = plain_run(m, o, true);
    job shorts = plain_job(4, 20), longs = plain_job(120, 1);
    shorts.ids[0] = 3;
    must(job_submit(k, &shorts, 0));
    run_step(k);
    must(job_submit(k, &longs, 1));
    double before = k->now;
    while (scheduler_busy(k->scheduler)) {
        long long drawn = scheduler_statistics(k->scheduler)->n_generated;
        run_step(k);
        assert_true(k->now - before <= 10); /* a step is never more than its budget of rows */
        before = k->now;
        if (k->answers[0][0].n_done == 0) assert_true(scheduler_statistics(k->scheduler)->n_generated > drawn);
    }
    /* Alone the long prompt takes 12 steps of 10 rows; beside one that generates, 9 of them are its own. */
    const bill *b = &k->answers[1][0].bill;
    assert_true(b->first_token - b->submitted <= 120.0 / 9 * 10 + 10);
    assert_adds_up(k);
    run_free(k);
    model_free(m);
}

static void nobody_starves_however_many_come_after(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    /* A pool that the large request needs nearly all of, and small ones arriving at every step. */
    engine_options o = options_make(6, 16, 4, 36, 1, DTYPE_F16);
    run *k = plain_run(m, o, true);
    job large = plain_job(100, 40);
    large.sampling.temperature = 3;
    for (large.seed = 0;; large.seed++) { /* a seed with which it does not end early */
        solo(m, &o, &large, 0, &wanted[0][0]);
        if (wanted[0][0].finish == FINISH_LENGTH) break;
    }
    size_t n = 0;
    double last_admitted = -1;
    for (int t = 0; t < 60 || scheduler_busy(k->scheduler); t++) {
        if (t == 5) must(job_submit(k, &large, 0));
        if (t < 60) {
            job small = plain_job(6 + t % 9, 12);
            small.ids[0] = 2 + t % 20;
            must(job_submit(k, &small, ++n));
        }
        run_step(k);
        assert_true(t < 5000);
    }
    assert_same_answer(&wanted[0][0], &k->answers[0][0]);
    assert_int_equal(k->answers[0][0].bill.n_preempted, 0); /* when it came in, those before it had ended */
    for (size_t i = 1; i <= n; i++) {                       /* nobody overtook: admitted in the order in which they came */
        assert_int_equal(k->answers[i][0].n_done, 1);
        assert_true(k->answers[i][0].bill.admitted >= last_admitted);
        last_admitted = k->answers[i][0].bill.admitted;
        if (i > 6) assert_true(k->answers[i][0].bill.admitted >= k->answers[0][0].bill.admitted);
        if (i <= 5) assert_true(k->answers[i][0].bill.admitted <= k->answers[0][0].bill.admitted);
    }
    assert_true(scheduler_statistics(k->scheduler)->n_preemptions > 0);
    assert_adds_up(k);
    run_free(k);
    model_free(m);
}

static void the_same_work_takes_the_same_steps_each_time(void **state) {
    (void)state;
    model_config c = small_config();
    model *m = model_make(&c);
    jobs_make(work, 30, 60, 8);
    term_counts first = {{0}};
    for (int time = 0; time < 2; time++) {
        run *k = plain_run(m, options_make(7, 16, 4, 40, 2, DTYPE_Q8_0), true);
        run_jobs(k, work, 30);
        if (time == 0) first = scheduler_statistics(k->scheduler)->counted;
        assert_memory_equal(&first, &scheduler_statistics(k->scheduler)->counted, sizeof first);
        run_free(k);
    }
    model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_as_if_alone_however_the_work_is_arranged),
        cmocka_unit_test(random_work_in_random_arrangements_is_as_if_alone),
        cmocka_unit_test(what_can_never_fit_is_refused_when_it_is_submitted),
        cmocka_unit_test(generation_stops_at_the_context),
        cmocka_unit_test(a_number_that_is_not_finite_ends_its_own_sequence_only),
        cmocka_unit_test(pages_behind_the_window_of_every_layer_are_given_back),
        cmocka_unit_test(a_prompt_that_is_wholly_known_computes_its_last_page_again),
        cmocka_unit_test(prompts_that_come_together_compute_their_common_beginning_once),
        cmocka_unit_test(samples_of_a_prompt_share_its_pages_and_pay_for_it_once),
        cmocka_unit_test(a_short_prompt_beside_a_long_one_is_as_if_alone),
        cmocka_unit_test(a_long_prompt_does_not_stall_those_who_generate),
        cmocka_unit_test(nobody_starves_however_many_come_after),
        cmocka_unit_test(the_same_work_takes_the_same_steps_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
