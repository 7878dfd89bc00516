/*
 * SAM's HuBench: two threads that share data under a lock and do nothing else (coherence.h). "Hu" is for a high rate
 * of coherence events; the paper (USENIX ATC 2015, section 4.1) gives 1.3e-3 per cycle, which is about the highest
 * possible rate.
 *
 * Load on the machine: the lines of the lock and of the data move between the two cores of a pair at each access.
 * Memory is idle, and pairs are independent of each other.
 *
 * Effect of placement: the largest possible gain from co-location. Ranks 2k and 2k + 1 should be in one package, on
 * one last-level cache, best on SMT siblings. Between packages an access takes several times as long. This is the
 * right end of the paper's figure 1. Two threads of a pair on one PU wait for the scheduler.
 *
 * Check: the number of accesses and the sum of the added values.
 */
#include "../coherence.h"

static const struct workload hubench = {
    .name = "hubench",
    .summary = "pairs of threads that share data under a lock all the time, bound by coherence",
    .size_unit = "accesses",
    .size_meaning = "accesses to shared data in an iteration, all threads together",
    .size = UINT64_C(64) << 10,
    .smallest_size = 1,
    .iterations = 400,
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&hubench, argc, argv);
    coherence_run(&run, run.size, 0);
    return EXIT_SUCCESS;
}
