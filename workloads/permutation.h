/*
 * Permutations of 0 ... 2^k - 1 that look random, need no table, and can be inverted.
 *
 * Each step is invertible on k bits: adding a constant, multiplying by an odd number, and x ^ x >> s with s at least
 * half of k, which is its own inverse. The multipliers come from the seed, so that there are many permutations.
 */
#ifndef WORKLOAD_PERMUTATION_H
#define WORKLOAD_PERMUTATION_H

#include "numbers.h"

#include <stdint.h>

struct permutation {
    uint64_t mask;  /* 2^k - 1 */
    unsigned shift; /* at least half of k */
    uint64_t offset;
    uint64_t multiplier[2];
    uint64_t inverse[2];
};

/* The largest k such that 2^k is at most `length`, which is at least 1. */
static inline unsigned permutation_bits(uint64_t length)
{
    unsigned bits = 0;
    while (length >> (bits + 1))
        bits++;
    return bits;
}

static inline struct permutation permutation_make(unsigned bits, uint64_t seed)
{
    const uint64_t first = number_at(seed, 0) | 1, second = number_at(seed, 1) | 1;
    return (struct permutation){
        .mask = (UINT64_C(1) << bits) - 1,
        .shift = (bits + 1) / 2,
        .offset = number_at(seed, 2),
        .multiplier = {first, second},
        .inverse = {inverse_of_odd(first), inverse_of_odd(second)},
    };
}

/* The image of `x`; only its low k bits count. */
static inline uint64_t permute(const struct permutation *p, uint64_t x)
{
    x = (x + p->offset) & p->mask;
    x ^= x >> p->shift;
    x = x * p->multiplier[0] & p->mask;
    x ^= x >> p->shift;
    x = x * p->multiplier[1] & p->mask;
    return x ^ x >> p->shift;
}

/* The inverse image of `x`. */
static inline uint64_t unpermute(const struct permutation *p, uint64_t x)
{
    x &= p->mask;
    x ^= x >> p->shift;
    x = x * p->inverse[1] & p->mask;
    x ^= x >> p->shift;
    x = x * p->inverse[0] & p->mask;
    x ^= x >> p->shift;
    return (x - p->offset) & p->mask;
}

#endif
