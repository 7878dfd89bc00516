/*
 * A histogram: each of many numbers is counted in one of 1024 bins.
 *
 * Load on the machine: the numbers stream through the caches. With `--mode private` each thread counts in its own
 * bins, 8 KiB that stay in the core's caches, and the bins are summed at the region's end. With `--mode shared` all
 * threads count in the same bins by atomic additions, so 128 lines move between all cores all the time.
 *
 * Effect of placement: in private mode numbers beyond the caches need bandwidth, as in `stream`, but for reading only
 * and with fewer bytes per core, so spreading over nodes pays only with more threads. In shared mode only the
 * distance between the cores matters: all threads on one last-level cache, even on SMT siblings; each further package
 * makes it slower. Ranks do not matter in either mode.
 *
 * Check: the numbers are a permutation of 0, 1, 2 ... (permutation.h), so each bin's count is known.
 */
#include "../workload.h"

#include "../permutation.h"

#include <stdatomic.h>

enum mode { PRIVATE, SHARED };
static const char *const modes[] = {[PRIVATE] = "private", [SHARED] = "shared", NULL};

#define BINS UINT64_C(1024)

static const struct workload histogram = {
    .name = "histogram",
    .summary = "a histogram, bound by bandwidth or, with shared bins, by coherence",
    .size_unit = "bytes",
    .size_meaning = "the numbers, rounded down to 4 times a power of two",
    .size = UINT64_C(16) << 20,
    .smallest_size = sizeof(uint32_t),
    .iterations = 200,
    .modes = modes,
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&histogram, argc, argv);
    const unsigned bits = permutation_bits(run.size / sizeof(uint32_t));
    if (bits > 32)
        workload_usage_error(&histogram, "--size %" PRIu64 ": numbers have 32 bits, so 16G is the largest size",
                             run.size);
    const uint64_t length = UINT64_C(1) << bits;
    run.size = length * sizeof(uint32_t);
    uint32_t *numbers = workload_allocate(&run, run.size);
    _Atomic uint64_t *shared = workload_allocate(&run, BINS * sizeof *shared);
    uint64_t private[BINS] = {0};

    const struct permutation order = permutation_make(bits, 0);
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++)
        numbers[i] = (uint32_t)permute(&order, i);
    for (uint64_t bin = 0; bin < BINS; bin++)
        atomic_init(&shared[bin], 0);

    workload_start(&run);
    while (workload_next(&run)) {
        if (run.mode == SHARED) {
#pragma omp parallel for schedule(static)
            for (uint64_t i = 0; i < length; i++)
                atomic_fetch_add_explicit(&shared[numbers[i] % BINS], 1, memory_order_relaxed);
        } else {
#pragma omp parallel for schedule(static) reduction(+ : private[ : BINS])
            for (uint64_t i = 0; i < length; i++)
                private[numbers[i] % BINS]++;
        }
    }

    if (run.mode == SHARED)
        for (uint64_t bin = 0; bin < BINS; bin++)
            private[bin] = shared[bin];
    private[BINS / 2] ^= run.corrupt;
    uint64_t sum = 0;
    for (uint64_t bin = 0; bin < BINS; bin++) {
        const uint64_t turns = length / BINS + (bin < length % BINS); /* numbers below `length` that end in `bin` */
        if (private[bin] != turns * run.iterations)
            workload_wrong(&run, "bin %" PRIu64 " has %" PRIu64 " numbers and must have %" PRIu64, bin, private[bin],
                           turns * run.iterations);
        sum += private[bin] * (2 * bin + 1);
    }
    workload_report(&run, 1e-6 * (double)length * (double)run.iterations, "million numbers", sum);
    free(numbers);
    free(shared);
    return EXIT_SUCCESS;
}
