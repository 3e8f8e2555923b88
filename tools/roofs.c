#include "tools/roofs.h"

#include <string.h>

#include "tools/quantity.h"

/* Which terms make an operator's FLOPs and bytes, and which clocks its time. */
static const struct {
    const char *name;
    term terms[12];
    int n_terms;
    step_op ops[3];
    int n_ops;
} operators[N_ROOF_OPS] = {
    [ROOF_QKV] = {"q, k and v", {TERM_FLOPS_Q, TERM_FLOPS_KV, TERM_BYTES_Q, TERM_BYTES_KV}, 4, {OP_QKV}, 1},
    [ROOF_ATTENTION] = {"attention",
                        {TERM_FLOPS_SCORES, TERM_FLOPS_VALUES, TERM_FLOPS_SOFTMAX, TERM_FLOPS_MERGE, TERM_BYTES_KV_CACHED,
                         TERM_BYTES_KV_OWN, TERM_BYTES_PAGE_TABLE},
                        7,
                        {OP_ATTENTION},
                        1},
    [ROOF_OUTPUT] = {"output", {TERM_FLOPS_O, TERM_BYTES_O}, 2, {OP_OUTPUT}, 1},
    [ROOF_FFN] = {"feed-forward", {TERM_FLOPS_FFN, TERM_FLOPS_ACTIVATION, TERM_BYTES_FFN}, 3, {OP_FFN}, 1},
    [ROOF_HEAD] = {"head", {TERM_FLOPS_HEAD, TERM_BYTES_HEAD, TERM_BYTES_LOGITS}, 3, {OP_HEAD}, 1},
    [ROOF_OTHER] = {"norms, positions, K and V written",
                    {TERM_FLOPS_BIAS, TERM_FLOPS_NORM, TERM_FLOPS_POSITION, TERM_FLOPS_RESIDUAL, TERM_FLOPS_MULTIPLIER,
                     TERM_FLOPS_QUANTISE, TERM_BYTES_BIAS, TERM_BYTES_NORM, TERM_BYTES_EMBEDDING, TERM_BYTES_POSITION,
                     TERM_BYTES_KV_WRITTEN},
                    11,
                    {OP_EMBED, OP_NORM, OP_KV_WRITE},
                    3},
};

static bool is_flops(term t) {
    term_class c = term_table[t].class_;
    return c == CLASS_MATMUL || c == CLASS_ATTENTION || c == CLASS_OTHER;
}

static roof_row row_of(roof_op op, const ledger_entry *s) {
    roof_row r = {.name = operators[op].name};
    for (int i = 0; i < operators[op].n_terms; i++) {
        term t = operators[op].terms[i];
        *(is_flops(t) ? &r.flops : &r.bytes) += (double)s->counted.n[t];
    }
    for (int i = 0; i < operators[op].n_ops; i++) r.seconds += s->op_seconds[operators[op].ops[i]];
    return r;
}

roof_setting roof_setting_of(const session *s, const session_options *o, int n_threads) {
    bool int8_weights = engine_storage(s->engine)->layers[0][MATRIX_Q].type == DTYPE_Q8_0;
    return (roof_setting){.isa = engine_isa(s->engine),
                          .n_threads = n_threads,
                          .int8_products = int8_weights && o->activations == 0 && o->matmul == 0};
}

const machine_probe *roof_product_peak(const machine *m, const roof_setting *on) {
    bool vnni = strcmp(on->isa, "avx512") == 0; /* the set uses VNNI where it is there, and the probe is named after it */
    const machine_probe *int8 = machine_find(m, "int8", vnni ? "avx512_vnni" : on->isa, on->n_threads);
    return on->int8_products && int8 != NULL ? int8 : machine_find(m, "fma", on->isa, on->n_threads);
}

bool roofs_compute(roofs *out, const ledger_entry *s, const machine *m, const roof_setting *on) {
    *out = (roofs){.measured = s->seconds};
    if (s->n_steps == 0) return false;
    double bytes = 0, products = 0, timed = 0, arithmetic = 0;
    for (int i = 0; i < N_ROOF_OPS; i++) {
        out->rows[i] = row_of((roof_op)i, s);
        bytes += out->rows[i].bytes;
        timed += out->rows[i].seconds;
    }
    out->working_set = bytes / s->n_steps;
    out->read = machine_read_of(m, out->working_set, on->n_threads);
    out->peak = machine_find(m, "fma", on->isa, on->n_threads);
    const machine_probe *product_peak = roof_product_peak(m, on);
    out->int8_peak = product_peak != out->peak ? product_peak : NULL;
    if (out->read == NULL || out->peak == NULL) return false;
    for (int i = 0; i < N_ROOF_OPS; i++) {
        roof_row *r = &out->rows[i];
        bool product = i != ROOF_ATTENTION && i != ROOF_OTHER;
        double peak = product && out->int8_peak != NULL ? out->int8_peak->median : out->peak->median;
        double compute = r->flops / peak, read = r->bytes / out->read->median;
        r->roof = compute > read ? compute : read;
        out->per_operator += r->roof;
        arithmetic += compute;
        if (product || i == ROOF_ATTENTION) products += compute;
    }
    double reading = bytes / out->read->median;
    out->overlapped = arithmetic > reading ? arithmetic : reading;
    out->serial = arithmetic + reading;
    out->overhead = s->seconds - timed;
    out->mbu = reading / s->seconds;
    out->mfu = products / s->seconds;
    return true;
}

static void print_probe(FILE *out, const char *symbol, const machine_probe *p, unit u) {
    fprintf(out, "%s %s (%s %s, %d %s%s)", symbol, format_rounded(p->median, u, UNITS_DECIMAL).text, p->kind, p->what,
            p->n_threads, p->n_threads == 1 ? "thread" : "threads", machine_calibrated(p) ? "" : ", uncalibrated");
    if (!machine_calibrated(p)) fprintf(out, " spread %.0f%%", 100 * machine_spread(p));
}

static void print_time(FILE *out, const char *words, double seconds, double measured) {
    fprintf(out, "    %-34s %12s", words, format_rounded(seconds, UNIT_SECONDS, UNITS_DECIMAL).text);
    if (seconds > 0 && measured > 0) fprintf(out, "   measured is %.2f x", measured / seconds);
    fputc('\n', out);
}

void roofs_print(const roofs *r, const ledger_entry *s, FILE *out) {
    fprintf(out, "  a step goes through %s, which sit in %s\n    ",
            format_rounded(r->working_set, UNIT_BYTES, UNITS_DECIMAL).text, r->read->what);
    print_probe(out, "beta", r->read, UNIT_BYTES_PER_SECOND);
    print_probe(out, ", pi", r->peak, UNIT_FLOPS_PER_SECOND);
    if (r->int8_peak != NULL) print_probe(out, ", int8", r->int8_peak, UNIT_FLOPS_PER_SECOND);
    fprintf(out, "\n    %-34s %12s %12s %12s %14s\n", "operator", "measured", "roof", "bytes/s", "FLOP/s");
    for (int i = 0; i < N_ROOF_OPS; i++) {
        const roof_row *o = &r->rows[i];
        fprintf(out, "    %-34s %12s", o->name, format_rounded(o->seconds, UNIT_SECONDS, UNITS_DECIMAL).text);
        fprintf(out, " %12s", format_rounded(o->roof, UNIT_SECONDS, UNITS_DECIMAL).text);
        double t = o->seconds > 0 ? o->seconds : 1;
        fprintf(out, " %12s", format_rounded(o->bytes / t, UNIT_BYTES_PER_SECOND, UNITS_DECIMAL).text);
        fprintf(out, " %14s\n", format_rounded(o->flops / t, UNIT_FLOPS_PER_SECOND, UNITS_DECIMAL).text);
    }
    print_time(out, "outside the operators (fixed)", r->overhead, 0);
    print_time(out, "roof, overlapped", r->overlapped, r->measured);
    print_time(out, "roof, per operator", r->per_operator, r->measured);
    print_time(out, "roof, serial", r->serial, r->measured);
    fprintf(out, "    MBU %.1f%%, MFU %.1f%%, overhead %s a step\n", 100 * r->mbu, 100 * r->mfu,
            format_rounded(r->overhead / s->n_steps, UNIT_SECONDS, UNITS_DECIMAL).text);
}

json_t *roofs_json(const roofs *r) {
    json_t *ops = json_array();
    for (int i = 0; i < N_ROOF_OPS; i++) {
        const roof_row *o = &r->rows[i];
        json_array_append_new(ops, json_pack("{s:s, s:f, s:f, s:f, s:f}", "operator", o->name, "flops", o->flops, "bytes",
                                             o->bytes, "seconds", o->seconds, "roof_seconds", o->roof));
    }
    return json_pack("{s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "working_set_bytes", r->working_set,
                     "level", r->read->what, "beta", r->read->median, "pi", r->peak->median, "overlapped_seconds",
                     r->overlapped, "per_operator_seconds", r->per_operator, "serial_seconds", r->serial, "measured_seconds",
                     r->measured, "overhead_seconds", r->overhead, "mbu", r->mbu, "mfu", r->mfu, "operators", ops);
}
