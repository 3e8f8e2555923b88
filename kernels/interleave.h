/* interleave.h - 16 rows side by side, and one of them out again: how every storage type packs its panels.
 *
 *   rows     r0: a0 a1 a2 ... | r1: b0 b1 b2 ... | ...          n pieces of `size` bytes each, `stride` bytes from row to row
 *   panel    a0 b0 c0 ... | a1 b1 c1 ... | ...                  width pieces for each k
 *
 * Rows of a mapped file may lie at odd addresses: every piece is moved with memcpy, which with a known size is one move. */
#ifndef TALLY_INTERLEAVE_H
#define TALLY_INTERLEAVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t lane8 __attribute__((vector_size(16)));
typedef uint16_t lane16 __attribute__((vector_size(16)));
typedef uint32_t lane32 __attribute__((vector_size(16)));

/* The lower (upper) halves of a and b, a piece from each in turn. */
static inline lane8 zip_low(lane8 a, lane8 b, size_t size) {
    if (size == 1) return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    if (size == 2) return (lane8)__builtin_shufflevector((lane16)a, (lane16)b, 0, 8, 1, 9, 2, 10, 3, 11);
    return (lane8)__builtin_shufflevector((lane32)a, (lane32)b, 0, 4, 1, 5);
}

static inline lane8 zip_high(lane8 a, lane8 b, size_t size) {
    if (size == 1) return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    if (size == 2) return (lane8)__builtin_shufflevector((lane16)a, (lane16)b, 4, 12, 5, 13, 6, 14, 7, 15);
    return (lane8)__builtin_shufflevector((lane32)a, (lane32)b, 2, 6, 3, 7);
}

/* A square: 16/size rows of 16 bytes, transposed in registers. Zipping row i with row i + n/2 interleaves two rows, then four, then all. */
static inline void transpose_square(unsigned char *out, size_t out_stride, const unsigned char *in, size_t in_stride,
                                    size_t size) {
    size_t n = 16 / size;
    lane8 v[16], zipped[16];
    for (size_t r = 0; r < n; r++) memcpy(&v[r], in + r * in_stride, sizeof v[r]);
    for (size_t known = 1; known < n; known *= 2) {
        for (size_t i = 0; i < n / 2; i++) {
            zipped[2 * i] = zip_low(v[i], v[i + n / 2], size);
            zipped[2 * i + 1] = zip_high(v[i], v[i + n / 2], size);
        }
        memcpy(v, zipped, n * sizeof *v); // cppcheck-suppress uninitvar -- n of them, two for each i
    }
    for (size_t k = 0; k < n; k++) memcpy(out + k * out_stride, &v[k], sizeof v[k]);
}

/* Sixteen whole rows, a cache line of each at a time: the 16/size rows of a square before the next ones, since rows a power of two apart
 * share the few places that a cache has for them. */
static inline size_t interleave_lines(unsigned char *out, const unsigned char *rows, size_t stride, size_t n_bytes,
                                      size_t size) {
    size_t done = 0;
    while (n_bytes - done >= 16) {
        size_t line = n_bytes - done >= 64 ? 64 : 16;
        for (size_t row = 0; row < 16; row += 16 / size)
            for (size_t at = done; at < done + line; at += 16)
                transpose_square(out + at * 16 + row * size, 16 * size, rows + row * stride + at, stride, size);
        done += line;
    }
    return done / size;
}

/* Reads `width` streams of n pieces of `size` bytes (1, 2 or 4, known to the compiler) and writes one. */
static inline void panel_interleave(unsigned char *out, const unsigned char *rows, size_t stride, int width, size_t n,
                                    size_t size) {
    size_t k = width == 16 ? interleave_lines(out, rows, stride, n * size, size) : 0;
    for (out += k * (size_t)width * size; k < n; k++, out += (size_t)width * size)
        for (size_t r = 0; r < (size_t)width; r++) memcpy(out + size * r, rows + r * stride + size * k, size);
}

/* The pieces of row r out of a panel: undoes panel_interleave. */
static inline void panel_gather(unsigned char *out, const unsigned char *panel, int width, int r, size_t n, size_t size) {
    for (size_t k = 0; k < n; k++) memcpy(out + k * size, panel + (k * (size_t)width + (size_t)r) * size, size);
}

#endif
