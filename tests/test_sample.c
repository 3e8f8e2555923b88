/* test_sample.c - sampling against a plain implementation in double: which tokens may be drawn, and how often they are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sample.h"
#include "tests/kernel_sets.h"

enum { MOST = 300 };

/* Draws with the generator of (seed, stream), from logits that are left as they are. */
typedef struct {
    sample_rng rng;
    sample_scratch scratch;
} sampler;

static sampler sampler_make(int n_vocab, int n_allowed, uint64_t seed, uint64_t stream) {
    sampler s;
    error e = {0};
    assert_int_equal(sample_scratch_create(&s.scratch, n_vocab, n_allowed, &e), OK);
    sample_rng_init(&s.rng, seed, stream);
    return s;
}

static int draw(sampler *s, const float *logits, const sampling *o, const int *seen, int n_seen) {
    float copy[MOST];
    memcpy(copy, logits, (size_t)s->scratch.n_vocab * sizeof *copy);
    return sample_token(copy, o, seen, n_seen, &s->rng, &s->scratch);
}

static sampling options(float temperature, int top_k, float top_p, float min_p) {
    sampling o;
    sampling_init(&o);
    o.temperature = temperature, o.top_k = top_k, o.top_p = top_p, o.min_p = min_p;
    return o;
}

static void penalised(double *x, const float *logits, int n, const sampling *o, const int *seen, int n_seen) {
    for (int id = 0; id < n; id++) {
        bool was = false;
        x[id] = (double)logits[id];
        for (int i = 0; i < n_seen; i++) {
            was = was || (seen[i] == id && (o->repeat_last_n < 0 || i >= n_seen - o->repeat_last_n));
        }
        if (was) x[id] = x[id] > 0 ? x[id] / (double)o->repeat_penalty : x[id] * (double)o->repeat_penalty;
    }
}

/* The probability of each id, by the definitions: rank by rank, each rank found by looking through all ids. */
static void probabilities(double *p, const float *logits, int n, const sampling *o, const int *seen, int n_seen) {
    double x[MOST], in_order[MOST], total = 0, sum = 0;
    int rank[MOST], kept = o->top_k == 0 || o->top_k > n ? n : o->top_k, last;
    penalised(x, logits, n, o, seen, n_seen);
    for (int r = 0; r < n; r++) {
        rank[r] = -1;
        for (int id = 0; id < n; id++) {
            bool taken = false;
            for (int q = 0; q < r; q++) taken = taken || rank[q] == id;
            if (!taken && (rank[r] < 0 || x[id] > x[rank[r]])) rank[r] = id;
        }
    }
    for (int r = 0; r < kept; r++) in_order[r] = exp((x[rank[r]] - x[rank[0]]) / (double)o->temperature);
    while (kept > 1 && in_order[kept - 1] < (double)o->min_p) kept--;
    for (int r = 0; r < kept; r++) total += in_order[r];
    for (last = 0; last < kept - 1 && sum + in_order[last] < (double)o->top_p * total; last++) sum += in_order[last];
    memset(p, 0, (size_t)n * sizeof *p);
    sum = 0;
    for (int r = 0; r <= last; r++) sum += in_order[r];
    for (int r = 0; r <= last; r++) p[rank[r]] = in_order[r] / sum;
}

static void random_logits(float *x, int n, uint64_t *seed) {
    for (int i = 0; i < n; i++) x[i] = random_unit(seed) * 4;
}

/* Nothing is drawn whose probability is 0, and the share of the others is theirs, within 5 standard deviations of so many draws. */
static void assert_distribution(const float *logits, int n, const sampling *o, const int *seen, int n_seen, int n_draws) {
    double p[MOST];
    int times[MOST] = {0};
    sampler s = sampler_make(n, n, 11, 3);
    probabilities(p, logits, n, o, seen, n_seen);
    for (int i = 0; i < n_draws; i++) times[draw(&s, logits, o, seen, n_seen)]++;
    for (int id = 0; id < n; id++) {
        double sd = sqrt(p[id] * (1 - p[id]) / n_draws), share = (double)times[id] / n_draws;
        if (p[id] == 0) assert_int_equal(times[id], 0);
        if (fabs(share - p[id]) > 5 * sd + 1e-9) fail_msg("id %d: drawn %g of the time, not %g (sd %g)", id, share, p[id], sd);
    }
    sample_scratch_free(&s.scratch);
}

static void draws_are_distributed_as_softmax(void **state) {
    (void)state;
    uint64_t seed = 1;
    const float temperatures[] = {1.0f, 0.3f, 2.5f, 100.0f};
    for (int i = 0; i < 4; i++) {
        float x[40];
        random_logits(x, 40, &seed);
        sampling o = options(temperatures[i], 0, 1, 0);
        assert_distribution(x, 40, &o, NULL, 0, 100000);
    }
}

static void top_k_top_p_min_p_and_the_penalty_do_what_double_does(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 40; i++) {
        float x[60];
        int n = 2 + random_below(&seed, 58), seen[20], n_seen = random_below(&seed, 20);
        random_logits(x, n, &seed);
        for (int k = 0; k < n_seen; k++) seen[k] = random_below(&seed, n);
        sampling o = options(0.2f + fabsf(random_unit(&seed)) * 2, i % 2 == 0 ? 0 : 2 + random_below(&seed, n),
                             i % 3 == 0 ? 1.0f : 0.05f + 0.9f * fabsf(random_unit(&seed)),
                             i % 5 < 2 ? 0.0f : 0.5f * fabsf(random_unit(&seed)));
        if (i % 4 == 3) o.repeat_penalty = 1.7f, o.repeat_last_n = i % 8 == 3 ? -1 : random_below(&seed, 20);
        assert_distribution(x, n, &o, seen, n_seen, 20000);
    }
}

/* temperature 0 = top_k 1 = the largest logit; of equal ones the smallest id. */
static void greedy_is_temperature_0_or_top_k_1_and_ties_go_to_the_smallest_id(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 200; i++) {
        float x[50];
        int n = 1 + random_below(&seed, 50), best = 0;
        for (int id = 0; id < n; id++) x[id] = (float)random_below(&seed, 4) - 2; /* many ties */
        for (int id = n - 1; id >= 0; id--) best = x[id] >= x[best] ? id : best;
        sampler s = sampler_make(n, n, 5, 0);
        sampling cold = options(0, 0, 1, 0), one = options(0.8f, 1, 1, 0), tiny = options(1e-30f, 0, 1e-9f, 0);
        assert_int_equal(draw(&s, x, &cold, NULL, 0), best);
        assert_int_equal(draw(&s, x, &one, NULL, 0), best);
        assert_int_equal(draw(&s, x, &tiny, NULL, 0), best);
        assert_int_equal(sample_greedy(x, n), best);
        sample_scratch_free(&s.scratch);
    }
}

static void top_k_above_the_vocabulary_is_all_of_it_and_0_is_off(void **state) {
    (void)state;
    uint64_t seed = 4;
    float x[20];
    random_logits(x, 20, &seed);
    sampler a = sampler_make(20, 20, 9, 1), b = sampler_make(20, 20, 9, 1), c = sampler_make(20, 20, 9, 1);
    sampling off = options(1.5f, 0, 1, 0), all = options(1.5f, 20, 1, 0), above = options(1.5f, 1000000, 1, 0);
    for (int i = 0; i < 1000; i++) {
        int id = draw(&a, x, &off, NULL, 0);
        assert_int_equal(draw(&b, x, &all, NULL, 0), id);
        assert_int_equal(draw(&c, x, &above, NULL, 0), id);
    }
    sample_scratch_free(&a.scratch), sample_scratch_free(&b.scratch), sample_scratch_free(&c.scratch);
}

/* Of equal logits the k smallest ids stay. */
static void top_k_keeps_the_smallest_ids_of_equal_logits(void **state) {
    (void)state;
    float x[30] = {0};
    int times[30] = {0};
    sampler s = sampler_make(30, 30, 6, 0);
    sampling o = options(1, 7, 1, 0);
    for (int i = 0; i < 2000; i++) times[draw(&s, x, &o, NULL, 0)]++;
    for (int id = 0; id < 30; id++) assert_int_equal(times[id] > 0, id < 7);
    sample_scratch_free(&s.scratch);
}

static void padding_of_the_table_is_never_drawn(void **state) {
    (void)state;
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = i < 50 ? 0.0f : 10.0f;
    sampler s = sampler_make(64, 50, 6, 0);
    sampling warm = options(2, 0, 1, 0), cold = options(0, 0, 1, 0), few = options(2, 60, 0.99f, 0);
    for (int i = 0; i < 2000; i++) {
        assert_true(draw(&s, x, &warm, NULL, 0) < 50);
        assert_true(draw(&s, x, &few, NULL, 0) < 50);
    }
    assert_int_equal(draw(&s, x, &cold, NULL, 0), 0);
    sample_scratch_free(&s.scratch);
}

/* PCG32's published first numbers for seed 42, stream 54; of 256 equal logits a draw is the number's top byte. */
static void the_generator_is_pcg32(void **state) {
    (void)state;
    const uint32_t published[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e};
    float x[256] = {0};
    sampler s = sampler_make(256, 256, 42, 54);
    sampling o = options(1, 0, 1, 0);
    for (int i = 0; i < 6; i++) assert_int_equal(draw(&s, x, &o, NULL, 0), published[i] >> 24);
    sample_scratch_free(&s.scratch);
}

static void a_seed_repeats_its_draws_and_another_seed_or_stream_does_not(void **state) {
    (void)state;
    uint64_t seed = 7;
    float x[100];
    random_logits(x, 100, &seed);
    sampling o = options(1, 0, 0.95f, 0.01f);
    int first[200];
    for (int run = 0; run < 4; run++) { /* the same, the same again, another seed, another stream */
        sampler s = sampler_make(100, 100, run == 2 ? 124 : 123, run == 3 ? 1 : 0);
        int same = 0;
        for (int i = 0; i < 200; i++) {
            int id = draw(&s, x, &o, NULL, 0);
            same += run > 0 && first[i] == id;
            if (run == 0) first[i] = id;
        }
        assert_true(run == 0 || (run == 1 ? same == 200 : same < 40));
        sample_scratch_free(&s.scratch);
    }
}

static void options_that_mean_nothing_are_refused_by_name(void **state) {
    (void)state;
    struct {
        sampling o;
        const char *words;
    } cases[] = {{options(-1, 0, 1, 0), "--temp"},          {options(NAN, 0, 1, 0), "--temp"},
                 {options(INFINITY, 0, 1, 0), "--temp"},    {options(1, -1, 1, 0), "--top-k"},
                 {options(1, 0, 0, 0), "--top-p"},          {options(1, 0, 1.1f, 0), "--top-p"},
                 {options(1, 0, NAN, 0), "--top-p"},        {options(1, 0, 1, -0.1f), "--min-p"},
                 {options(1, 0, 1, 1.5f), "--min-p"},       {options(1, 0, 1, NAN), "--min-p"},
                 {options(1, 0, 1, 0), "--repeat-penalty"}, {options(1, 0, 1, 0), "--repeat-penalty"},
                 {options(1, 0, 1, 0), "--repeat-last-n"}};
    cases[10].o.repeat_penalty = 0, cases[11].o.repeat_penalty = NAN, cases[12].o.repeat_last_n = -2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error e = {0};
        assert_int_equal(sampling_check(&cases[i].o, &e), ERR_ARGUMENT);
        assert_non_null(strstr(e.message, cases[i].words));
    }
    error e = {0};
    sampling fine[] = {options(0, 0, 1, 0), options(1e-30f, 1000000, 1e-6f, 1), options(100, 1, 1, 0)};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) assert_int_equal(sampling_check(&fine[i], &e), OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_distributed_as_softmax),
        cmocka_unit_test(top_k_top_p_min_p_and_the_penalty_do_what_double_does),
        cmocka_unit_test(greedy_is_temperature_0_or_top_k_1_and_ties_go_to_the_smallest_id),
        cmocka_unit_test(top_k_above_the_vocabulary_is_all_of_it_and_0_is_off),
        cmocka_unit_test(top_k_keeps_the_smallest_ids_of_equal_logits),
        cmocka_unit_test(padding_of_the_table_is_never_drawn),
        cmocka_unit_test(the_generator_is_pcg32),
        cmocka_unit_test(a_seed_repeats_its_draws_and_another_seed_or_stream_does_not),
        cmocka_unit_test(options_that_mean_nothing_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
