#include "tools/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* In gnuplot's single quotes only the quote itself is special. */
static void print_quoted(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'') fputc('\'', out);
        if ((unsigned char)*text >= 0x20) fputc(*text, out);
    }
    fputc('\'', out);
}

static void print_setting(FILE *out, const char *name, const char *text) {
    fprintf(out, "set %s ", name);
    print_quoted(out, text);
    fputs(" noenhanced\n", out);
}

static void print_axes(FILE *out, const char *path, const char *terminal, const plot_axes *a) {
    fprintf(out, "set terminal %s\n", terminal);
    fputs("set output ", out);
    print_quoted(out, path);
    fputs("\nset encoding utf8\nset grid\nset key top left\n", out);
    print_setting(out, "title", a->title);
    print_setting(out, "xlabel", a->x_label);
    print_setting(out, "ylabel", a->y_label);
    if (a->log_x) fputs("set logscale x 2\n", out);
    if (a->log_y) fputs("set logscale y\n", out);
    if (a->mark_x > 0 && isfinite(a->mark_x)) {
        fprintf(out, "set arrow from %.17g, graph 0 to %.17g, graph 1 nohead dashtype 2\n", a->mark_x, a->mark_x);
        fputs("set label ", out);
        print_quoted(out, a->mark_name);
        fprintf(out, " at %.17g, graph 0.04 left offset 1,0 noenhanced\n", a->mark_x);
    }
}

static void print_series(FILE *out, const plot_axes *a, const plot_series *series, size_t n) {
    static const char *const styles[] = {"lines linewidth 3", "lines linewidth 2 dashtype 2",
                                         "points pointtype 7 pointsize 1.2"};
    fputs("plot ", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", '-' with " : "'-' with ", out);
        fputs(styles[series[i].style], out);
        fputs(" title ", out);
        print_quoted(out, series[i].name);
    }
    fputc('\n', out);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < series[i].n; k++) {
            double x = series[i].x[k], y = series[i].y[k];
            bool drawn = isfinite(x) && isfinite(y) && !(a->log_x && x <= 0) && !(a->log_y && y <= 0);
            if (drawn) fprintf(out, "%.17g %.17g\n", x, y);
        }
        fputs("e\n", out);
    }
}

static status spawn_gnuplot(pid_t *pid, FILE **in, error *e) {
    int fd[2];
    if (pipe(fd) != 0) return error_set(e, ERR_IO, "gnuplot: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd[0], STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, fd[1]);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY,
                                     0); /* where it draws when it cannot write */
    char *argv[] = {"gnuplot", "-", NULL};
    int rc = posix_spawnp(pid, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fd[0]);
    *in = rc == 0 ? fdopen(fd[1], "w") : NULL;
    if (*in != NULL) return OK;
    close(fd[1]);
    if (rc != 0)
        return error_set(e, ERR_UNSUPPORTED, "a plot needs gnuplot, which does not start: %s (apt-get install gnuplot-nox)",
                         strerror(rc));
    return error_set(e, ERR_IO, "gnuplot: %s", strerror(errno));
}

/* NULL: a plot is not of that kind. */
static const char *terminal_of(const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".svg") == 0) return "svg size 800,500 background 'white'";
    return dot != NULL && strcmp(dot, ".png") == 0 ? "png size 800,500" : NULL;
}

status plot_check(const char *path, error *e) {
    if (terminal_of(path) == NULL) return error_set(e, ERR_ARGUMENT, "%s: a plot is .svg or .png", path);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    if (file < 0) return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    close(file);
    return OK;
}

status plot_write(const char *path, const plot_axes *axes, const plot_series *series, size_t n_series, error *e) {
    const char *terminal = terminal_of(path);
    status s = plot_check(path, e);
    if (s != OK) return s;
    pid_t pid;
    FILE *in;
    s = spawn_gnuplot(&pid, &in, e);
    if (s != OK) return s;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* gnuplot may end early: that is its exit status, not our death */
    print_axes(in, path, terminal, axes);
    print_series(in, axes, series, n_series);
    fclose(in);
    int how = 0;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    signal(SIGPIPE, before);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) return error_set(e, ERR_IO, "%s: gnuplot failed", path);
    return OK;
}
