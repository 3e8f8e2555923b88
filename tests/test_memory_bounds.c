/* Memory: small files that describe much must not take more than their size and 64 MiB, whether they are opened or refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/made_files.h"

#include "weights/container.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MEASURED = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { MEASURED = 0 };
#else
enum { MEASURED = 1 };
#endif
#else
enum { MEASURED = 1 };
#endif

static long resident_kib(void) {
    long pages = 0, ignored;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &ignored, &pages) != 2) pages = 0;
    if (f != NULL) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Opens the file in a process of its own, whose memory is then looked at. Frees b. */
static void stays_within_bounds(bytes *b) {
    char path[] = "/tmp/tally-test-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, b->data, b->n) != (ssize_t)b->n) fail_msg("no file under /tmp");
    close(fd);
    size_t size = b->n;
    bytes_free(b);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        long before = resident_kib(), peak;
        error e = {0};
        checkpoint *c;
        checkpoint_open(&c, path, &e);
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        peak = usage.ru_maxrss - before;
        checkpoint_close(c);
        if (write(pipes[1], &peak, sizeof peak) != sizeof peak) _exit(1);
        _exit(0);
    }
    long peak = -1;
    int exit_status;
    close(pipes[1]);
    ssize_t n = read(pipes[0], &peak, sizeof peak);
    close(pipes[0]);
    waitpid(child, &exit_status, 0);
    unlink(path);
    if (n != sizeof peak || exit_status != 0) fail_msg("the reader crashed");
    long bound = (long)(size / 1024) + 64 * 1024;
    if (peak > bound) fail_msg("%ld KiB for a file of %zu KiB", peak, size / 1024);
}

static bool not_measured(void) {
    if (MEASURED) return false;
    printf("SKIP: memory is not measured under a sanitizer\n");
    return true;
}
#define MEASURED_ONLY()                                                                                                        \
    (void)state;                                                                                                               \
    if (not_measured()) skip()

enum { MANY = 4 << 20 };

static void gguf_array_of(uint32_t type, size_t n, const void *value, size_t width) {
    bytes b = {0};
    gguf_start(&b, 3, 0, 1);
    gguf_text_bytes(&b, "a"), put_u32(&b, 9), put_u32(&b, type), put_u64(&b, n);
    for (size_t i = 0; i < n; i++) put(&b, value, width);
    stays_within_bounds(&b);
}

static void gguf_arrays_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    gguf_array_of(0, MANY, "\1", 1);
    gguf_array_of(3, MANY, "\1\1", 2);
    gguf_array_of(8, MANY, "\0\0\0\0\0\0\0\0", 8);
    gguf_array_of(6, MANY, "\0\0\0\1", 4);
}

static void gguf_tensors_and_keys_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    bytes b = {0};
    const uint64_t none[1] = {0};
    gguf_start(&b, 3, 300000, 0);
    for (int i = 0; i < 300000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        gguf_tensor(&b, name, 1, none, 0, 0);
    }
    put_padding(&b, 32);
    stays_within_bounds(&b);
    gguf_start(&b, 3, 0, 500000);
    for (int i = 0; i < 500000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        gguf_text_bytes(&b, name), put_u32(&b, 0), put_u8(&b, 1);
    }
    stays_within_bounds(&b);
}

static void repeated(bytes *b, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) put_text(b, text);
}

static void safetensors_headers_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    static const char *const parts[] = {"[],", "{},", "\"\",", "0,", "[[[[[[]]]]]],", "{\"a\":{}},"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bytes b = {0}, header = {0};
        put_text(&header, "{\"a\":[");
        repeated(&header, parts[i], MANY / 2);
        put_text(&header, "0]}");
        put_u64(&b, header.n);
        put(&b, header.data, header.n);
        bytes_free(&header);
        stays_within_bounds(&b);
    }
}

static void json_weights_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    static const char *const parts[] = {"[],", "{},", "\"\",", "0,"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bytes b = {0};
        put_text(&b, "{\"a\":[");
        repeated(&b, parts[i], MANY / 2);
        put_text(&b, "0]}");
        stays_within_bounds(&b);
    }
    bytes b = {0};
    put_u8(&b, '{');
    for (int i = 0; i < 500000; i++) {
        char member[32];
        snprintf(member, sizeof member, "\"%d\":[0],", i);
        put_text(&b, member);
    }
    put_text(&b, "\"x\":[0]}");
    stays_within_bounds(&b);
}

static void pickles_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    static const char *const parts[] = {"N", "]", "K\1", "(", "}", "2", "\x94", ")\x85", "X\0\0\0\0"};
    static const size_t lengths[] = {1, 1, 2, 1, 1, 1, 1, 2, 5};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bytes b = {0};
        put_text(&b, "\x80\x04](N");
        for (size_t k = 0; k < MANY; k++) put(&b, parts[i], lengths[i]);
        put_text(&b, "e.");
        stays_within_bounds(&b);
    }
    bytes b = {0}; /* one memo number far out */
    put_text(&b, "\x80\x02](Nr");
    put_u32(&b, MANY);
    for (size_t k = 0; k < MANY; k++) put_u8(&b, '0');
    put_text(&b, "e.");
    stays_within_bounds(&b);
}

static void llama2c_layers_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    const int32_t header[7] = {2, 1, 200000, 1, 1, 1, 1};
    bytes b = {0};
    put(&b, header, sizeof header);
    put_zeros(&b, 4 * (2 + (size_t)200000 * (2 + 4 + 4 + 4 + 4 + 2 + 2 + 2 + 2) + 2 + 2));
    stays_within_bounds(&b);
}

static void archives_stay_within_bounds(void **state) {
    MEASURED_ONLY();
    made_zip z = {0};
    for (int i = 0; i < 65000; i++) zip_entry(&z, "", "", 0);
    bytes b = zip_done(&z);
    stays_within_bounds(&b);
    z = (made_zip){0}; /* a pickle that says it grows to 3 GiB */
    zip_entry_deflated(&z, "data.pkl", "\x03\x00", 2, "", 0);
    for (size_t i = 0; i < 2; i++) {
        bytes *half = i == 0 ? &z.file : &z.directory;
        size_t at = i == 0 ? 22 : 24;
        memcpy(half->data + at, "\0\0\0\xc0", 4);
    }
    b = zip_done(&z);
    stays_within_bounds(&b);
}

/* 2 GiB of weights are mapped, not read. The file has a hole where they are. */
static void opening_two_gib_reads_the_header_only(void **state) {
    MEASURED_ONLY();
    char path[] = "/tmp/tally-test-XXXXXX";
    bytes b = make_safetensors("{\"w\":{\"dtype\":\"F16\",\"shape\":[1048576,1024],\"data_offsets\":[0,2147483648]}}", 0);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, b.data, b.n) != (ssize_t)b.n || ftruncate(fd, (off_t)(b.n + 2147483648u)) != 0)
        fail_msg("no file under /tmp");
    close(fd);
    bytes_free(&b);
    error e = {0};
    checkpoint *c;
    long before = resident_kib();
    if (checkpoint_open(&c, path, &e) != OK) fail_msg("%s", e.message);
    tensor_bytes t;
    assert_int_equal(tensor_read(c, checkpoint_find(c, "w"), &t, &e), OK);
    assert_true(t.in_place);
    assert_int_equal(((const uint8_t *)t.data)[2147483647], 0);
    long taken = resident_kib() - before;
    tensor_release(&t);
    checkpoint_close(c);
    unlink(path);
    if (taken > 4096) fail_msg("%ld KiB were read", taken);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_arrays_stay_within_bounds),
        cmocka_unit_test(gguf_tensors_and_keys_stay_within_bounds),
        cmocka_unit_test(safetensors_headers_stay_within_bounds),
        cmocka_unit_test(json_weights_stay_within_bounds),
        cmocka_unit_test(pickles_stay_within_bounds),
        cmocka_unit_test(llama2c_layers_stay_within_bounds),
        cmocka_unit_test(archives_stay_within_bounds),
        cmocka_unit_test(opening_two_gib_reads_the_header_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
