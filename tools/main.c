/* tally: finds the subcommand and hands over. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/options.h"

static void print_commands(FILE *out) {
    fprintf(out, "usage: tally COMMAND [options]\n\n");
#define COMMAND_HELP(name, help) fprintf(out, "  %-10s %s\n", #name, help);
    COMMAND_LIST(COMMAND_HELP)
#undef COMMAND_HELP
    fprintf(out, "\ntally COMMAND --help says more.\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return 0;
    }
#define COMMAND_CALL(name, help)                                                                                               \
    if (strcmp(argv[1], #name) == 0) return cmd_##name(argc - 1, argv + 1);
    COMMAND_LIST(COMMAND_CALL)
#undef COMMAND_CALL
    return tool_usage("%s: no such command (tally --help lists them)", argv[1]);
}
