#include "kernels/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int processors_of_quota(const char *text) {
    long long quota, period;
    if (sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return 0;
    long long n = quota / period + (quota % period != 0);
    return n > INT_MAX ? 0 : (int)n;
}

static bool line_read(char *out, int size, const char *path) {
    FILE *f = fopen(path, "r");
    if (f == NULL) return false;
    bool read = fgets(out, size, f) != NULL;
    fclose(f);
    if (read) out[strcspn(out, "\n")] = '\0';
    return read;
}

/* Of this process's own group and every group around it, the least. Version 2 of control groups: one hierarchy, "0::/path". */
static int quota(void) {
    char group[512], path[600], text[64];
    if (!line_read(group, sizeof group, "/proc/self/cgroup") || strncmp(group, "0::/", 4) != 0) return 0;
    int least = 0;
    for (char *end;; *end = '\0') {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group + 3);
        int n = line_read(text, sizeof text, path) ? processors_of_quota(text) : 0;
        if (n > 0 && (least == 0 || n < least)) least = n;
        end = strrchr(group + 3, '/');
        if (end == NULL) return least;
    }
}

int processors_usable(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN), most = quota();
    if (most > 0 && most < n) n = most;
    return n < 1 ? 1 : n;
}
