/* spawn.c - whole processes from outside: runs each command N times, in turn, and prints the median wall time and the largest peak of memory.
 *
 *   spawn N COMMAND... [-- COMMAND...]     a line each: seconds, KiB (the system's own accounts of the finished process)
 * Output of the commands is thrown away. A command that fails ends it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/clock.h"

enum { MOST_COMMANDS = 16 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run(char **command, long *peak) {
    struct rusage use;
    int how;
    double start = clock_seconds();
    pid_t child = vfork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        dup2(nowhere, 2);
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &how, 0, &use) != child || !WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        fprintf(stderr, "spawn: %s failed\n", command[0]);
        exit(1);
    }
    if (use.ru_maxrss > *peak) *peak = use.ru_maxrss;
    return clock_seconds() - start;
}

int main(int argc, char **argv) {
    char **commands[MOST_COMMANDS];
    int n = argc > 1 ? atoi(argv[1]) : 0, n_commands = 0;
    if (n < 1 || argc < 3) return fprintf(stderr, "usage: spawn N COMMAND... [-- COMMAND...]\n"), 2;
    for (int i = 2, first = 1; i < argc; i++) {
        if (first && n_commands < MOST_COMMANDS) commands[n_commands++] = &argv[i];
        first = strcmp(argv[i], "--") == 0;
        if (first) argv[i] = NULL;
    }
    double *times = malloc((size_t)(n * n_commands) * sizeof *times);
    long peaks[MOST_COMMANDS] = {0};
    if (times == NULL) return 1;
    for (int r = 0; r < n; r++) {
        for (int c = 0; c < n_commands; c++) times[c * n + r] = run(commands[c], &peaks[c]);
    }
    for (int c = 0; c < n_commands; c++) {
        qsort(times + c * n, (size_t)n, sizeof *times, compare);
        printf("%.6f %ld\n", times[c * n + n / 2], peaks[c]);
    }
    free(times);
    return 0;
}
