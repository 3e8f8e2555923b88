/* peak.h - what another program took at its peak. */
#ifndef TALLY_TESTS_PEAK_H
#define TALLY_TESTS_PEAK_H

/* Runs it (found in PATH) with stdin and stdout nowhere and stderr in a file; its peak of resident memory in bytes. Fails the test unless it
 * ends with 0. What the calling process takes itself must be less: the kernel counts it until the other program has begun. */
double peak_of(const char *const *argv, const char *err_path);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PEAK_HIDDEN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PEAK_HIDDEN 1
#endif
#endif
#ifndef PEAK_HIDDEN
#define PEAK_HIDDEN 0
#endif

#define SKIP_WHERE_SANITIZED()                                                                                                 \
    if (PEAK_HIDDEN) {                                                                                                         \
        print_message("SKIP: a sanitizer's own memory hides the program's\n");                                                 \
        skip();                                                                                                                \
    }

#endif
