/*
 * Arithmetic that keeps a core busy without memory, with a result that can be computed without the work.
 *
 * A chain is the linear congruential generator x -> a x + c modulo 2^64 with the constants of Knuth's MMIX (The Art
 * of Computer Programming, volume 2, 3.3.4). Each step needs its predecessor, so a compiler can neither skip nor
 * vectorise the chain. Four chains run side by side, about as many as fill the multiplier's pipeline (a multiply-add
 * takes 4 cycles on most x86-64 cores, and a new one can begin in each cycle).
 *
 * n steps together are again x -> A x + C. A and C are computed in log n doublings; this is the check of a run.
 */
#ifndef WORKLOAD_CHAIN_H
#define WORKLOAD_CHAIN_H

#include <stdint.h>

#define CHAIN_MULTIPLIER UINT64_C(6364136223846793005)
#define CHAIN_INCREMENT UINT64_C(1442695040888963407)

/* Runs `steps` steps of the four chains of `seed`; a step of all four counts as one. Returns the sum of their ends. */
static inline uint64_t chain_run(uint64_t seed, uint64_t steps)
{
    uint64_t w = 4 * seed, x = w + 1, y = w + 2, z = w + 3;
    for (uint64_t step = 0; step < steps; step++) {
        w = w * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
        x = x * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
        y = y * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
        z = z * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
        /* No instruction; it keeps the compiler from merging two steps into one, as Clang does, or vectorising. */
        __asm__ volatile("" : "+r"(w), "+r"(x), "+r"(y), "+r"(z));
    }
    return w + x + y + z;
}

/* The expected result of chain_run(), computed by doubling. */
static inline uint64_t chain_expected(uint64_t seed, uint64_t steps)
{
    uint64_t multiplier = 1, increment = 0; /* of the steps taken so far */
    uint64_t power_multiplier = CHAIN_MULTIPLIER, power_increment = CHAIN_INCREMENT; /* of 1, 2, 4 ... steps */
    for (; steps > 0; steps >>= 1) {
        if (steps & 1) {
            multiplier *= power_multiplier;
            increment = increment * power_multiplier + power_increment;
        }
        power_increment *= power_multiplier + 1;
        power_multiplier *= power_multiplier;
    }
    uint64_t starts = 4 * (4 * seed) + 0 + 1 + 2 + 3;
    return starts * multiplier + 4 * increment;
}

#endif
