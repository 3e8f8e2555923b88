#include "tools/quantity.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *unit_name(unit u) {
    static const char *const names[] = {
        [UNIT_NONE] = "",
        [UNIT_COUNT] = "",
        [UNIT_BYTES] = "bytes",
        [UNIT_FLOPS] = "FLOPs",
        [UNIT_SECONDS] = "seconds",
        [UNIT_TOKENS_PER_SECOND] = "tokens/s",
        [UNIT_BYTES_PER_SECOND] = "bytes/s",
        [UNIT_FLOPS_PER_SECOND] = "FLOP/s",
        [UNIT_OPERATIONS_PER_SECOND] = "operations/s",
    };
    return names[u];
}

/* Copies decimal digits with a comma before every third from the point. */
static void group_digits(char *out, size_t size, const char *digits) {
    size_t whole = strcspn(digits, ".e"), n = 0;
    for (size_t i = 0; digits[i] != '\0' && n + 2 < size; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0 && digits[i - 1] != '-') out[n++] = ',';
        out[n++] = digits[i];
    }
    out[n] = '\0';
}

quantity_text format_exact(uint64_t n) {
    quantity_text t = {""};
    char digits[32];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    group_digits(t.text, sizeof t.text, digits);
    return t;
}

/* "7e+09" -> "7e9", "1e-06" -> "1e-6" */
static void shorten_exponent(char *text) {
    char *e = strchr(text, 'e');
    if (e == NULL) return;
    long power = strtol(e + 1, NULL, 10);
    snprintf(e, 8, "e%ld", power);
}

quantity_text format_input(double x) {
    quantity_text t = {""};
    char digits[40];
    int precision = 1;
    do {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
    } while (strtod(digits, NULL) != x && ++precision <= 17);
    /* A short power of ten stays one (7e9, 1.97e14); other whole numbers are written out. */
    bool power = strchr(digits, 'e') != NULL && precision <= 4 && fabs(x) >= 1e6;
    if (!power && x == floor(x) && fabs(x) < 1e15) snprintf(digits, sizeof digits, "%.0f", x);
    shorten_exponent(digits);
    group_digits(t.text, sizeof t.text, digits);
    return t;
}

/* At most two decimals, none where the number is whole; tiny numbers keep three digits. */
static void print_decimal(char *out, size_t size, double x) {
    char digits[48];
    if (fabs(x - round(x)) <= 1e-12 * fabs(x) && fabs(x) < 1e15) { /* 14 / 0.14 is 100, whatever the last bit says */
        snprintf(digits, sizeof digits, "%.0f", x);
    } else if (fabs(x) < 0.1 || fabs(x) >= 1e15) {
        snprintf(digits, sizeof digits, "%.3g", x);
        shorten_exponent(digits);
    } else {
        snprintf(digits, sizeof digits, "%.2f", x);
    }
    group_digits(out, size, digits);
}

/* x in the largest unit of which there is one. */
static quantity_text format_scaled(double x, double step, const char *const *prefixes, int n, const char *suffix) {
    quantity_text t = {""};
    char digits[48];
    int i = 0;
    if (n > 1 && fabs(x) >= 1e21) n = 1; /* beyond the prefixes: 3.65e25 */
    while (i + 1 < n && fabs(x) >= step) {
        x /= step;
        i++;
    }
    print_decimal(digits, sizeof digits, x);
    snprintf(t.text, sizeof t.text, "%s %s%s", digits, prefixes[i], suffix);
    return t;
}

/* Above an hour, hours; above two days, days. */
static quantity_text format_seconds(double x) {
    if (x >= 172800) return format_scaled(x / 86400, INFINITY, (const char *const[]){"days"}, 1, "");
    if (x >= 3600) return format_scaled(x / 3600, INFINITY, (const char *const[]){"hours"}, 1, "");
    static const char *const down[] = {"s", "ms", "us", "ns"};
    int i = 0;
    while (i < 3 && x != 0 && fabs(x) < 1) {
        x *= 1e3;
        i++;
    }
    return format_scaled(x, INFINITY, &down[i], 1, "");
}

quantity_text format_rounded(double x, unit u, byte_units units) {
    static const char *const binary[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const decimal[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    static const char *const binary_rate[] = {"bytes/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"};
    static const char *const decimal_rate[] = {"bytes/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    static const char *const si[] = {"", "k", "M", "G", "T", "P", "E"};
    static const char *const none[] = {""};
    switch (u) {
    case UNIT_BYTES:
        return format_scaled(x, units == UNITS_BINARY ? 1024 : 1000, units == UNITS_BINARY ? binary : decimal, 6, "");
    case UNIT_BYTES_PER_SECOND:
        return format_scaled(x, units == UNITS_BINARY ? 1024 : 1000, units == UNITS_BINARY ? binary_rate : decimal_rate, 6, "");
    case UNIT_FLOPS:
        return format_scaled(x, 1000, si, 7, "FLOP");
    case UNIT_FLOPS_PER_SECOND:
        return format_scaled(x, 1000, si, 7, "FLOP/s");
    case UNIT_OPERATIONS_PER_SECOND:
        return format_scaled(x, 1000, si, 7, "op/s");
    case UNIT_SECONDS:
        return format_seconds(x);
    case UNIT_TOKENS_PER_SECOND:
        return format_scaled(x, INFINITY, none, 1, "tokens/s");
    case UNIT_NONE:
    case UNIT_COUNT:
        break;
    }
    quantity_text t = {""};
    print_decimal(t.text, sizeof t.text, x);
    return t;
}
