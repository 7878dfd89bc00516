/*
 * A finite impulse response filter: each sample of the output is the sum of sixteen consecutive samples of the input,
 * each times a coefficient. The output is the input of the next iteration. The samples are divided into equal blocks
 * among the threads.
 *
 * Load on the machine: one array is read and one is written, from begin to end, with sixteen multiplications for each
 * sample. All but one of the sixteen samples are in the first-level cache. At the end of its block a thread reads a few
 * samples that the next thread wrote an iteration ago.
 *
 * Effect of placement: little, if each thread has its own core, while the multiplications take longer than the memory.
 * With many cores on a memory controller, arrays beyond the caches need bandwidth, so threads should be spread, with
 * their pages on their own nodes (first touch places the pages).
 *
 * Check: the coefficients at even distances add up to 1, those at odd ones to 0. So the filter leaves an alternation
 * between two values as it is, and moves a ramp by a constant. The signal is a ramp and an alternation, all numbers
 * are whole, and so each sample is known exactly after any number of iterations. Beyond the end the ramp goes on.
 */
#include "../workload.h"

#include "../numbers.h"

#define TAPS UINT64_C(16)

/* The bytes of a sample in both arrays. */
#define SAMPLE_BYTES (2 * sizeof(double))

/* The height of the alternation. */
#define HEIGHT 1000

static const double coefficient[TAPS] = {4, -1, -3, 3, 2, -2, -5, 5, 6, -4, -2, 1, 1, -3, -2, 1};

static const struct workload fir = {
    .name = "fir",
    .summary = "a finite impulse response filter of sixteen samples, bound by multiplications and bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the two arrays of samples together",
    .size = UINT64_C(64) << 20,
    .smallest_size = SAMPLE_BYTES,
    .iterations = 200,
};

/* How far an iteration moves the ramp. */
static double moved(void)
{
    double sum = 0;
    for (uint64_t tap = 0; tap < TAPS; tap++)
        sum += coefficient[tap] * (double)tap;
    return sum;
}

/* A sample after this number of iterations. */
static double exact(uint64_t i, uint64_t iterations)
{
    return (double)i + moved() * (double)iterations + (i % 2 ? HEIGHT : 0);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&fir, argc, argv);
    const uint64_t samples = run.size / SAMPLE_BYTES;
    run.size = samples * SAMPLE_BYTES;
    double *from = workload_allocate(&run, (samples + TAPS) * sizeof *from);
    double *to = workload_allocate(&run, (samples + TAPS) * sizeof *to);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < samples; i++) {
        from[i] = exact(i, 0);
        to[i] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
        for (uint64_t i = samples; i < samples + TAPS; i++)
            from[i] = exact(i, run.iterations - 1);
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < samples; i++) {
            double sum = 0;
            for (uint64_t tap = 0; tap < TAPS; tap++)
                sum += coefficient[tap] * from[i + tap];
            to[i] = sum;
        }
        double *swapped = from;
        from = to;
        to = swapped;
    }

    from[samples / 2] += (double)run.corrupt;
    uint64_t first_wrong = samples, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < samples; i++) {
        if (from[i] != exact(i, run.iterations) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(from[i]) * (2 * i + 1);
    }
    if (first_wrong < samples)
        workload_wrong(&run, "sample %" PRIu64 " is %.17g and must be %.17g", first_wrong, from[first_wrong],
                       exact(first_wrong, run.iterations));
    workload_report(&run, 1e-6 * (double)samples * (double)run.iterations, "million samples", sum);
    free(from);
    free(to);
    return EXIT_SUCCESS;
}
