/*
 * False sharing: each thread increments a counter of its own, but the counters lie side by side in one cache line
 * after the other.
 *
 * What it does to a machine: with `--mode shared`, eight counters to a 64-byte line, a line is written by several
 * cores in turn and moves between their caches at every turn. Nothing is shared in the program's sense: `--mode
 * padded` puts each counter on a line of its own and runs without any traffic, which is the cure and here the
 * comparison.
 *
 * What placement does to it: in shared mode the threads that share a line want to be close together, on SMT siblings
 * (one first-level cache, no transfers at all) or on one last-level cache; across packages each transfer costs
 * several times as much. Which ranks are together matters: ranks 8 k to 8 k + 7 share a line. In padded mode only SMT
 * siblings are felt.
 *
 * The increments are atomic, as those of reference counts and locks are. Plain ones would be served from the store
 * buffer by recent cores, which hides most of the transfers: on two Sapphire Rapids cores plain increments lost a
 * tenth of their rate by sharing, atomic ones four fifths.
 *
 * Check: the sum of the counters.
 */
#include "../workload.h"

#include <stdatomic.h>

enum mode { SHARED, PADDED };
static const char *const modes[] = {[SHARED] = "shared", [PADDED] = "padded", NULL};

static const struct workload false_sharing = {
    .name = "false_sharing",
    .summary = "counters of several threads in one cache line, bound by coherence",
    .size_unit = "increments",
    .size_meaning = "increments in an iteration, all threads together",
    .size = UINT64_C(1) << 20,
    .smallest_size = 1,
    .iterations = 100,
    .modes = modes,
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&false_sharing, argc, argv);
    const uint64_t counters = (uint64_t)run.threads;
    const uint64_t distance = run.mode == PADDED ? WORKLOAD_LINE / sizeof(uint64_t) : 1;
    _Atomic uint64_t *counter = workload_allocate(&run, counters * distance * sizeof *counter);
    for (uint64_t i = 0; i < counters; i++)
        atomic_init(&counter[i * distance], 0);

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
            _Atomic uint64_t *mine = &counter[(uint64_t)omp_get_thread_num() * distance];
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < run.size; i++)
                atomic_fetch_add_explicit(mine, 1, memory_order_relaxed);
        }
    }

    counter[counters / 2 * distance] ^= run.corrupt;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < counters; i++)
        sum += counter[i * distance];
    if (sum != run.size * run.iterations)
        workload_wrong(&run, "the counters' sum is %" PRIu64 " and must be %" PRIu64, sum, run.size * run.iterations);
    workload_report(&run, 1e-6 * (double)sum, "million increments", sum);
    free(counter);
    return EXIT_SUCCESS;
}
