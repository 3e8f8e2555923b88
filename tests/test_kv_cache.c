/* test_kv_cache.c - pages, tables, sharing and the prefix cache, without a model: tokens are written into pages as numbers, and a plain
 * model of the cache says what must be read back and how many pages it may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kv_check.h"
#include "engine/prefix_cache.h"
#include "kernels/sizes.h"

enum { N_LAYERS = 2, MAX_TOKENS = 70, MAX_SEQUENCES = 12 };

static error err;
static void must(status st) {
    if (st != OK) fail_msg("%s", err.message);
}

static kv_cache *cache_make(int page_size, int n_pages) {
    kv_layout l;
    assert_true(kv_layout_init(&l, DTYPE_F32, page_size, 1, 1));
    kv_cache *c;
    must(kv_cache_create(&c, &l, N_LAYERS, n_pages, &err));
    return c;
}

static kv_sequence *sequence_make(const kv_cache *c) {
    kv_sequence *s;
    must(kv_sequence_create(&s, c, MAX_TOKENS, &err));
    return s;
}

/* What a forward pass would write for a token: something that depends on it, on all before it, and on the layer. */
static float mark_of(const int *ids, int pos, int layer) {
    unsigned h = 17u + (unsigned)layer;
    for (int i = 0; i <= pos; i++) h = h * 31u + (unsigned)ids[i];
    return (float)(h % 1000003u);
}

static float *slot_of(const kv_cache *c, const kv_sequence *s, int pos, int layer) {
    float *page = (float *)(void *)kv_cache_page(c, layer, s->pages[pos / c->layout.page_size]);
    return page + pos % c->layout.page_size;
}

static status append(kv_cache *c, kv_sequence *s, const int *ids, int n_new) {
    status st = kv_sequence_reserve(s, n_new, c, &err);
    if (st != OK) return st;
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (int i = 0; i < n_new; i++) *slot_of(c, s, s->n_tokens + i, layer) = mark_of(ids, s->n_tokens + i, layer);
    }
    kv_sequence_commit(s, n_new, c);
    return OK;
}

static void assert_reads_back(const kv_cache *c, const kv_sequence *s, const int *ids) {
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (int pos = s->n_dropped * c->layout.page_size; pos < s->n_tokens; pos++) {
            assert_true(*slot_of(c, s, pos, layer) == mark_of(ids, pos, layer));
        }
    }
}

static void a_fork_copies_its_last_page_only_and_every_order_of_freeing_gives_all_pages_back(void **state) {
    (void)state;
    const int lengths[] = {15, 16, 17};
    for (int l = 0; l < 3; l++) {
        for (int order = 0; order < 6; order++) {
            kv_cache *c = cache_make(16, 10);
            int ids[3][MAX_TOKENS];
            for (int i = 0; i < MAX_TOKENS; i++)
                ids[0][i] = i, ids[1][i] = i < lengths[l] ? i : 1000 + i, ids[2][i] = ids[0][i];
            kv_sequence *s[3] = {sequence_make(c), sequence_make(c), sequence_make(c)};
            must(append(c, s[0], ids[0], lengths[l]));
            kv_sequence_fork(s[1], s[0], c);
            kv_sequence_fork(s[2], s[0], c);
            assert_int_equal(c->n_pages - c->n_free, (lengths[l] + 15) / 16);
            for (int i = 0; i < 20; i++) {
                for (int k = 0; k < 3; k++) must(append(c, s[k], ids[k], 1));
                must(kv_cache_check(c, s, 3, &err));
            }
            for (int k = 0; k < 3; k++) assert_reads_back(c, s[k], ids[k]);
            assert_int_equal(c->n_copies, lengths[l] == 16 ? 0 : 2); /* the last to write has the page to itself */
            static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
            for (int k = 0; k < 3; k++) {
                kv_sequence_free(s[orders[order][k]], c);
                s[orders[order][k]] = NULL;
                for (int j = 0; j < 3; j++) {
                    if (s[j] != NULL) assert_reads_back(c, s[j], ids[j]);
                }
            }
            assert_int_equal(c->n_free, 10);
            must(kv_cache_check(c, NULL, 0, &err));
            kv_cache_free(c);
        }
    }
}

static void a_page_may_stand_in_more_tables_than_there_are_pages(void **state) {
    (void)state;
    kv_cache *c = cache_make(16, 2);
    kv_sequence *s[5];
    int ids[MAX_TOKENS] = {0}, fill[2];
    for (int i = 0; i < 5; i++) {
        s[i] = sequence_make(c);
        if (i == 0) must(append(c, s[0], ids, 16));
        if (i > 0) kv_sequence_fork(s[i], s[0], c);
    }
    must(kv_cache_check(c, s, 5, &err));
    kv_usage u;
    kv_cache_usage(c, s, 5, fill, &u);
    assert_int_equal(u.n_held, 1);
    assert_int_equal(u.n_entries, 5);
    for (int i = 0; i < 5; i++) kv_sequence_free(s[i], c);
    assert_int_equal(c->n_free, 2);
    kv_cache_free(c);
}

static void used_allocated_and_wasted_bytes_are_exact(void **state) {
    (void)state;
    /* d 64, 8 heads, 2 K/V heads of 8, 3 layers, fp16: 192 bytes a token; 17 tokens in pages of 16. */
    kv_layout l;
    assert_true(kv_layout_init(&l, DTYPE_F16, 16, 2, 8));
    kv_cache *c;
    must(kv_cache_create(&c, &l, 3, 6, &err));
    kv_sequence *s[2] = {sequence_make(c), sequence_make(c)};
    must(kv_sequence_reserve(s[0], 17, c, &err));
    kv_sequence_commit(s[0], 17, c);
    int fill[6];
    kv_usage u;
    kv_cache_usage(c, s, 2, fill, &u);
    assert_int_equal(u.used_bytes, 3264);
    assert_int_equal(u.allocated_bytes, 6144);
    assert_int_equal(u.wasted_bytes, 6144 - 3264);
    assert_int_equal(u.shared_bytes, 0);
    kv_sequence_fork(s[1], s[0], c);
    kv_cache_usage(c, s, 2, fill, &u);
    assert_int_equal(u.used_bytes, 3264); /* once, however many read it */
    assert_int_equal(u.n_tokens, 34);
    assert_int_equal(u.shared_bytes, 6144);
    must(kv_sequence_reserve(s[1], 1, c, &err));
    kv_sequence_commit(s[1], 1, c);
    kv_cache_usage(c, s, 2, fill, &u);
    assert_int_equal(u.n_held, 3);
    assert_int_equal(u.used_bytes, (16 + 1 + 2) * 192);
    assert_int_equal(u.shared_bytes, 3072);
    kv_sequence_free(s[0], c), kv_sequence_free(s[1], c);
    kv_cache_free(c);
}

static void a_prompt_wholly_in_the_cache_leaves_its_last_page_to_compute_twice_over(void **state) {
    (void)state;
    const int lengths[] = {16, 32, 33};
    for (int l = 0; l < 3; l++) {
        kv_cache *c = cache_make(16, 8);
        prefix_cache *p;
        must(prefix_cache_create(&p, c, UINT64_MAX, &err));
        int ids[MAX_TOKENS], n = lengths[l];
        for (int i = 0; i < MAX_TOKENS; i++) ids[i] = i % 7;
        for (int time = 0; time < 3; time++) {
            kv_sequence *s = sequence_make(c);
            prefix_mark m = {0};
            int adopted = prefix_cache_adopt(p, s, &m, ids, n);
            assert_int_equal(adopted, time == 0 ? 0 : (n - 1) / 16 * 16);
            assert_reads_back(c, s, ids);
            must(append(c, s, ids, n - adopted));
            prefix_cache_offer(p, s, &m, ids);
            must(kv_cache_check(c, &s, 1, &err));
            must(prefix_cache_check(p, &err));
            kv_sequence_free(s, c);
            assert_int_equal(c->n_free, 8); /* pages that are only remembered can be had */
        }
        prefix_cache_free(p);
        kv_cache_free(c);
    }
}

static void a_forced_collision_never_gives_the_wrong_page(void **state) {
    (void)state;
    kv_cache *c = cache_make(4, 64);
    prefix_cache *p;
    must(prefix_cache_create(&p, c, 0, &err)); /* every hash is 0 */
    /* The same second block after different first ones, and the other way round. */
    const int prompts[4][9] = {
        {1, 2, 3, 4, 5, 6, 7, 8, 9}, {4, 3, 2, 1, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 8, 7, 6, 5, 9}, {5, 6, 7, 8, 1, 2, 3, 4, 9}};
    const int want[4] = {0, 0, 4, 0};
    for (int time = 0; time < 2; time++) {
        for (int i = 0; i < 4; i++) {
            kv_sequence *s = sequence_make(c);
            prefix_mark m = {0};
            assert_int_equal(prefix_cache_adopt(p, s, &m, prompts[i], 9), time == 0 ? want[i] : 8);
            assert_reads_back(c, s, prompts[i]);
            must(append(c, s, prompts[i], 9 - s->n_tokens));
            prefix_cache_offer(p, s, &m, prompts[i]);
            kv_sequence_free(s, c);
        }
    }
    assert_true(p->n_collided > 0);
    prefix_cache_free(p);
    kv_cache_free(c);
}

static void the_least_recently_used_pages_are_forgotten_first_and_chains_from_their_end(void **state) {
    (void)state;
    kv_cache *c = cache_make(2, 9);
    prefix_cache *p;
    must(prefix_cache_create(&p, c, UINT64_MAX, &err));
    int ids[3][MAX_TOKENS];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < MAX_TOKENS; i++) ids[k][i] = 100 * k + i;
        kv_sequence *s = sequence_make(c);
        prefix_mark m = {0};
        must(append(c, s, ids[k], 6));
        prefix_cache_offer(p, s, &m, ids[k]);
        kv_sequence_free(s, c);
    }
    /* All nine pages are remembered: 0, 1, 2 in the order of use. Using 0 again makes 1 the oldest. */
    kv_sequence *s = sequence_make(c), *t = sequence_make(c);
    prefix_mark m = {0}, none = {0};
    assert_int_equal(prefix_cache_adopt(p, s, &m, ids[0], 7), 6);
    kv_sequence_truncate(s, 0, c);
    int other[4] = {7, 7, 7, 7};
    must(append(c, t, other, 4)); /* two pages: the end of 1 */
    assert_int_equal(c->n_forgotten, 2);
    m = none;
    assert_int_equal(prefix_cache_adopt(p, s, &m, ids[1], 7), 2);
    kv_sequence_truncate(s, 0, c);
    m = none;
    assert_int_equal(prefix_cache_adopt(p, s, &m, ids[2], 7), 6);
    kv_sequence_truncate(s, 0, c);
    m = none;
    assert_int_equal(prefix_cache_adopt(p, s, &m, ids[0], 7), 6);
    kv_sequence_free(s, c), kv_sequence_free(t, c);
    must(prefix_cache_check(p, &err));
    prefix_cache_free(p);
    kv_cache_free(c);
}

static void a_page_rewritten_after_a_truncation_is_no_longer_known(void **state) {
    (void)state;
    kv_cache *c = cache_make(4, 8);
    prefix_cache *p;
    must(prefix_cache_create(&p, c, UINT64_MAX, &err));
    int a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b[12] = {1, 2, 3, 4, 5, 6, 70, 80, 90};
    kv_sequence *s = sequence_make(c), *t = sequence_make(c);
    prefix_mark m = {0}, n = {0};
    must(append(c, s, a, 8));
    prefix_cache_offer(p, s, &m, a);
    kv_sequence_truncate(s, 6, c);
    must(append(c, s, b, 2));
    m = (prefix_mark){0};
    prefix_cache_offer(p, s, &m, b);
    assert_int_equal(prefix_cache_adopt(p, t, &n, a, 9), 4);
    assert_reads_back(c, t, a);
    kv_sequence_truncate(t, 0, c);
    n = (prefix_mark){0};
    assert_int_equal(prefix_cache_adopt(p, t, &n, b, 9), 8);
    assert_reads_back(c, t, b);
    kv_sequence_free(s, c), kv_sequence_free(t, c);
    prefix_cache_free(p);
    kv_cache_free(c);
}

static void a_pool_that_is_full_says_so_and_changes_nothing(void **state) {
    (void)state;
    kv_cache *c = cache_make(16, 4);
    kv_sequence *s = sequence_make(c);
    int ids[MAX_TOKENS] = {0};
    must(append(c, s, ids, 60));
    assert_int_equal(kv_sequence_reserve(s, 5, c, &err), ERR_LIMIT);
    assert_non_null(strstr(err.message, "1 pages are needed and 0 of 4 are free"));
    must(kv_cache_check(c, &s, 1, &err));
    must(append(c, s, ids, 4));
    kv_sequence_free(s, c);
    kv_cache_free(c);
}

static void the_check_finds_what_is_broken(void **state) {
    (void)state;
    kv_cache *c = cache_make(4, 6);
    kv_sequence *s[2] = {sequence_make(c), sequence_make(c)};
    int ids[MAX_TOKENS] = {0};
    must(append(c, s[0], ids, 6));
    kv_sequence_fork(s[1], s[0], c);
    must(kv_cache_check(c, s, 2, &err));

    assert_int_equal(kv_cache_check(c, s, 1, &err), ERR_MISMATCH); /* a table is missing: a leak */
    c->n_refs[0]--;                                                /* a free too many */
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    c->n_refs[0]++;
    int page = s[1]->pages[1];
    s[1]->pages[1] = 5; /* a page that is free */
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    s[1]->pages[1] = page;
    s[1]->n_tokens = 4; /* a table longer than its tokens need */
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    s[1]->n_tokens = 6;
    c->n_free--; /* a page that is lost */
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    c->n_free++;
    c->content[3] = c->content[4] = 9;
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    c->content[3] = c->content[4] = 0;
    must(kv_cache_check(c, s, 2, &err));
    kv_sequence_commit(s[0], 1, c); /* written without a reservation: into the shared page */
    assert_int_equal(kv_cache_check(c, s, 2, &err), ERR_MISMATCH);
    assert_non_null(strstr(err.message, "others hold too"));
    kv_sequence_free(s[0], c), kv_sequence_free(s[1], c);
    kv_cache_free(c);
}

/* ---- random operations against a plain model ----
 *
 * The plain model knows blocks by what they are: a block is one piece of memory, shared by the sequences that were forked or that found
 * it. It counts them; the cache must hold as many pages, no more and no fewer. */

typedef struct {
    int n_users;
    int tokens[MAX_TOKENS]; /* everything up to the end of this block */
    int n;
} block;

typedef struct {
    kv_sequence *s;
    prefix_mark mark;
    int ids[MAX_TOKENS], n; /* n: in the cache */
    block *blocks[MAX_TOKENS];
    int n_blocks, n_dropped;
} shadow;

typedef struct {
    kv_cache *c;
    prefix_cache *p;
    int page_size, n_live, n_blocks;
    shadow all[MAX_SEQUENCES];
    uint64_t random;
    long long n_appends, n_adopts, n_forks, n_frees, n_truncates, n_full, n_drops, n_found;
} world;

static int draw(world *w, int n) {
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((w->random >> 33) % (unsigned)n);
}

static void block_leave(world *w, block *b) {
    if (--b->n_users > 0) return;
    free(b);
    w->n_blocks--;
}

static block *block_new(world *w) {
    block *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->n_users = 1;
    w->n_blocks++;
    return b;
}

static void shadow_cut(world *w, shadow *x, int n) {
    int keep = (n + w->page_size - 1) / w->page_size;
    while (x->n_blocks > keep) {
        x->n_blocks--;
        if (x->n_blocks >= x->n_dropped) block_leave(w, x->blocks[x->n_blocks]);
    }
    if (x->n_dropped > x->n_blocks) x->n_dropped = x->n_blocks;
    x->n = n;
}

/* Pages that n more tokens take, by the plain model. */
static int shadow_needs(const world *w, const shadow *x, int n) {
    int pages = (x->n + n + w->page_size - 1) / w->page_size - x->n_blocks;
    return pages + (x->n % w->page_size != 0 && x->blocks[x->n_blocks - 1]->n_users > 1);
}

static void shadow_write(world *w, shadow *x, int n) {
    for (int i = 0; i < n; i++, x->n++) {
        if (x->n % w->page_size == 0) x->blocks[x->n_blocks++] = block_new(w);
        block *b = x->blocks[x->n_blocks - 1];
        if (b->n_users > 1) {
            b->n_users--;
            b = x->blocks[x->n_blocks - 1] = block_new(w);
        }
        b->n = x->n + 1;
        memcpy(b->tokens, x->ids, (size_t)b->n * sizeof *b->tokens);
    }
}

/* A block of a live sequence that holds exactly these n tokens, whole. */
static block *shadow_find(const world *w, const int *ids, int n) {
    for (int k = 0; k < w->n_live; k++) {
        const shadow *x = &w->all[k];
        for (int i = x->n_dropped; i < x->n_blocks; i++) {
            block *b = x->blocks[i];
            if (b->n == n && n % w->page_size == 0 && memcmp(b->tokens, ids, (size_t)n * sizeof *ids) == 0) return b;
        }
    }
    return NULL;
}

static void do_admit(world *w) {
    if (w->n_live == MAX_SEQUENCES) return;
    shadow *x = &w->all[w->n_live];
    *x = (shadow){.s = sequence_make(w->c)};
    int n = 1 + draw(w, w->page_size < 16 ? 30 : 60), kind = draw(w, 6); /* few kinds of beginnings, so that prompts meet */
    for (int i = 0; i < MAX_TOKENS; i++) x->ids[i] = i < n - 4 ? kind * (i / 9 % 2) : draw(w, 3);
    int adopted = prefix_cache_adopt(w->p, x->s, &x->mark, x->ids, n);
    assert_true(adopted % w->page_size == 0 && adopted < n);
    assert_reads_back(w->c, x->s, x->ids);
    for (int at = w->page_size; at <= adopted; at += w->page_size) {
        /* The page is one that a live sequence holds, or one that was only remembered: then it is a block again. */
        block *b = NULL;
        for (int k = 0; k < w->n_live && b == NULL; k++) {
            const shadow *y = &w->all[k];
            for (int i = y->n_dropped; i < y->n_blocks; i++) {
                if (y->s->pages[i] == x->s->pages[at / w->page_size - 1]) b = y->blocks[i];
            }
        }
        if (b != NULL) {
            assert_true(b->n == at && memcmp(b->tokens, x->ids, (size_t)at * sizeof *b->tokens) == 0);
            b->n_users++;
        } else {
            b = block_new(w);
            b->n = at;
            memcpy(b->tokens, x->ids, (size_t)at * sizeof *b->tokens);
        }
        x->blocks[x->n_blocks++] = b;
    }
    x->n = adopted;
    w->n_adopts += adopted > 0;
    w->n_live++;
}

static void do_append(world *w, shadow *x) {
    int n = 1 + draw(w, draw(w, 4) == 0 ? 20 : 3);
    if (x->n + n > MAX_TOKENS) return;
    int needed = shadow_needs(w, x, n);
    assert_int_equal(kv_sequence_pages_needed(x->s, n, w->c), needed);
    status st = append(w->c, x->s, x->ids, n);
    assert_int_equal(st, needed <= w->c->n_pages - w->n_blocks ? OK : ERR_LIMIT);
    if (st != OK) {
        w->n_full++;
        return;
    }
    shadow_write(w, x, n);
    if (x->n_dropped == 0) prefix_cache_offer(w->p, x->s, &x->mark, x->ids);
    w->n_appends++;
}

static void do_fork(world *w, const shadow *x) {
    if (w->n_live == MAX_SEQUENCES) return;
    shadow *y = &w->all[w->n_live++];
    *y = *x;
    y->s = sequence_make(w->c);
    kv_sequence_fork(y->s, x->s, w->c);
    for (int i = y->n_dropped; i < y->n_blocks; i++) y->blocks[i]->n_users++;
    for (int i = y->n; i < MAX_TOKENS; i++) y->ids[i] = draw(w, 3);
    w->n_forks++;
}

static void do_free(world *w, shadow *x) {
    shadow_cut(w, x, 0);
    kv_sequence_free(x->s, w->c);
    *x = w->all[--w->n_live];
    w->n_frees++;
}

/* Preemption is the cut to nothing. */
static void do_truncate(world *w, shadow *x) {
    int n = draw(w, 3) == 0 || x->n_dropped > 0 ? 0 : draw(w, x->n + 1);
    shadow_cut(w, x, n);
    kv_sequence_truncate(x->s, n, w->c);
    for (int i = n; i < MAX_TOKENS; i++) x->ids[i] = draw(w, 3);
    x->mark = (prefix_mark){0};
    w->n_truncates++;
}

static void do_drop(world *w, shadow *x) {
    int pos = draw(w, x->n + 1);
    kv_sequence_drop_before(x->s, pos, w->c);
    while ((x->n_dropped + 1) * w->page_size <= pos && x->n_dropped < x->n_blocks) block_leave(w, x->blocks[x->n_dropped++]);
    w->n_drops++;
}

static void assert_as_the_plain_model(world *w) {
    kv_sequence *seqs[MAX_SEQUENCES];
    for (int i = 0; i < w->n_live; i++) {
        seqs[i] = w->all[i].s;
        assert_int_equal(seqs[i]->n_tokens, w->all[i].n);
        assert_reads_back(w->c, seqs[i], w->all[i].ids);
    }
    must(kv_cache_check(w->c, seqs, w->n_live, &err));
    assert_int_equal(w->c->n_pages - w->c->n_free, w->n_blocks);
}

/* What a live sequence holds and has made known is found, as far as its pages were the first with these tokens. */
static void assert_known_blocks_are_found(world *w, const shadow *x) {
    if (x->n_dropped > 0) return;
    int first = 0;
    uint64_t last = 0;
    while (first < x->mark.n_blocks) {
        int page = x->s->pages[first];
        if (w->c->content[page] == 0 || w->p->before[page] != last) break;
        last = w->c->content[page];
        first++;
    }
    kv_sequence *s = sequence_make(w->c);
    prefix_mark m = {0};
    int found = prefix_cache_adopt(w->p, s, &m, x->ids, first * w->page_size + 1);
    assert_int_equal(found, first * w->page_size);
    for (int i = 0; i < first; i++) assert_int_equal(s->pages[i], x->s->pages[i]);
    for (int at = w->page_size; at <= found; at += w->page_size) assert_non_null(shadow_find(w, x->ids, at));
    kv_sequence_free(s, w->c);
    w->n_found += found > 0;
}

static void random_operations(int page_size, int n_pages, uint64_t hash_mask, int n_operations, uint64_t seed) {
    static world w;
    w = (world){.c = cache_make(page_size, n_pages), .page_size = page_size, .random = seed};
    must(prefix_cache_create(&w.p, w.c, hash_mask, &err));
    for (int i = 0; i < n_operations; i++) {
        int op = draw(&w, 100);
        shadow *x = w.n_live > 0 ? &w.all[draw(&w, w.n_live)] : NULL;
        if (x == NULL || op < 16) {
            do_admit(&w);
        } else if (op < 66) {
            do_append(&w, x);
        } else if (op < 76) {
            do_fork(&w, x);
        } else if (op < 86) {
            do_free(&w, x);
        } else if (op < 92) {
            do_truncate(&w, x);
        } else if (op < 94) {
            do_drop(&w, x);
        } else {
            assert_known_blocks_are_found(&w, x);
        }
        assert_as_the_plain_model(&w);
        if (i % 64 == 0) must(prefix_cache_check(w.p, &err));
    }
    assert_true(w.n_appends > n_operations / 8 && w.n_adopts > n_operations / 200 && w.n_forks > n_operations / 40);
    assert_true(w.n_frees > n_operations / 40 && w.n_truncates > n_operations / 40 && w.n_drops > n_operations / 100);
    assert_true(w.n_full > n_operations / 200 && (page_size == 1 || w.c->n_copies > n_operations / 100) &&
                w.c->n_forgotten > n_operations / 100);
    assert_true(w.n_found > n_operations / 200);
    while (w.n_live > 0) do_free(&w, &w.all[0]);
    assert_int_equal(w.n_blocks, 0);
    assert_int_equal(w.c->n_free, n_pages);
    must(kv_cache_check(w.c, NULL, 0, &err));
    must(prefix_cache_check(w.p, &err));
    prefix_cache_free(w.p);
    kv_cache_free(w.c);
}

static void a_hundred_thousand_random_operations_agree_with_a_plain_model(void **state) {
    (void)state;
    random_operations(4, 30, UINT64_MAX, 40000, 1);
    random_operations(1, 80, UINT64_MAX, 20000, 2);
    random_operations(16, 12, UINT64_MAX, 20000, 3);
    random_operations(4, 30, 3, 20000, 4); /* four hashes for everything */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_copies_its_last_page_only_and_every_order_of_freeing_gives_all_pages_back),
        cmocka_unit_test(a_page_may_stand_in_more_tables_than_there_are_pages),
        cmocka_unit_test(used_allocated_and_wasted_bytes_are_exact),
        cmocka_unit_test(a_prompt_wholly_in_the_cache_leaves_its_last_page_to_compute_twice_over),
        cmocka_unit_test(a_forced_collision_never_gives_the_wrong_page),
        cmocka_unit_test(the_least_recently_used_pages_are_forgotten_first_and_chains_from_their_end),
        cmocka_unit_test(a_page_rewritten_after_a_truncation_is_no_longer_known),
        cmocka_unit_test(a_pool_that_is_full_says_so_and_changes_nothing),
        cmocka_unit_test(the_check_finds_what_is_broken),
        cmocka_unit_test(a_hundred_thousand_random_operations_agree_with_a_plain_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
