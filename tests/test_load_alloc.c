/* Allocations of loading and writing a model are failed in turn: the result is an error, or as good as without the failure, and
 * all that was taken is given back. A lack of memory is never taken for a value that the file does not have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/failing_malloc.h"
#include "tests/made_family.h"
#include "weights/save.h"
#include "weights/write.h"

typedef status (*action)(void *user, model **out, error *e);

/* Runs the action with its n-th allocation failing, for every n. What it makes must be what it makes without a failure. */
static void fail_each(action run, void *user) {
    error e = {0};
    model *whole = NULL, *m = NULL;
    if (run(user, &whole, &e) != OK) fail_msg("%s", e.message);
    int n = 1, n_refused = 0;
    for (;; n += 1 + n / 200) { /* the thousands that read the layouts are much alike: not each of them */
        m = NULL;
        counting = 1, live = 0, countdown = n;
        status s = run(user, &m, &e);
        long unused = countdown;
        countdown = 0;
        const char *why = "";
        if (s == OK && m != NULL) {
            model_config a = whole->config, b = m->config;
            if (!config_same_function(&a, &b, &why)) fail_msg("allocation %d failed, and %s is another", n, why);
            if (json_array_size(whole->assumptions) != json_array_size(m->assumptions))
                fail_msg("allocation %d: assumptions were lost", n);
            if ((whole->vocabulary == NULL) != (m->vocabulary == NULL) || whole->n_eos != m->n_eos ||
                whole->bos_id != m->bos_id)
                fail_msg("allocation %d: tokens were lost", n);
        }
        model_free(m);
        if (live != 0) fail_msg("allocation %d failed: %ld blocks were kept", n, live);
        counting = 0;
        if (unused > 0) break; /* there are fewer than n */
        if (s != OK) n_refused++;
        if (s != OK && e.message[0] == '\0') fail_msg("allocation %d failed without a word", n);
    }
    assert_true(n_refused > 20);
    model_free(whole);
}

static status load(void *user, model **out, error *e) {
    model_options o = made_options();
    o.n_threads = 1;
    return model_load(out, user, &o, NULL, e);
}

static void loading_a_folder_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    model_config c = made_config();
    c.q_bias = c.kv_bias = true, c.window = 5, c.layer_windowed[1] = c.layer_windowed[2] = 1;
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "state.");
    char *config = llama_config(
        &c, "\"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": 1, \"eos_token_id\": [1, 2]");
    char *at = strstr(config, "\"llama\"");
    memcpy(at, "\"qwen2\"", 7);
    char *folder = file_folder(&f, config);
    fail_each(load, folder);
    model_free(m), free(config), folder_remove(folder);
}

/* Nothing is said: the heads are counted, the shapes measured, the layout found among all that go by names. */
static void loading_by_names_alone_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    static const entry names[] = {{ROLE_EMBEDDING, PLAIN, "net.embed.W_E", ""},
                                  {ROLE_POSITIONS, PLAIN, "net.pos_embed.W_pos", ""},
                                  {ROLE_ATTN_PRE_NORM, PLAIN, "net.blocks.%d.ln1.w", "net.blocks.%d.ln1.b"},
                                  {ROLE_Q, HEAD_DIM, "net.blocks.%d.attn.W_Q", "net.blocks.%d.attn.b_Q"},
                                  {ROLE_K, HEAD_DIM, "net.blocks.%d.attn.W_K", "net.blocks.%d.attn.b_K"},
                                  {ROLE_V, HEAD_DIM, "net.blocks.%d.attn.W_V", "net.blocks.%d.attn.b_V"},
                                  {ROLE_O, HEAD_DIM, "net.blocks.%d.attn.W_O", ""},
                                  {ROLE_FFN_PRE_NORM, PLAIN, "net.blocks.%d.ln2.w", "net.blocks.%d.ln2.b"},
                                  {ROLE_UP, TRANSPOSED, "net.blocks.%d.mlp.W_in", ""},
                                  {ROLE_DOWN, TRANSPOSED, "net.blocks.%d.mlp.W_out", ""},
                                  {ROLE_FINAL_NORM, PLAIN, "net.ln_final.w", "net.ln_final.b"},
                                  {ROLE_HEAD, TRANSPOSED, "net.unembed.W_U", ""},
                                  END};
    model_config c = made_config();
    c.n_layers = 1, c.norm = NORM_LAYER, c.norm_bias = true, c.position = POSITION_LEARNED, c.rope_dim = 0, c.gated = false;
    c.q_bias = c.kv_bias = true, c.activation = ACTIVATION_GELU_TANH;
    model *m = made_random(&c);
    char *folder = family_folder(m, names, NULL);
    fail_each(load, folder);
    model_free(m), folder_remove(folder);
}

typedef struct {
    const model *m;
    const char *path;
} writing;

static status write_it(void *user, model **out, error *e) {
    const writing *w = user;
    write_options o = {.weights = -1};
    status s = write_gguf(w->m, w->path, &o, e);
    model_options lo = made_options();
    lo.n_threads = 1;
    long failing = countdown; /* what was written is looked at without failures */
    countdown = 0;
    if (s == OK) s = model_load(out, w->path, &lo, NULL, e);
    countdown = failing;
    return s;
}

static void writing_a_gguf_gives_back_everything(void **state) {
    (void)state;
    if (not_possible()) skip();
    model_config c = made_config();
    c.n_layers = 1, c.attn_post_norm = true, c.rope = ROPE_PAIRS; /* Tally's own form, after all others have been tried */
    model *m = made_random(&c);
    char *folder = folder_make(), path[512];
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    writing w = {m, path};
    fail_each(write_it, &w);
    model_free(m), folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_a_folder_gives_back_everything),
        cmocka_unit_test(loading_by_names_alone_gives_back_everything),
        cmocka_unit_test(writing_a_gguf_gives_back_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
