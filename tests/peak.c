#include "tests/peak.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

double peak_of(const char *const *argv, const char *err_path) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int err = open(err_path, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDWR);
        dup2(null, 0), dup2(null, 1), dup2(err, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int exit_status;
    struct rusage usage;
    assert_int_equal(wait4(pid, &exit_status, 0, &usage), pid);
    assert_int_equal(exit_status, 0);
    return 1024.0 * (double)usage.ru_maxrss;
}
