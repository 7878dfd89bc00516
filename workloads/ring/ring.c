/*
 * Neighbours that share large blocks: an array is divided into equal blocks among the threads, which form a ring. In
 * an iteration each thread reads its block and the data a fixed distance before it, writes new values to a second
 * array, and the arrays are swapped.
 *
 * The distance is a 56th of the array, so that the values do not depend on the number of threads. With 56 threads all
 * partners of a block are the previous thread's block. With fewer threads some partners are in the thread's own block
 * (57% with 24 threads, half with 28); with more, some are in the block before that (all with 112 threads), and with
 * 128 threads 29% are in the third block before. So a thread reads from its closest predecessors in all cases, and an
 * element has two readers.
 *
 * Load on the machine: three streams, two that are read and one that is written, with an operation for each number.
 * One of those that are read is another thread's data: it was written there an iteration ago, and the other thread
 * reads it too.
 *
 * Effect of placement: neighbouring ranks share about as much data as they have themselves, and ranks that are not
 * neighbours share nothing. Beyond the caches, pages are on the nodes of the threads that own the blocks, so ranks in
 * order should be on one node, and the next ranks on the next; a spread in which neighbours alternate between nodes
 * moves all partners over the links. Blocks that fit the caches move from cache to cache, so neighbours should have
 * one last-level cache. All nodes should be used for bandwidth in both cases.
 *
 * Check: the start is a wave, 1 + cos(2 pi i / n). The mean of an element and the one d before it is the same wave,
 * later by d / 2 and multiplied by cos(pi d / n). So every element is known after any number of iterations. (The 1
 * also keeps the values from becoming subnormal numbers, which are slow.)
 */
#include "../workload.h"

#include "../numbers.h"

/* How many distances the array has. */
#define DISTANCES 56

static const struct workload ring = {
    .name = "ring",
    .summary = "blocks that are updated from the previous thread's blocks, bound by the data that neighbours share",
    .size_unit = "bytes",
    .size_meaning = "both arrays, which have the blocks of all threads, together",
    .size = UINT64_C(128) << 20,
    .smallest_size = 2 * sizeof(double),
    .iterations = 200,
};

static const double pi = 3.14159265358979323846;

/* Element `i` of `length` once the wave is `delay` half elements later and has shrunk by `decay`. */
static double exact(uint64_t i, uint64_t length, uint64_t delay, double decay)
{
    const uint64_t halves = (2 * i + 2 * length - delay % (2 * length)) % (2 * length);
    return 1 + decay * cos(pi * (double)halves / (double)length);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&ring, argc, argv);
    const uint64_t length = run.size / (2 * sizeof(double));
    const uint64_t distance = length > DISTANCES ? length / DISTANCES : 1;
    run.size = length * 2 * sizeof(double);
    double *from = workload_allocate(&run, length * sizeof *from);
    double *to = workload_allocate(&run, length * sizeof *to);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++) {
        from[i] = exact(i, length, 0, 1);
        to[i] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < length; i++)
            to[i] = 0.5 * (from[i] + from[i >= distance ? i - distance : i + length - distance]);
        double *swapped = from;
        from = to;
        to = swapped;
    }

    from[length / 2] += (double)run.corrupt;
    const uint64_t delay = run.iterations * distance;
    const double decay = pow(cos(pi * (double)distance / (double)length), (double)run.iterations);
    /* An iteration rounds each value, at most 2, once, and does not enlarge the errors before it; pow() and the
     * comparison add a few more. */
    const double tolerance = 2 * 2.3e-16 * 2 * (double)(run.iterations + 16);
    uint64_t first_wrong = length, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < length; i++) {
        if (!(fabs(from[i] - exact(i, length, delay, decay)) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(from[i]) * (2 * i + 1);
    }
    if (first_wrong < length)
        workload_wrong(&run, "element %" PRIu64 " is %.17g and must be %.17g", first_wrong, from[first_wrong],
                       exact(first_wrong, length, delay, decay));
    workload_report(&run, 1e-6 * (double)length * (double)run.iterations, "million elements", sum);
    free(from);
    free(to);
    return EXIT_SUCCESS;
}
