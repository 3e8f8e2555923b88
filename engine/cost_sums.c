#include "engine/cost_sums.h"

uint64_t cost_first_key(uint64_t p, uint64_t window) {
    return window == 0 || p < window ? 0 : p - window + 1;
}

/* 1 + 2 + ... + n */
static uint64_t triangle(uint64_t n) {
    return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n;
}

/* Sum of floor(p / k) for p = 0 ... n - 1: m whole ranges of k add k * (0 + ... + m-1), the rest adds m each. */
static uint64_t sum_of_floors(uint64_t n, uint64_t k) {
    uint64_t m = n / k;
    return m == 0 ? 0 : k * triangle(m - 1) + n % k * m;
}

uint64_t cost_pairs(uint64_t n_cached, uint64_t n_new, uint64_t window) {
    uint64_t end = n_cached + n_new;
    if (window == 0 || end <= window) return triangle(end) - triangle(n_cached);
    if (n_cached >= window) return n_new * window;
    return triangle(window) - triangle(n_cached) + (end - window) * window;
}

uint64_t cost_merges(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t split) {
    uint64_t end = n_cached + n_new;
    uint64_t last = sum_of_floors(end, split) - sum_of_floors(n_cached, split);
    if (window == 0 || end < window) return last;
    uint64_t lo_end = end - window + 1; /* lo(p) runs over 0 ... lo_end - 1 for p = window - 1 ... end - 1 */
    uint64_t lo_start = cost_first_key(n_cached, window);
    return last - (sum_of_floors(lo_end, split) - sum_of_floors(lo_start, split));
}

kv_tokens cost_tokens_read(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t query_tile) {
    kv_tokens n = {0, 0};
    for (uint64_t row = 0; row < n_new; row += query_tile) {
        uint64_t first = n_cached + row;
        uint64_t end = n_cached + (n_new - row < query_tile ? n_new : row + query_tile);
        uint64_t lo = cost_first_key(first, window);
        if (lo < n_cached) {
            n.cached += n_cached - lo;
            lo = n_cached;
        }
        n.own += end - lo;
    }
    return n;
}

uint64_t cost_pages(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t page_size) {
    if (n_new == 0) return 0;
    return (n_cached + n_new - 1) / page_size - cost_first_key(n_cached, window) / page_size + 1;
}
