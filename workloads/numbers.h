/*
 * Numbers that look random and depend on their position alone, so any thread can compute any of them, and compute
 * them again for the check.
 */
#ifndef WORKLOAD_NUMBERS_H
#define WORKLOAD_NUMBERS_H

#include <stdint.h>
#include <string.h>

/* The number at `position` of the sequence `seed`: the generator SplitMix64 of Steele, Lea and Flood (OOPSLA 2014),
 * with the seed mixed by it once. */
static inline uint64_t number_at(uint64_t seed, uint64_t position)
{
    uint64_t x = (seed + 1) * UINT64_C(0xd1342543de82ef95) + position * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The bits of a double, mixed so that a sum of them detects any change; the order of the sum does not matter. */
static inline uint64_t fingerprint(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits ^ bits >> 29) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The inverse of an odd number modulo 2^64; each round of Newton's method doubles the number of correct bits. */
static inline uint64_t inverse_of_odd(uint64_t odd)
{
    uint64_t x = odd; /* correct in 3 bits */
    for (int bits = 3; bits < 64; bits *= 2)
        x *= 2 - odd * x;
    return x;
}

#endif
