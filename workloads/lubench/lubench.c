/*
 * SAM's LuBench: two threads that share data under a lock now and then, and compute in between (coherence.h). "Lu" is
 * for a low rate of coherence events, close to the threshold from which SAM co-locates threads: the paper (USENIX ATC
 * 2015, sections 2.1 and 4.1) gives 2.6e-4 a cycle, the threshold being 2.5e-4.
 *
 * What it does to a machine: it computes in registers, as `compute` does, and every so many steps the lines of the
 * lock and of the data go from one core of a pair to the other.
 *
 * What placement does to it: some 5 % are to be had from ranks 2k and 2k + 1 in one package; with more steps between
 * accesses, nothing, with fewer, more. Two threads on SMT siblings are close but compute at about half the speed, so
 * that the nearest place is not the best. `--mode` gives the steps; from the largest to the smallest, and then hubench,
 * they follow the paper's figure 1 from left to right.
 *
 * How: an access moves two lines, that of the lock and that of the data, so that 2.5e-4 events a cycle are an access in
 * 8000 cycles. A step takes at least 4 cycles, the latency of a multiply-add; 1600 steps and the access make about
 * that. That is an estimate; the rate that a machine shows depends on its core and on the way between cores.
 *
 * Check: the number of accesses and the sum of what they added.
 */
#include "../coherence.h"

/* The number of steps between two accesses. */
static const char *const modes[] = {"1600", "100", "200", "400", "800", "3200", "6400", "25600", NULL};

static const struct workload lubench = {
    .name = "lubench",
    .summary = "pairs of threads that share data under a lock now and then, at the threshold of co-location",
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
