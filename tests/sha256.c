#include "tests/sha256.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

/* The constants are the first 32 bits of the fractions of square and cube roots of primes. */
static uint32_t root_bits(int prime, int cube) {
    long double root = cube ? cbrtl(prime) : sqrtl(prime);
    return (uint32_t)((root - floorl(root)) * 4294967296.0L);
}

static void primes(int out[64]) {
    for (int n = 0, p = 2; n < 64; p++) {
        int prime = 1;
        for (int d = 2; d * d <= p; d++) prime = prime && p % d != 0;
        if (prime) out[n++] = p;
    }
}

static void block(uint32_t h[8], const uint8_t b[64], const int prime[64]) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 | (uint32_t)b[4 * i + 2] << 8 | b[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t c = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + c;
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25), choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + e + choose + root_bits(prime[i], 1) + w[i];
        uint32_t a = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + a + most;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

void sha256_hex(char out[65], const void *data, size_t n) {
    int prime[64];
    uint32_t h[8];
    uint8_t last[128] = {0};
    primes(prime);
    for (int i = 0; i < 8; i++) h[i] = root_bits(prime[i], 0);
    const uint8_t *at = data;
    size_t left = n;
    for (; left >= 64; left -= 64, at += 64) block(h, at, prime);
    memcpy(last, at, left);
    last[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++) last[end - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < end; i += 64) block(h, last + i, prime);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", h[i]);
}
