/* tally cost: what a model will cost, before it runs. */
#include "tools/commands.h"
#include "tools/formula.h"
#include "tools/options.h"
#include "tools/presets.h"

static void print_presets(void) {
    for (const embedded_file *f = preset_files; f->name != NULL; f++) {
        model_config c;
        error e;
        if (preset_load(&c, f->name, &e) != OK) continue;
        printf("%-18s %18s parameters\n", f->name, format_exact(config_params(&c).total).text);
    }
}

int cmd_cost(int argc, char **argv) {
    const char *preset = NULL, *shape = NULL;
    bool list = false;
    const option options[] = {
        {"preset", 0, OPTION_TEXT, &preset, "NAME", "a well-known shape", 0, 0},
        {"shape", 0, OPTION_TEXT, &shape, "FILE.json", "a shape of your own", 0, 0},
        {"presets", 0, OPTION_FLAG, &list, NULL, "list the presets", 0, 0},
    };
    const command help = {"cost",
                          "[options]",
                          "Predicts what a model will cost.",
                          "tally cost --preset gpt2",
                          options,
                          sizeof options / sizeof *options};
    int rc = options_parse(&help, argc, argv, NULL);
    if (rc >= 0) return rc;
    if (list) {
        print_presets();
        return 0;
    }
    if (preset == NULL && shape == NULL) return tool_usage("a shape is needed: --preset NAME or --shape FILE.json");
    model_config c;
    error e;
    status s = preset != NULL ? preset_load(&c, preset, &e) : shape_load(&c, shape, &e);
    if (s != OK) return tool_fail(&e);
    report r;
    report_init(&r, UNITS_BINARY);
    report_exact(&r, "parameters", "parameters", config_params(&c).total, UNIT_COUNT);
    report_print(&r, stdout);
    report_free(&r);
    return 0;
}
