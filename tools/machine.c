#include "tools/machine.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/processors.h"
#include "tools/machine_private.h"

/* What follows "model name" in /proc/cpuinfo; "unknown" where there is none. */
static void read_cpu_name(char *out, size_t size) {
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (f == NULL) return;
    char line[512];
    while (fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, "model name", 10) != 0) continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(f);
}

static size_t cache_size(int name, size_t otherwise) {
    long n = sysconf(name);
    return n > 0 ? (size_t)n : otherwise;
}

static void identify(machine *m) {
    memset(m, 0, sizeof *m);
    read_cpu_name(m->cpu, sizeof m->cpu);
    m->n_threads = processors_usable();
    m->l1 = cache_size(_SC_LEVEL1_DCACHE_SIZE, (size_t)32 << 10);
    m->l2 = cache_size(_SC_LEVEL2_CACHE_SIZE, (size_t)512 << 10);
    m->l3 = cache_size(_SC_LEVEL3_CACHE_SIZE, 0);
}

/* Folder of the cache file; false where there is no home. */
static bool cache_folder(char *out, size_t size) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (xdg != NULL && xdg[0] == '/') {
        n = snprintf(out, size, "%s/tally", xdg);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(out, size, "%s/.cache/tally", home);
    }
    return n > 0 && (size_t)n < size;
}

/* machine-PROCESSOR-THREADS.json, the name's odd characters as dashes. */
static bool cache_path(char *out, size_t size, const machine *m) {
    char folder[2048], cpu[sizeof m->cpu];
    if (!cache_folder(folder, sizeof folder)) return false;
    size_t n = strlen(m->cpu);
    for (size_t i = 0; i <= n; i++) cpu[i] = m->cpu[i] == '\0' || isalnum((unsigned char)m->cpu[i]) ? m->cpu[i] : '-';
    int length = snprintf(out, size, "%s/machine-%s-%d.json", folder, cpu, m->n_threads);
    return length > 0 && (size_t)length < size;
}

static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
}

/* Written beside and renamed, so that a reader never sees half a file. */
void machine_keep(const machine *m) {
    char path[4096], part[4200];
    if (!cache_path(path, sizeof path, m)) return;
    make_folders(path);
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    json_t *o = machine_json(m);
    bool written = o != NULL && json_dump_file(o, part, JSON_INDENT(2)) == 0 && rename(part, path) == 0;
    if (!written) remove(part);
    json_decref(o);
}

status machine_cached(machine *out, error *e) {
    machine here;
    char path[4096];
    json_error_t where;
    identify(&here);
    memset(out, 0, sizeof *out);
    if (!cache_path(path, sizeof path, &here)) return error_set(e, ERR_IO, "there is no folder for measurements (set HOME)");
    json_t *o = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (o == NULL) return error_set(e, ERR_IO, "%s: %s (tally machine measures)", path, where.text);
    status s = machine_from_json(out, o, e);
    json_decref(o);
    if (s == OK && (strcmp(out->cpu, here.cpu) != 0 || out->n_threads != here.n_threads)) {
        s = error_set(e, ERR_MISMATCH, "is of another machine (tally machine --refresh)");
    }
    if (s != OK) {
        memset(out, 0, sizeof *out);
        return error_prefix(e, path);
    }
    out->cached = true;
    return OK;
}

status machine_measure(machine *out, bool quick, void (*progress)(int round, int n_rounds), error *e) {
    identify(out);
    time_t t = time(NULL);
    struct tm utc;
    if (gmtime_r(&t, &utc) != NULL) strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    status s = machine_probe_all(out, quick, progress, e);
    if (s != OK) memset(out, 0, sizeof *out);
    return s;
}

status machine_load(machine *out, error *e) {
    if (machine_cached(out, NULL) == OK) return OK;
    status s = machine_measure(out, false, NULL, e);
    if (s == OK) machine_keep(out);
    return s;
}

double machine_spread(const machine_probe *p) {
    return p->median > 0 ? (p->high - p->low) / p->median : INFINITY;
}

bool machine_calibrated(const machine_probe *p) {
    return machine_spread(p) <= MACHINE_SPREAD;
}

const machine_probe *machine_find(const machine *m, const char *kind, const char *what, int n_threads) {
    const machine_probe *best = NULL;
    for (size_t i = 0; i < m->n; i++) {
        const machine_probe *p = &m->probes[i];
        if (strcmp(p->kind, kind) != 0 || (what != NULL && strcmp(p->what, what) != 0)) continue;
        int far = abs(p->n_threads - n_threads), near = best == NULL ? 0 : abs(best->n_threads - n_threads);
        if (best == NULL || far < near || (far == near && p->median > best->median)) best = p;
    }
    return best;
}

const machine_probe *machine_read_of(const machine *m, double bytes, int n_threads) {
    const char *level = "memory";
    if (bytes <= (double)m->l3) level = "L3";
    if (bytes <= (double)m->l2 * n_threads) level = "L2";
    if (bytes <= (double)m->l1 * n_threads) level = "L1";
    const machine_probe *p = machine_find(m, "read", level, n_threads);
    return p != NULL ? p : machine_find(m, "read", "memory", n_threads);
}
