#include "weights/rope.h"

#include <math.h>

#define PI 3.14159265358979323846

/* Long waves are slowed by the factor, short ones are kept, those between are blended. */
static double scale_llama3(const model_config *c, double freq) {
    double wave = 2 * PI / freq, original = c->rope_original_ctx;
    if (wave < original / c->rope_high_freq_factor) return freq;
    if (wave > original / c->rope_low_freq_factor) return freq / c->rope_factor;
    double keep = (original / wave - c->rope_low_freq_factor) / (c->rope_high_freq_factor - c->rope_low_freq_factor);
    return (1 - keep) * freq / c->rope_factor + keep * freq;
}

/* The pair (a real number) that makes `turns` full turns over the original context. */
static double yarn_pair(const model_config *c, double turns) {
    return c->rope_dim * log(c->rope_original_ctx / (turns * 2 * PI)) / (2 * log(c->rope_base));
}

static double scale_yarn(const model_config *c, double freq, int pair) {
    double low = fmax(floor(yarn_pair(c, c->rope_beta_fast)), 0);
    double high = fmin(ceil(yarn_pair(c, c->rope_beta_slow)), c->rope_dim - 1);
    if (low == high) high += 0.001; /* as the paper's code: a step in place of a ramp */
    double slow = fmin(fmax((pair - low) / (high - low), 0), 1);
    return freq / c->rope_factor * slow + freq * (1 - slow);
}

static double scale(const model_config *c, double freq, int pair) {
    switch (c->rope_scaling) {
    case ROPE_SCALING_LINEAR:
        return freq / c->rope_factor;
    case ROPE_SCALING_LLAMA3:
        return scale_llama3(c, freq);
    case ROPE_SCALING_YARN:
        return scale_yarn(c, freq, pair);
    case ROPE_SCALING_FACTORS:
        return freq / (double)c->rope_factors[pair];
    case ROPE_SCALING_NONE:
        break;
    }
    return freq;
}

void rope_frequencies(float *freq, const model_config *c, bool local) {
    double base = local ? c->rope_local_base : c->rope_base;
    for (int i = 0; i < c->rope_dim / 2; i++) {
        double f = pow(base, -2.0 * i / c->rope_dim);
        freq[i] = (float)(local ? f : scale(c, f, i));
    }
}

float rope_magnitude(const model_config *c) {
    if (c->position != POSITION_ROPE) return 1;
    if (c->rope_attn_factor != 0) return (float)c->rope_attn_factor;
    if (c->rope_factor <= 1) return 1;
    if (c->rope_scaling == ROPE_SCALING_YARN) return (float)(0.1 * log(c->rope_factor) + 1);
    if (c->rope_scaling == ROPE_SCALING_FACTORS && c->rope_original_ctx > 1)
        return (float)sqrt(1 + log(c->rope_factor) / log(c->rope_original_ctx));
    return 1;
}
