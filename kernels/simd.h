/* simd.h - the kernels of kernels.h, written once over a vector of 16 floats.
 *
 *   vector_avx2.h, vector_avx512.h, vector_neon.h    the vector: what follows here, in one instruction set's registers
 *   simd_product.h, simd_q8.h, simd_rows.h, simd_attend.h    the kernels, in terms of the vector
 *   kernels_avx2.c, kernels_avx512.c, kernels_neon.c include a vector, then the kernels: one kernel_set each
 *
 * 16 lanes are 16 outputs (products) or 16 neighbours of a row (everything else), in every instruction set: so the order of every
 * sum is the same in all of them, whatever the width of a register. What a vector_*.h defines:
 *
 *   vf  16 floats            vf_set, vf_load, vf_store; add, sub, mul, div, abs; vf_fma(a, b, c) = a*b + c, rounded once;
 *                            vf_max(a, b), vf_min(a, b): b where either is NaN; vf_round: to an integer, ties to even;
 *                            vf_scale(a, n) = a * 2^n, n an integer in [-160, 160]; vf_pick_negative(x, a, b): x < 0 ? a : b;
 *                            vf_fill(a, m, rest): lanes out of m become rest; vf_finite: are all lanes?
 *                            vf_sum: lanes 8 apart are added, then 4, 2, 1; vf_top: the largest
 *       in memory            vf_from_half, vf_to_half (nearest even), vf_from_int8; vf_from_word(p, i): byte i of each of 16 words; vf_to_int8 writes integers and returns their sum
 *   vm  the first n lanes    vm_first(n), 0 < n <= 16; NAME_n(..., vm) reads or writes these lanes only; what is not read is 0
 *   vq  16 x 4 int8 weights  vq_load
 *   vi  16 int32             vi_start(sum of the x to come), then vi_dot(acc, w, x): acc[r] += the sum of w[r][i] * x[i], i < 4:
 *                            exact for x in -127..127 and any w; vf_from_int */
#ifndef TALLY_SIMD_H
#define TALLY_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#define VECTOR static inline __attribute__((always_inline))

#endif
