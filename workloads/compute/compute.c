/*
 * Computing only: integer multiply-adds in registers.
 *
 * What it does to a machine: it keeps the multiplier of each core busy. It reads and writes no memory to speak of and
 * the threads share nothing until the region's end.
 *
 * What placement does to it: nearly nothing, as long as each thread has a core for itself; that is its use, as the
 * program for which a search must not cost anything and a verdict must be `does not matter`. Two threads on the SMT
 * siblings of one core do no more than one, and on a hybrid machine the slower kind of core is slower. More threads
 * than PUs share them.
 *
 * Check: the sum over all blocks of each iteration, against its closed form (chain.h).
 */
#include "../workload.h"

#include "../chain.h"

static const struct workload compute = {
    .name = "compute",
    .summary = "multiply-adds in registers, bound by the cores alone",
    .size_unit = "steps",
    .size_meaning = "work of an iteration, all threads together, rounded down to a multiple of 1024",
    .size = UINT64_C(16) << 20,
    .smallest_size = 1024,
    .iterations = 200,
};

/* The work is cut the same way for any number of threads, so that the result is the same. */
#define BLOCKS UINT64_C(1024)

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&compute, argc, argv);
    const uint64_t steps = run.size / BLOCKS;
    run.size = steps * BLOCKS;
    uint64_t expected = 0;
    for (uint64_t block = 0; block < BLOCKS; block++)
        expected += chain_expected(block, steps);

    uint64_t sum = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (uint64_t block = 0; block < BLOCKS; block++)
            sum += chain_run(block, steps);
        sum ^= run.corrupt;
        if (sum != expected)
            workload_wrong(&run, "the sum of iteration %" PRIu64 " is %" PRIu64 " and must be %" PRIu64,
                           run.iterations, sum, expected);
    }
    workload_report(&run, 1e-6 * (double)run.size * (double)run.iterations, "million steps", sum);
    return EXIT_SUCCESS;
}
