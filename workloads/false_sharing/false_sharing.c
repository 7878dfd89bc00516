/*
 * False sharing: each thread increments its own counter, but the counters are next to each other in cache lines.
 *
 * Load on the machine: with `--mode shared`, eight counters are in a 64-byte line. Several cores write the line in
 * turn, and it moves between their caches at every turn. The program itself shares nothing: `--mode padded` puts each
 * counter on a separate line and runs without any traffic. This is the remedy, and the comparison here.
 *
 * Effect of placement: in shared mode the threads that share a line should be close together, on SMT siblings (one
 * first-level cache, no transfers at all) or on one last-level cache. Between packages each transfer takes several
 * times as long. It matters which ranks are together: ranks 8 k to 8 k + 7 share a line. In padded mode only SMT
 * siblings make a difference.
 *
 * The increments are atomic, like those of reference counts and locks. Recent cores would serve plain increments from
 * the store buffer, which hides most of the transfers: on two Sapphire Rapids cores, sharing cost plain increments a
 * tenth of their rate, and atomic ones four fifths.
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
