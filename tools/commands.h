/* commands.h - the subcommands of the tally binary: one row here, one file tools/cmd_NAME.c each (the row comes with the file). */
#ifndef TALLY_COMMANDS_H
#define TALLY_COMMANDS_H

/* X(name, one line for `tally --help`). cmd_NAME gets argv with argv[0] = NAME and returns the exit status:
 * 0 ok, 1 failed, 2 bad usage. */
#define COMMAND_LIST(X)                                                                                                        \
    X(run, "completes a prompt, and says what that cost")                                                                      \
    X(batch, "many prompts at once over one pool of pages; JSON lines out")                                                    \
    X(check, "predicted, counted, measured: term by term")                                                                     \
    X(trace, "the KV cache step by step")                                                                                      \
    X(tokenize, "text to token ids and pieces, and back")                                                                      \
    X(convert, "a checkpoint as GGUF or safetensors, in another type")                                                         \
    X(inspect, "what a checkpoint holds: metadata, every tensor, totals")                                                      \
    X(cost, "what a model will cost: formula, numbers, result")                                                                \
    X(lesson, "every number of the lesson, predicted, and counted where it can be run")                                        \
    X(bench, "speed of prefill and decode, beside this machine's limits")                                                      \
    X(machine, "what this machine reads and computes, measured")

#define COMMAND_DECLARE(name, help) int cmd_##name(int argc, char **argv);
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

#endif
