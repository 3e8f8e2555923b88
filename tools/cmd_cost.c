/* tally cost: what a model will cost, before it runs. The options are in cost_request.c. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/commands.h"
#include "tools/cost_request.h"
#include "tools/presets.h"
#include "tools/show.h"
#include "tools/sweep.h"

static void print_presets(void) {
    for (const embedded_file *f = preset_files; f->name != NULL; f++) {
        model_config c;
        error e;
        if (preset_load(&c, f->name, &e) != OK) continue;
        printf("%-18s %18s parameters\n", f->name, format_exact(config_params(&c).total).text);
    }
}

static int print_answers(cost_request *request) {
    report r;
    error e;
    report_init(&r, request->question.units);
    int rc = 0;
    if (cost_request_answer(&r, request, &e) != OK) {
        rc = tool_fail(&e);
    } else if (request->json) {
        json_t *o = report_json(&r);
        rc = show_json(o);
        json_decref(o);
    } else {
        report_print(&r, stdout);
    }
    report_free(&r);
    return rc;
}

static int print_sweep(const cost_request *request) {
    const question *q = &request->question;
    error e;
    sweep *s = malloc(sizeof *s);
    if (s == NULL) return tool_fail(&(error){ERR_MEMORY, "no memory for a sweep"});
    int rc = 0;
    if (sweep_run(s, q, request->sweep, &e) != OK) {
        rc = tool_fail(&e);
    } else if (request->json) {
        json_t *o = sweep_json(s);
        rc = show_json(o);
        json_decref(o);
    } else if (request->csv) {
        sweep_csv(s, stdout);
    } else {
        sweep_print(s, q->units, stdout);
    }
    if (rc == 0 && request->plot != NULL && sweep_plot(s, q->name, request->plot, &e) != OK) rc = tool_fail(&e);
    free(s);
    return rc;
}

int cmd_cost(int argc, char **argv) {
    cost_request r;
    error e;
    int rc = cost_request_parse(&r, argc, argv);
    if (rc >= 0) return rc;
    if (r.presets) {
        print_presets();
        return 0;
    }
    if (cost_request_load(&r, &e) != OK) return tool_fail(&e);
    return r.sweep != NULL ? print_sweep(&r) : print_answers(&r);
}
