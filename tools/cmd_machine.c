/* tally machine: what this machine reads and computes, measured; the batch at which the two take as long. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/quantity.h"
#include "tools/show.h"

static void show_progress(int round, int n_rounds) {
    fprintf(stderr, "\rmeasuring: round %d of %d%s", round, n_rounds, round == n_rounds ? "\r\033[K" : "");
    fflush(stderr);
}

static void print_probes(const machine *m, const char *kind, const char *title, unit u) {
    printf("\n%s\n", title);
    for (size_t i = 0; i < m->n; i++) {
        const machine_probe *p = &m->probes[i];
        if (strcmp(p->kind, kind) != 0) continue;
        char size[80] = "";
        if (p->bytes > 0) snprintf(size, sizeof size, " (%s)", format_rounded((double)p->bytes, UNIT_BYTES, UNITS_BINARY).text);
        printf("  %-12s %3d thread%s %16s  spread %4.1f%%%s%s\n", p->what, p->n_threads, p->n_threads == 1 ? " " : "s",
               format_rounded(p->median, u, UNITS_DECIMAL).text, 100 * machine_spread(p),
               machine_calibrated(p) ? "" : "  uncalibrated", size);
    }
}

/* b flops / (2 bandwidth): users whose arithmetic takes as long as one reading of the weights. */
static const struct {
    const char *name;
    double bytes; /* of a weight, scale included */
    const char *kind;
} storages[] = {{"f32", 4, "fma"}, {"f16", 2, "fma"}, {"int8", 34.0 / 32, "int8"}};

static double crossover(const machine *m, size_t i) {
    const machine_probe *compute = machine_find(m, storages[i].kind, NULL, m->n_threads);
    const machine_probe *read = machine_find(m, "read", "memory", m->n_threads);
    if (compute == NULL || read == NULL) return 0;
    return storages[i].bytes * compute->median / (2 * read->median);
}

static void print_crossovers(const machine *m) {
    printf("\ncrossover batch, %d threads, weights from memory: bytes of a weight × operations/s / (2 × bytes/s)\n",
           m->n_threads);
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        const machine_probe *compute = machine_find(m, storages[i].kind, NULL, m->n_threads);
        const machine_probe *read = machine_find(m, "read", "memory", m->n_threads);
        if (compute == NULL || read == NULL) continue;
        printf("  %-5s %s × %.4g / (2 × %.4g) = %.1f users (%s, %s)\n", storages[i].name, format_input(storages[i].bytes).text,
               compute->median, read->median, crossover(m, i), compute->kind, compute->what);
    }
}

static void print_machine(const machine *m) {
    printf("%s, %d processor%s; data caches: L1 %s, L2 %s", m->cpu, m->n_threads, m->n_threads == 1 ? "" : "s",
           format_rounded((double)m->l1, UNIT_BYTES, UNITS_BINARY).text,
           format_rounded((double)m->l2, UNIT_BYTES, UNITS_BINARY).text);
    if (m->l3 > 0) printf(", L3 %s", format_rounded((double)m->l3, UNIT_BYTES, UNITS_BINARY).text);
    printf("\nmeasured %s%s; medians of interleaved rounds, spread = (highest - lowest) / median\n", m->date,
           m->cached ? " (kept; --refresh measures again)" : "");
    print_probes(m, "read", "reading", UNIT_BYTES_PER_SECOND);
    print_probes(m, "fma", "fp32 multiply and add, 2 a multiply-add", UNIT_FLOPS_PER_SECOND);
    print_probes(m, "int8", "int8 dot products, 2 operations a multiply-add", UNIT_OPERATIONS_PER_SECOND);
    print_probes(m, "sgemm", "fp32 matrix product, OpenBLAS", UNIT_FLOPS_PER_SECOND);
    print_crossovers(m);
}

static int print_json(const machine *m) {
    json_t *o = machine_json(m), *crossovers = json_object();
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        double x = crossover(m, i);
        json_object_set_new(crossovers, storages[i].name, x > 0 ? json_real(x) : json_null());
    }
    json_object_set_new(o, "crossover", crossovers);
    json_object_set_new(o, "cached", json_boolean(m->cached));
    int rc = show_json(o);
    json_decref(o);
    return rc;
}

int cmd_machine(int argc, char **argv) {
    bool refresh = false, quick = false, json = false;
    const option options[] = {
        {"refresh", 0, OPTION_FLAG, &refresh, NULL, "measure again", 0, 0},
        {"quick", 0, OPTION_FLAG, &quick, NULL, "a rough look in a second; not kept", 0, 0},
        OPTION_JSON(&json),
    };
    const command help = {
        "machine",
        "[options]",
        "Measures what this machine reads and computes (some seconds; kept for the next time), and prints the batch "
        "at which arithmetic takes as long as reading the weights. Close other programs first.",
        "tally machine --refresh",
        options,
        sizeof options / sizeof *options};
    int rc = options_parse(&help, argc, argv, NULL);
    if (rc >= 0) return rc;
    machine m;
    error e;
    if (refresh || quick || machine_cached(&m, &e) != OK) {
        if (machine_measure(&m, quick, isatty(STDERR_FILENO) ? show_progress : NULL, &e) != OK) return tool_fail(&e);
        if (!quick) machine_keep(&m);
    }
    if (json) return print_json(&m);
    print_machine(&m);
    return 0;
}
