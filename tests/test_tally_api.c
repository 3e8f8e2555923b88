/* test_tally_api.c - the public header, used as an embedder would: only engine/tally.h is included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/tally.h"

static int best(const float *x, int n) {
    int at = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[at]) at = i;
    }
    return at;
}

static int term_number(const char *key) {
    for (int i = 0; i < tally_n_terms(); i++) {
        if (strcmp(tally_term_key(i), key) == 0) return i;
    }
    fail_msg("no term %s", key);
    return -1;
}

static void the_shipped_model_answers_and_its_counts_are_as_predicted(void **state) {
    (void)state;
    char why[TALLY_MESSAGE] = "";
    tally_options o = tally_default_options();
    o.max_sequences = 2;
    tally *t;
    if (tally_open(&t, "models/level21.pt", &o, why) != 0) fail_msg("%s", why);
    assert_int_equal(tally_n_vocab(t), 15);
    assert_int_equal(tally_n_ctx(t), 11);
    tally_sequence *s[2];
    assert_int_equal(tally_sequence_begin(t, &s[0], why), 0);
    const int prompt[] = {1, 5, 6, 13, 8, 11, 14}; /* <bos>23+58= */
    float logits[2 * 15];
    assert_int_equal(tally_prefill(t, s[0], prompt, 7, logits, why), 0);
    assert_int_equal(tally_sequence_fork(t, &s[1], s[0], why), 0);
    const int answer[] = {11, 4, 2}; /* 81<eos> */
    for (int i = 0; i < 3; i++) {
        int id = best(logits, 15);
        assert_int_equal(id, answer[i]);
        const int both[] = {id, id};
        assert_int_equal(tally_decode(t, s, both, 2, logits, why), 0);
        assert_memory_equal(logits, logits + 15, 15 * sizeof *logits);
        for (int k = 0; k < tally_n_terms(); k++) assert_int_equal(tally_counted(t, k), tally_predicted(t, k));
    }
    /* Weights once for both: the attention weights of two layers, 2 x 64 x 64 x 4 bytes for the queries. */
    assert_int_equal(tally_counted(t, term_number("bytes_q")), 2 * 64 * 64 * 4);
    assert_int_equal(tally_sequence_n_tokens(s[1]), 10);
    tally_sequence *twice[] = {s[0], s[0]};
    assert_int_not_equal(tally_decode(t, twice, answer, 2, logits, why), 0);
    assert_non_null(strstr(why, "twice in one step"));
    assert_int_not_equal(tally_decode(t, s, answer, 2, NULL, why), 0);
    assert_int_equal(tally_sequence_n_tokens(s[0]), 10);
    tally_sequence_end(t, s[0]);
    tally_sequence_end(t, s[1]);
    tally_close(t);
}

static void what_goes_wrong_comes_back_as_a_line(void **state) {
    (void)state;
    char why[TALLY_MESSAGE] = "";
    tally_options o = tally_default_options();
    tally *t;
    assert_int_not_equal(tally_open(&t, "models/no-such-file.pt", &o, why), 0);
    assert_null(t);
    assert_non_null(strstr(why, "models/no-such-file.pt"));
    o.kv_type = "f8";
    assert_int_not_equal(tally_open(&t, "models/level21.pt", &o, why), 0);
    assert_non_null(strstr(why, "f32, f16 or int8"));
    o.kv_type = NULL;
    assert_int_not_equal(tally_open(&t, "models/level21.pt", &o, why), 0);
    assert_null(tally_term_key(-1));
    assert_null(tally_term_key(tally_n_terms()));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_model_answers_and_its_counts_are_as_predicted),
        cmocka_unit_test(what_goes_wrong_comes_back_as_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
