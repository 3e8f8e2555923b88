/* amx.h - int8 products of many rows in AMX tiles, for the AVX-512 set. Exact integer sums, the same scales in the same order: the bits of
 * product_q8 of that set. */
#ifndef TALLY_AMX_H
#define TALLY_AMX_H

#include "kernels/kernels.h"

/* Has this processor int8 tiles, and lets the system this process use them? Asks for that on the way. */
bool amx_usable(void);

/* As product_q8, for n_t a multiple of 16, or 8, and width a multiple of 16. */
void amx_product_q8(const q8_product *p);

#endif
