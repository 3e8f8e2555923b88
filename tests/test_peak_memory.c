/* test_peak_memory.c - what `tally batch` says it takes at most is what the system says that it took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/peak.h"

/* llama2.c's version 1: 24 M weights, tied. */
enum { DIM = 384, HIDDEN = 1024, LAYERS = 8, HEADS = 6, VOCAB = 24000, CTX = 512 };

static void write_model(const char *path) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint8_t header[256] = "24ka";
    const int32_t numbers[] = {1, DIM, HIDDEN, LAYERS, HEADS, HEADS, VOCAB, CTX};
    header[0] = 0x32, header[1] = 0x34, header[2] = 0x6b, header[3] = 0x61; /* 0x616b3432, little-endian */
    memcpy(header + 4, numbers, sizeof numbers);
    header[4 + sizeof numbers] = 1;
    assert_int_equal(fwrite(header, sizeof header, 1, f), 1);
    size_t n = (2 * (size_t)LAYERS + 1) * DIM + (size_t)VOCAB * DIM + (size_t)LAYERS * (4 * DIM * DIM + 3 * DIM * HIDDEN);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        float w = ((float)(x >> 8) / 16777216.0f - 0.5f) * 0.1f;
        assert_int_equal(fwrite(&w, sizeof w, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
}

/* 8 prompts of 380 tokens, and 20 to generate: 8 sequences of 400 fill all their pages. */
static void write_prompts(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 8; i++) {
        fprintf(f, "{\"ids\": [%d", i);
        for (int k = 1; k < 380; k++) fprintf(f, ", %d", (k * 37 + i * 11) % VOCAB);
        fprintf(f, "]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

static double total_said(const char *path) {
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    assert_true(json_is_true(json_object_get(json_object_get(o, "work"), "agrees")));
    double total = json_number_value(json_object_get(json_object_get(o, "memory"), "total_bytes"));
    json_decref(o);
    return total;
}

static void the_predicted_peak_of_a_model_read_whole_is_the_measured_one(void **state) {
    (void)state;
    SKIP_WHERE_SANITIZED();
    const char *tally = getenv("TALLY");
    if (tally == NULL) tally = "build/release/tally";
    char folder[] = "/tmp/tally-peak-XXXXXX", model[64], prompts[64], err[64];
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.bin", folder);
    snprintf(prompts, sizeof prompts, "%s/prompts.jsonl", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    write_model(model);
    write_prompts(prompts);
    const char *const empty[] = {tally, "batch", "--help", NULL};
    double nothing = peak_of(empty, err);
    static const char *const types[] = {"f32", "f16"};
    for (int t = 0; t < 2; t++) {
        const char *const run[] = {tally,        "batch",  "-m",     model, "-f",         prompts, "--mmap",    "off",
                                   "--parallel", "8",      "-n",     "21",  "--ctx-size", "400",   "--kv-type", types[t],
                                   "--weights",  types[t], "--json", "-t",  "2",          NULL};
        double measured = peak_of(run, err) - nothing, said = total_said(err);
        print_message("%s: %.1f MiB said, %.1f MiB measured\n", types[t], said / 0x1p20, measured / 0x1p20);
        assert_true(measured <= said * 1.05 + 8 * 0x1p20);
        assert_true(measured >= said * 0.95 - 8 * 0x1p20);
    }
    remove(model), remove(prompts), remove(err), rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_predicted_peak_of_a_model_read_whole_is_the_measured_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
