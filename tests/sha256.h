/* sha256.h - FIPS 180-4, for comparing bytes with published digests. */
#ifndef TALLY_SHA256_H
#define TALLY_SHA256_H

#include <stddef.h>

void sha256_hex(char out[65], const void *data, size_t n);

#endif
