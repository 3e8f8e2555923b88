/* A machine as JSON: what `tally machine --json` prints and what the cache file holds. */
#include <math.h>
#include <string.h>

#include "tools/machine.h"
#include "tools/probe.h"

static json_t *probe_json(const machine_probe *p) {
    return json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:b}", "kind", p->kind, "what", p->what, "n_threads",
                     p->n_threads, "bytes", (json_int_t)p->bytes, "median", p->median, "low", p->low, "high", p->high, "spread",
                     machine_spread(p), "calibrated", machine_calibrated(p));
}

json_t *machine_json(const machine *m) {
    json_t *probes = json_array();
    for (size_t i = 0; i < m->n; i++) json_array_append_new(probes, probe_json(&m->probes[i]));
    return json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:I, s:o}", "version", PROBE_VERSION, "cpu", m->cpu, "n_threads",
                     m->n_threads, "date", m->date, "l1_bytes", (json_int_t)m->l1, "l2_bytes", (json_int_t)m->l2, "l3_bytes",
                     (json_int_t)m->l3, "probes", probes);
}

static status probe_from_json(machine_probe *p, const json_t *o, error *e) {
    const char *kind, *what;
    json_int_t bytes;
    int n_threads;
    double median, low, high;
    if (json_unpack((json_t *)o, "{s:s, s:s, s:i, s:I, s:F, s:F, s:F}", "kind", &kind, "what", &what, "n_threads", &n_threads,
                    "bytes", &bytes, "median", &median, "low", &low, "high", &high) != 0 ||
        strlen(kind) >= sizeof p->kind || strlen(what) >= sizeof p->what || n_threads < 1 || bytes < 0 || !(low > 0) ||
        low > median || median > high || !isfinite(high)) {
        return error_set(e, ERR_FORMAT, "a probe is malformed (tally machine --refresh)");
    }
    *p = (machine_probe){.n_threads = n_threads, .bytes = (size_t)bytes, .median = median, .low = low, .high = high};
    memcpy(p->kind, kind, strlen(kind) + 1);
    memcpy(p->what, what, strlen(what) + 1);
    return OK;
}

status machine_from_json(machine *m, const json_t *o, error *e) {
    const char *cpu, *date;
    json_int_t l1, l2, l3;
    json_t *probes;
    int version;
    memset(m, 0, sizeof *m);
    if (json_unpack((json_t *)o, "{s:i, s:s, s:i, s:s, s:I, s:I, s:I, s:o}", "version", &version, "cpu", &cpu, "n_threads",
                    &m->n_threads, "date", &date, "l1_bytes", &l1, "l2_bytes", &l2, "l3_bytes", &l3, "probes", &probes) != 0 ||
        version != PROBE_VERSION || strlen(cpu) >= sizeof m->cpu || strlen(date) >= sizeof m->date || m->n_threads < 1 ||
        l1 < 0 || l2 < 0 || l3 < 0 || !json_is_array(probes) || json_array_size(probes) == 0 ||
        json_array_size(probes) > MACHINE_MAX_PROBES) {
        return error_set(e, ERR_FORMAT, "is no measurement of a machine (tally machine --refresh)");
    }
    memcpy(m->cpu, cpu, strlen(cpu) + 1);
    memcpy(m->date, date, strlen(date) + 1);
    m->l1 = (size_t)l1, m->l2 = (size_t)l2, m->l3 = (size_t)l3;
    for (size_t i = 0; i < json_array_size(probes); i++) {
        status s = probe_from_json(&m->probes[m->n++], json_array_get(probes, i), e);
        if (s != OK) return s;
    }
    return OK;
}
