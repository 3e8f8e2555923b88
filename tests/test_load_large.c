/* Matrices of many megabytes: they are read a piece at a time, by several threads, into memory that the finished model takes anyway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/made_model.h"
#include "tests/peak.h"
#include "weights/write.h"

/* Nearly all of it in three matrices, or five: the vocabulary's are no multiple of 16 rows. */
static model_config wide(int d_model, int n_vocab) {
    model_config c = made_config();
    c.n_layers = 1, c.d_model = d_model, c.n_heads = 4, c.n_kv_heads = 2, c.head_dim = 32, c.rope_dim = 32;
    c.d_ff = 16384, c.n_vocab = n_vocab, c.tied = false, c.n_ctx = 64;
    snprintf(c.family, sizeof c.family, "llama");
    return c;
}

/* In a process of its own: neither its memory nor its threads are this one's. */
static void write_model(const char *path, int d_model, int n_vocab, dtype type) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        model_config c = wide(d_model, n_vocab);
        model_options o;
        model_options_init(&o);
        o.weights = (int)type, o.n_threads = 2;
        write_options w = {.weights = -1};
        model *m = NULL;
        error e = {0};
        bool ok = model_random(&m, &c, 3, &o, &e) == OK && write_gguf(m, path, &w, &e) == OK;
        if (!ok) fprintf(stderr, "%s\n", e.message);
        model_free(m);
        _exit(ok ? 0 : 1);
    }
    int exit_status;
    assert_int_equal(waitpid(pid, &exit_status, 0), pid);
    assert_int_equal(exit_status, 0);
}

static double number_said(const char *path, const char *key) {
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    const json_t *value = json_object_get(json_object_get(o, "memory"), key);
    assert_true(json_is_number(value));
    double x = json_number_value(value);
    json_decref(o);
    return x;
}

/* The last matrix takes 34 MB in fp16: a second copy of it in memory, the file's, would break the bound. */
static void loading_takes_the_weights_the_cache_and_32_mib_at_most(void **state) {
    (void)state;
    SKIP_WHERE_SANITIZED();
    const char *tally = getenv("TALLY");
    if (tally == NULL) tally = "build/release/tally";
    char *folder = folder_make(), model_path[512], prompts[512], err[512];
    snprintf(model_path, sizeof model_path, "%s/m.gguf", folder);
    snprintf(prompts, sizeof prompts, "%s/p.jsonl", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    folder_put(folder, "p.jsonl", "{\"ids\": [1, 2, 3]}\n", 19);
    static const char *const nothing[] = {"true", NULL};
    double empty = peak_of(nothing, err);
    static const dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
    for (int i = 0; i < 2; i++) {
        write_model(model_path, 1024, 1001, types[i]);
        const char *const run[] = {tally, "batch",      "-m", model_path, "-f", prompts,           "-n", "2",      "--mmap",
                                   "off", "--parallel", "1",  "-t",       "2",  "--prefill-chunk", "16", "--json", NULL};
        double peak = peak_of(run, err) - empty, weights = number_said(err, "weight_bytes"),
               cache = number_said(err, "pool_bytes");
        print_message("%s: %.1f MiB of weights, %.1f MiB more at the peak\n", dtype_info(types[i])->name, weights / 0x1p20,
                      (peak - weights) / 0x1p20);
        assert_true(weights > (double)(types[i] == DTYPE_F16 ? 100 : 50) * 0x1p20);
        assert_true(peak <= weights + cache + 32 * 0x1p20);
    }
    folder_remove(folder);
}

static void same_rows(const matrix *a, const matrix *b) {
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_int_equal(a->type, b->type);
    unsigned char *x = malloc(a->row_bytes), *y = malloc(a->row_bytes);
    assert_true(x != NULL && y != NULL);
    for (int r = 0; r < a->n_rows; r++) {
        matrix_row_raw(x, a, r), matrix_row_raw(y, b, r);
        assert_memory_equal(x, y, a->row_bytes);
    }
    free(x), free(y);
}

static void same_model(const model *a, const model *b) {
    const layer_weights *l = &a->layers[0], *k = &b->layers[0];
    same_rows(&a->embedding, &b->embedding), same_rows(&a->head, &b->head);
    same_rows(&l->wq, &k->wq), same_rows(&l->wk, &k->wk), same_rows(&l->wv, &k->wv), same_rows(&l->wo, &k->wo);
    same_rows(&l->w_gate, &k->w_gate), same_rows(&l->w_up, &k->w_up), same_rows(&l->w_down, &k->w_down);
}

/* The file's rows, where they lie, against those that several threads have packed from it. */
static void what_threads_pack_is_bit_by_bit_what_the_file_holds(void **state) {
    (void)state;
    static const dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_F32};
    char *folder = folder_make(), paths[3][512];
    for (int i = 0; i < 3; i++) { /* all before this process has threads: it could not be forked then */
        snprintf(paths[i], sizeof paths[i], "%s/%d.gguf", folder, i);
        write_model(paths[i], 256, 16393, types[i]);
    }
    for (int i = 0; i < 3; i++) {
        model_options o = made_options();
        o.weights = -1, o.mmap = 1, o.n_threads = 1;
        model *file = made_load(paths[i], &o);
        assert_true(file->mapped_bytes == file->weight_bytes && !file->layers[0].w_up.packed);
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            o.mmap = 0, o.n_threads = n_threads;
            model *packed = made_load(paths[i], &o);
            assert_true(packed->mapped_bytes == 0 && packed->head.packed && packed->layers[0].w_up.packed);
            same_model(file, packed);
            model_free(packed);
        }
        model_free(file);
    }
    folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_takes_the_weights_the_cache_and_32_mib_at_most),
        cmocka_unit_test(what_threads_pack_is_bit_by_bit_what_the_file_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
