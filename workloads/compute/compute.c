/*
 * Computing only: integer multiply-adds in registers.
 *
 * Load on the machine: the multiplier of each core is busy. There is hardly any access to memory, and the threads
 * share nothing before the region's end.
 *
 * Effect of placement: nearly none, if each thread has its own core. So a search must cost nothing for this program,
 * and must find that placement does not matter. Two threads on the SMT siblings of one core do no more work than one.
 * On a hybrid machine the slower kind of core is slower. Threads that outnumber PUs share them.
 *
 * Check: the sum over all blocks of each iteration, compared with its closed form (chain.h).
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
