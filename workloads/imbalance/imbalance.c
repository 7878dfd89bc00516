/*
 * Uneven work: a loop with items of increasing cost; the last item costs twice the mean.
 *
 * Load on the machine: it computes in registers, like `compute`. With `--mode static` each thread gets an equal
 * number of items, in order. So with T threads the last one has (2 T - 1) / T times the mean work, and the others
 * wait for it at the region's end. With `--mode dynamic` the threads fetch items one after the other, and all end
 * together.
 *
 * Effect of placement: in static mode the region takes as long as its last rank. This rank should have the fastest
 * core (of a hybrid machine, for example), and not an SMT sibling of a core that is busy at the beginning. The places
 * of the others hardly matter. In dynamic mode only the total speed of the cores matters, and not the place of each
 * rank. Metrics that average over threads hide this: in static mode the waiting ranks look busy or idle, depending on
 * how the runtime waits, and neither is progress.
 *
 * Check: the sum over all items of each iteration, compared with its closed form (chain.h).
 */
#include "../workload.h"

#include "../chain.h"

enum mode { STATIC, DYNAMIC };
static const char *const modes[] = {[STATIC] = "static", [DYNAMIC] = "dynamic", NULL};

static const struct workload imbalance = {
    .name = "imbalance",
    .summary = "uneven work, bound by the thread with most of the work",
    .size_unit = "steps",
    .size_meaning = "approximate work of an iteration, all threads together",
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
