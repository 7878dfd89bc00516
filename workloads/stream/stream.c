/*
 * Streaming triad: a[i] = b[i] + s c[i] over arrays that are larger than the caches by default.
 *
 * Load on the machine: only memory bandwidth. Hardware prefetchers hide the latency, each byte is used once, and the
 * threads share nothing.
 *
 * Effect of placement: large. One core can use a large part of the bandwidth of its memory controller. So threads
 * should be spread over all packages and NUMA nodes, and over the cores of each before a second SMT thread of a core
 * is used. A thread's pages should be on its own node: the thread that later works on an array's part touches it
 * first, and a thread that is moved without its pages has longer latencies. With a --size that fits the caches the
 * same is true of last-level caches: more caches hold more data.
 *
 * Check: all values are small integers and so exact; every element of the last iteration is compared.
 */
#include "../workload.h"

static const struct workload stream = {
    .name = "stream",
    .summary = "a streaming triad, bound by memory bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the three arrays together",
    .size = UINT64_C(192) << 20,
    .smallest_size = 3 * sizeof(double),
    .iterations = 200,
};

/* The scalar changes with each iteration, so that one that was not done shows. */
static double scalar(uint64_t iteration)
{
    return (double)(iteration % 1000);
}

static double initial_b(uint64_t i)
{
    return (double)(i % 1024);
}

static double initial_c(uint64_t i)
{
    return (double)(i % 511);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&stream, argc, argv);
    const uint64_t length = run.size / (3 * sizeof(double));
    run.size = length * 3 * sizeof(double);
    double *restrict a = workload_allocate(&run, length * sizeof *a);
    double *restrict b = workload_allocate(&run, length * sizeof *b);
    double *restrict c = workload_allocate(&run, length * sizeof *c);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++) {
        a[i] = 0;
        b[i] = initial_b(i);
        c[i] = initial_c(i);
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const double s = scalar(run.iterations);
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < length; i++)
            a[i] = b[i] + s * c[i];
    }

    a[length / 2] += (double)run.corrupt;
    const double s = scalar(run.iterations);
    uint64_t first_wrong = length, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < length; i++) {
        if (a[i] != initial_b(i) + s * initial_c(i) && i < first_wrong)
            first_wrong = i;
        sum += (uint64_t)a[i];
    }
    if (first_wrong < length)
        workload_wrong(&run, "a[%" PRIu64 "] is %g and must be %g", first_wrong, a[first_wrong],
                       initial_b(first_wrong) + s * initial_c(first_wrong));
    workload_report(&run, 1e-6 * (double)run.size * (double)run.iterations, "MB", sum);
    free(a);
    free(b);
    free(c);
    return EXIT_SUCCESS;
}
