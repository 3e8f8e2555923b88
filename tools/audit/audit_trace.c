/* audit_trace - lays what valgrind saw beside what Tally counted, array by array.
 *
 *   valgrind --tool=lackey --trace-mem=yes audit_run trace CASE MAP  |  audit_trace MAP [arrays|pages|products|counts]
 *
 * Reads the trace of every memory access from standard input, finds the watched pass by its marks (marks.h), and counts the bytes that were
 * loaded from (stored to) each array of MAP: all loads, and different bytes. Different bytes are told apart once a pass for weights, and
 * once a reading for K, V and page tables, which a pass may stream several times. Prints rows of a Markdown table; with `arrays` (`pages`), one row
 * an array (a page of the cache); with `products`, the multiply-adds that the loads of fp32 weights were for; with `counts`, what was
 * counted, and no trace is read. Exit status 1 where different bytes and counted bytes are not equal. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/terms.h"
#include "tools/audit/marks.h"

typedef struct {
    uint64_t start, bytes;
    term t;
    char name[64];
    uint32_t *loaded, *stored; /* [bytes]: the period in which each byte was last seen; 0: never */
    uint64_t n_loaded, n_different, n_different_stored;
} array;

enum { MOST_ARRAYS = 512 };
static struct {
    array arrays[MOST_ARRAYS];
    int n_arrays;
    bool watching;
    uint32_t pass, reading; /* periods, from 1 */
    uint64_t n_loaded;      /* everywhere */
    uint64_t counted[N_TERMS], explained[N_TERMS];
} audit;

static void fail(const char *what) {
    fprintf(stderr, "tally: audit: %s\n", what);
    exit(1);
}

static term term_find(const char *key) {
    for (int i = 0; i < N_TERMS; i++)
        if (strcmp(term_table[i].key, key) == 0) return (term)i;
    fail("the map names a term that there is not");
    return 0;
}

static void array_add(const char *key, const char *name, uint64_t start, uint64_t bytes) {
    if (audit.n_arrays == MOST_ARRAYS) fail("too many arrays");
    array *a = &audit.arrays[audit.n_arrays++];
    *a = (array){.start = start, .bytes = bytes, .t = term_find(key)};
    snprintf(a->name, sizeof a->name, "%s", name);
    a->loaded = calloc(bytes, sizeof *a->loaded), a->stored = calloc(bytes, sizeof *a->stored);
    if (a->loaded == NULL || a->stored == NULL) fail("no memory");
}

static int by_start(const void *a, const void *b) {
    uint64_t x = ((const array *)a)->start, y = ((const array *)b)->start;
    return x < y ? -1 : x > y;
}

/* arrays: the addresses, before the pass; else what was counted, after it. */
static void map_read(const char *path, bool arrays) {
    FILE *f = fopen(path, "r");
    char line[256], key[32], name[64], term_key[32];
    unsigned long long start, bytes;
    if (f == NULL) fail("cannot read the map");
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "counted %31s %llu", term_key, &bytes) == 2)
            audit.counted[term_find(term_key)] = bytes;
        else if (sscanf(line, "explained %31s %llu", term_key, &bytes) == 2)
            audit.explained[term_find(term_key)] += bytes;
        else if (arrays && sscanf(line, "%31s %llx %llu %63s", key, &start, &bytes, name) == 4)
            array_add(key, name, start, bytes);
    }
    fclose(f);
    qsort(audit.arrays, (size_t)audit.n_arrays, sizeof *audit.arrays, by_start);
}

/* The first array that ends behind addr. */
static array *array_at(uint64_t addr) {
    int low = 0, high = audit.n_arrays;
    while (low < high) {
        int mid = (low + high) / 2;
        if (audit.arrays[mid].start + audit.arrays[mid].bytes <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low < audit.n_arrays ? &audit.arrays[low] : NULL;
}

static void see(uint64_t addr, uint64_t n, bool store) {
    if (!store) audit.n_loaded += n;
    array *a = array_at(addr);
    for (uint64_t end = addr + n; addr < end && a != NULL; addr++) {
        if (addr >= a->start + a->bytes) a = array_at(addr);
        if (a == NULL || addr < a->start) continue;
        bool streamed = term_table[a->t].class_ == CLASS_KV_BYTES;
        uint32_t now = streamed && !store ? audit.reading : audit.pass;
        uint32_t *seen = &(store ? a->stored : a->loaded)[addr - a->start];
        *(store ? &a->n_different_stored : &a->n_different) += *seen != now;
        a->n_loaded += !store;
        *seen = now;
    }
}

static void at_mark(uint64_t m, const char *path) {
    if (m == MARK_MAP && audit.n_arrays == 0) map_read(path, true);
    if (m == MARK_BEGIN && audit.n_arrays > 0) audit.watching = true, audit.pass++, audit.reading++;
    if (m == MARK_TASK) audit.reading++;
    if (m == MARK_END) audit.watching = false;
}

/* " L 1ffeffe7e8,8": a load; S a store; M both; instructions start in the first column. */
static void trace_read(const char *path) {
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (line[0] != ' ' || line[2] != ' ') continue;
        char *rest;
        uint64_t addr = strtoull(line + 3, &rest, 16), n = *rest == ',' ? strtoull(rest + 1, NULL, 10) : 0;
        if (addr >= AUDIT_MARKS && addr < AUDIT_MARKS + 4096) {
            at_mark((addr - AUDIT_MARKS) / 64, path);
        } else if (audit.watching) {
            if (line[1] == 'L' || line[1] == 'M') see(addr, n, false);
            if (line[1] == 'S' || line[1] == 'M') see(addr, n, true);
        }
    }
}

static void print_number(uint64_t n) {
    if (n >= 1000) {
        print_number(n / 1000);
        printf(",%03d", (int)(n % 1000));
    } else {
        printf("%d", (int)n);
    }
}

static void print_cell(uint64_t n) {
    printf(" ");
    print_number(n);
    printf(" |");
}

static bool print_row(term t, uint64_t different, uint64_t loaded) {
    uint64_t counted = audit.counted[t], explained = audit.explained[t];
    bool equal = different + explained == counted;
    printf("| %s |", term_table[t].words);
    print_cell(counted);
    print_cell(different);
    if (explained > 0)
        print_cell(explained);
    else
        printf(" |");
    printf(equal ? " = |" : " **differs** |");
    if (loaded > 0) {
        print_cell(loaded);
        printf(" %.2f |\n", (double)loaded / (double)counted);
    } else {
        printf(" | |\n");
    }
    return equal;
}

/* One row a term: what was written is in the arrays of what is read. */
static bool print_terms(void) {
    bool equal = true;
    uint64_t in_arrays = 0;
    for (int t = 0; t < N_TERMS; t++) {
        uint64_t loaded = 0, different = 0;
        for (int i = 0; i < audit.n_arrays; i++) {
            const array *a = &audit.arrays[i];
            bool page = a->t == TERM_BYTES_KV_CACHED || a->t == TERM_BYTES_KV_OWN;
            if (t == TERM_BYTES_KV_WRITTEN && page) different += a->n_different_stored;
            if (t == TERM_BYTES_LOGITS && a->t == TERM_BYTES_LOGITS) different += a->n_different_stored;
            if ((int)a->t == t && t != TERM_BYTES_LOGITS) different += a->n_different, loaded += a->n_loaded;
        }
        if (term_table[t].class_ < CLASS_WEIGHT_BYTES || term_table[t].class_ > CLASS_LOGIT_BYTES) continue;
        if (audit.counted[t] == 0 && different == 0) continue;
        in_arrays += loaded;
        equal = print_row((term)t, different, loaded) && equal;
    }
    printf("| all else: activations, stack, libraries | | | | |");
    print_cell(audit.n_loaded - in_arrays);
    printf(" |\n");
    return equal;
}

static void print_arrays(bool pages) {
    for (int i = 0; i < audit.n_arrays; i++) {
        const array *a = &audit.arrays[i];
        if (pages != (a->t == TERM_BYTES_KV_CACHED || a->t == TERM_BYTES_KV_OWN)) continue;
        printf("| %s |", a->name);
        print_cell(a->bytes);
        print_cell(a->n_different);
        print_cell(a->n_loaded);
        print_cell(a->n_different_stored);
        printf("\n");
    }
}

/* Where a product takes fp32 weights as they lie, one row of activations at a time, every multiply-add loads its weight. */
static void print_products(void) {
    static const term pairs[][2] = {{TERM_FLOPS_Q, TERM_BYTES_Q},
                                    {TERM_FLOPS_KV, TERM_BYTES_KV},
                                    {TERM_FLOPS_O, TERM_BYTES_O},
                                    {TERM_FLOPS_FFN, TERM_BYTES_FFN},
                                    {TERM_FLOPS_HEAD, TERM_BYTES_HEAD}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        uint64_t loaded = 0;
        for (int i = 0; i < audit.n_arrays; i++)
            if (audit.arrays[i].t == pairs[p][1]) loaded += audit.arrays[i].n_loaded;
        printf("| %s |", term_table[pairs[p][0]].words);
        print_cell(audit.counted[pairs[p][0]]);
        print_cell(loaded);
        print_cell(2 * (loaded / sizeof(float)));
        printf("\n");
    }
}

/* The first two cells of print_terms, for a test that docs/audit.md is not out of date. */
static void print_counts(void) {
    for (int t = 0; t < N_TERMS; t++) {
        if (term_table[t].class_ < CLASS_WEIGHT_BYTES || term_table[t].class_ > CLASS_LOGIT_BYTES || audit.counted[t] == 0)
            continue;
        printf("| %s |", term_table[t].words);
        print_cell(audit.counted[t]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    if (argc < 2) fail("usage: audit_trace MAP [arrays|pages|products|counts]");
    if (argc > 2 && strcmp(argv[2], "counts") == 0) {
        map_read(argv[1], false);
        print_counts();
        return 0;
    }
    trace_read(argv[1]);
    if (audit.n_arrays == 0 || audit.watching) fail("the trace has no marked pass");
    map_read(argv[1], false);
    if (argc > 2 && (strcmp(argv[2], "pages") == 0 || strcmp(argv[2], "arrays") == 0)) {
        print_arrays(strcmp(argv[2], "pages") == 0);
    } else if (argc > 2) {
        print_products();
    } else {
        return print_terms() ? 0 : 1;
    }
    return 0;
}
