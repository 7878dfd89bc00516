/*
 * Uneven work: a loop whose items cost more and more, the last one twice the mean.
 *
 * What it does to a machine: it computes in registers, like `compute`. With `--mode static` each thread gets an equal
 * number of items, in order, so that with T threads the last one has (2 T - 1) / T times the mean work and the others
 * wait for it at the region's end. With `--mode dynamic` the threads fetch items as they go, and all end together.
 *
 * What placement does to it: in static mode the region lasts as long as its last rank. That one wants the fastest
 * core (of a hybrid machine, say), and a core of its own rather than an SMT sibling that is busy early on; where the
 * others run hardly matters. In dynamic mode any set of cores is as good as its total speed, and which rank is where
 * does not matter. Metrics that average over threads hide this: in static mode the waiting ranks look busy or idle
 * by how the runtime waits, and neither is progress.
 *
 * Check: the sum over all items of each iteration, against its closed form (chain.h).
 */
#include "../workload.h"

#include "../chain.h"

enum mode { STATIC, DYNAMIC };
static const char *const modes[] = {[STATIC] = "static", [DYNAMIC] = "dynamic", NULL};

static const struct workload imbalance = {
    .name = "imbalance",
    .summary = "uneven work, bound by the thread that has most of it",
    .size_unit = "steps",
    .size_meaning = "work of an iteration, all threads together, about",
    .size = UINT64_C(16) << 20,
    .smallest_size = 1024,
    .iterations = 200,
    .modes = modes,
};

#define ITEMS UINT64_C(1024)

/* The steps of an item; over all items they add up to `size`, but for rounding. */
static uint64_t cost(uint64_t item, uint64_t size)
{
    return size / ITEMS * (2 * item + 1) / ITEMS;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&imbalance, argc, argv);
    uint64_t expected = 0, steps = 0;
    for (uint64_t item = 0; item < ITEMS; item++) {
        expected += chain_expected(item, cost(item, run.size));
        steps += cost(item, run.size);
    }
    omp_set_schedule(run.mode == DYNAMIC ? omp_sched_dynamic : omp_sched_static, 0); /* 0: the default chunk */

    uint64_t sum = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        sum = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
        for (uint64_t item = 0; item < ITEMS; item++)
            sum += chain_run(item, cost(item, run.size));
        sum ^= run.corrupt;
        if (sum != expected)
            workload_wrong(&run, "the sum of iteration %" PRIu64 " is %" PRIu64 " and must be %" PRIu64,
                           run.iterations, sum, expected);
    }
    workload_report(&run, 1e-6 * (double)steps * (double)run.iterations, "million steps", sum);
    return EXIT_SUCCESS;
}
