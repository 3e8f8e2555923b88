/* rope.h - the angles of rotary positions.
 *
 *   pair i of a head at position p turns by p * freq[i],   freq[i] = base^(-2i / rope_dim)     (Su et al. 2021)
 *
 * and its scalings for longer contexts: linear (Chen et al. 2023), llama3 (Meta's reference code), yarn (Peng et al. 2023),
 * factors (LongRoPE, Ding et al. 2024: a divisor for each pair). */
#ifndef TALLY_ROPE_H
#define TALLY_ROPE_H

#include "weights/config.h"

/* freq: [rope_dim/2]. local: for windowed layers, with rope_local_base and no scaling. */
void rope_frequencies(float *freq, const model_config *c, bool local);

/* What multiplies cos and sin: rope_attn_factor where given; else yarn: 0.1 ln(factor) + 1; factors:
 * sqrt(1 + ln(factor) / ln(original_ctx)); else 1. */
float rope_magnitude(const model_config *c);

#endif
