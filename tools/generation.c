#include "tools/generation.h"

#include <limits.h>
#include <string.h>

void generation_init(generation_options *o) {
    *o = (generation_options){.top_p = 1, .repeat_penalty = 1, .n_predict = -1, .samples = 1};
    sampling_init(&o->sampling);
}

size_t generation_option_rows(generation_options *o, option *rows) {
    const option all[] = {
        {"n-predict", 'n', OPTION_INT, &o->n_predict, "N", "most tokens to generate (-1: up to the end token or the context)",
         -1, INT_MAX},
        {"temp", 0, OPTION_NUMBER, &o->temperature, "T", "temperature (0: greedy)", 0, 0},
        {"top-k", 0, OPTION_INT, &o->sampling.top_k, "K", "draw from the K most probable (0: all)", 0, 0},
        {"top-p", 0, OPTION_NUMBER, &o->top_p, "P", "draw from the fewest that reach P together (1: all)", 0, 0},
        {"min-p", 0, OPTION_NUMBER, &o->min_p, "P", "draw from those at least P times as probable as the first (0: all)", 0, 0},
        {"repeat-penalty", 0, OPTION_NUMBER, &o->repeat_penalty, "X", "make tokens already there less probable (1: no)", 0, 0},
        {"repeat-last-n", 0, OPTION_INT, &o->sampling.repeat_last_n, "N", "how far back that looks (64; -1: everything)", 0, 0},
        {"samples", 0, OPTION_INT, &o->samples, "N", "completions of one prompt, which they share in the cache (1)", 1, 4096},
        {"parse-special", 0, OPTION_FLAG, &o->parse_special, NULL, "special tokens written in the prompt are tokens, not text",
         0, 0},
    };
    memcpy(rows, all, sizeof all);
    return sizeof all / sizeof *all;
}

status generation_settle(generation_options *o, error *e) {
    o->sampling.temperature = (float)o->temperature;
    o->sampling.top_p = (float)o->top_p;
    o->sampling.min_p = (float)o->min_p;
    o->sampling.repeat_penalty = (float)o->repeat_penalty;
    return sampling_check(&o->sampling, e);
}
