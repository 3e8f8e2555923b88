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

static int dispatch(int argc, char **argv) {
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

/* A result that could not be written is no result: a full disk or a closed pipe is exit status 1 for every command. */
int main(int argc, char **argv) {
    int rc = dispatch(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    error e;
    error_set(&e, ERR_IO, "stdout: cannot be written");
    return rc != 0 ? rc : tool_fail(&e);
}
