/* simd_set.h - one kernel_set from the vector and the tile shapes defined before it is included. */
#ifndef TALLY_SIMD_SET_H
#define TALLY_SIMD_SET_H

#include "kernels/simd_attend.h"
#include "kernels/simd_product.h"
#include "kernels/simd_q8.h"
#include "kernels/simd_rows.h"

#define KERNEL_SET(set_name, int8_product)                                                                                     \
    {                                                                                                                          \
        .name = set_name, .product_f32 = product_f32, .product_f16 = product_f16, .product_i8 = product_i8,                    \
        .product_q8 = int8_product, .int8_scaled = int8_scaled, .quantise = quantise, .f16_to_f32 = f16_row_to_f32,            \
        .f32_to_f16 = f32_row_to_f16, .rms_norm = rms_norm, .layer_norm = layer_norm, .softmax = softmax,                      \
        .attend_f32 = attend_f32, .attend_f16 = attend_f16, .activate = activate, .add = add, .add_scaled = add_scaled,        \
        .merge = merge,                                                                                                        \
    }

#endif
