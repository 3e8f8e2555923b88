/* simd_math.h - exp, tanh and the Gaussian's tail of 16 numbers at once. NaN stays NaN; errors are within 2 units in the last place
 * (tested against double). Every lane goes the same way whatever is in the others. */
#ifndef TALLY_SIMD_MATH_H
#define TALLY_SIMD_MATH_H

#include "kernels/simd.h"

/* c[0] + c[1] x + ... + c[n-1] x^(n-1). n is a constant. */
VECTOR vf vf_polynomial(vf x, const float *c, int n) {
    vf y = vf_set(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--) y = vf_fma(y, x, vf_set(c[i]));
    return y;
}

/* x = n ln 2 + r with n an integer and |r| <= ln 2 / 2. ln 2 in two parts: n times the first is exact. */
VECTOR vf vf_reduce(vf x, vf *n) {
    *n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = vf_fma(*n, vf_set(-0.693359375f), x);
    return vf_fma(*n, vf_set(2.12194440e-4f), r);
}

/* (exp(r) - 1) / r for |r| <= ln 2 / 2: Taylor's series; what is left out is below 2^-27. */
VECTOR vf vf_expm1_over(vf r) {
    static const float c[] = {1.0f, 1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040};
    return vf_polynomial(r, c, 7);
}

/* Above 89 the result is infinite; below -87.3, where it would be subnormal, 0: a subnormal result costs a hundred cycles. */
VECTOR vf vf_exp(vf x) {
    const vf lowest = vf_set(-87.3f);
    vf n, r = vf_reduce(vf_max(lowest, vf_min(vf_set(89.0f), x)), &n);
    vf e = vf_scale(vf_fma(r, vf_expm1_over(r), vf_set(1.0f)), n);
    return vf_pick_negative(vf_sub(x, lowest), vf_set(0.0f), e);
}

/* tanh x = t / (t + 2), t = exp(2x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), which loses nothing near 0. */
VECTOR vf vf_tanh(vf x) {
    vf n, y = vf_max(vf_set(-20.0f), vf_min(vf_set(20.0f), vf_add(x, x)));
    vf r = vf_reduce(y, &n), one = vf_set(1.0f), power = vf_scale(one, n);
    vf t = vf_fma(vf_mul(r, vf_expm1_over(r)), power, vf_sub(power, one));
    return vf_div(t, vf_add(t, vf_set(2.0f)));
}

/* erfc x for x >= 0: exp(-x^2) t P(t), t = 1 / (1 + x/2). P interpolates at Chebyshev's points for x in [0, 10]; error 5e-8, relative. */
VECTOR vf vf_erfc(vf x) {
    static const float c[] = {0.282054275f, 0.283085704f,  0.236490652f, 0.236769408f, -0.134083584f,
                              0.493722975f, -0.763677001f, 0.503703773f, -0.15683268f, 0.0187664684f};
    x = vf_min(vf_set(12.0f), x); /* there it is 0 */
    vf t = vf_div(vf_set(1.0f), vf_fma(x, vf_set(0.5f), vf_set(1.0f)));
    vf square = vf_mul(x, x), rest = vf_fma(x, x, vf_sub(vf_set(0.0f), square)); /* x^2 = square + rest */
    vf e = vf_mul(vf_exp(vf_sub(vf_set(0.0f), square)), vf_sub(vf_set(1.0f), rest));
    return vf_mul(vf_mul(t, vf_polynomial(t, c, 10)), e);
}

#endif
