/*
 * SAM's LuBench: two threads that share data under a lock at intervals, and compute in between (coherence.h). "Lu" is
 * for a low rate of coherence events, close to the threshold above which SAM co-locates threads: the paper (USENIX
 * ATC 2015, sections 2.1 and 4.1) gives 2.6e-4 per cycle, and the threshold is 2.5e-4.
 *
 * Load on the machine: it computes in registers, like `compute`. After a given number of steps the lines of the lock
 * and of the data move between the two cores of a pair.
 *
 * Effect of placement: some 5 % can be gained with ranks 2k and 2k + 1 in one package; nothing with more steps
 * between accesses, and more with fewer. Two threads on SMT siblings are close but compute at about half the speed,
 * so the nearest place is not the best. `--mode` gives the steps. From the largest number to the smallest, and then
 * hubench, they follow the paper's figure 1 from left to right.
 *
 * Method: an access moves two lines, those of the lock and of the data, so 2.5e-4 events per cycle are one access in
 * 8000 cycles. A step takes at least 4 cycles, the latency of a multiply-add; 1600 steps and the access take about
 * this time. This is an estimate; the real rate depends on the machine's cores and on the distance between them.
 *
 * Check: the number of accesses and the sum of the added values.
 */
#include "../coherence.h"

/* The number of steps between two accesses. */
static const char *const modes[] = {"1600", "100", "200", "400", "800", "3200", "6400", "25600", NULL};

static const struct workload lubench = {
    .name = "lubench",
    .summary = "pairs of threads that share data under a lock at intervals, at the threshold of co-location",
    .size_unit = "steps",
    .size_meaning = "computing in an iteration, all threads together, in whole accesses, at least one",
    .size = UINT64_C(16) << 20,
    .smallest_size = 1,
    .iterations = 200,
    .modes = modes,
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&lubench, argc, argv);
    const uint64_t steps = workload_number(modes[run.mode]);
    const uint64_t accesses = run.size < steps ? 1 : run.size / steps;
    run.size = accesses * steps;
    coherence_run(&run, accesses, steps);
    return EXIT_SUCCESS;
}
