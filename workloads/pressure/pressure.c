/*
 * The pressure in the elements of a material, in two passes over arrays: first the stiffness of each element from its
 * compression, then its pressure from stiffness and energy. A pressure near zero becomes zero, one below a limit
 * becomes the limit, and an element with a large volume has none. The elements are divided into equal blocks among the
 * threads.
 *
 * Load on the machine: the first pass reads one array and writes one, the second reads three and writes one, with one
 * or two operations for each number. No thread reads what another writes. The second pass begins without a wait for
 * the other threads, because the blocks are the same in both.
 *
 * Effect of placement: elements beyond the caches need bandwidth and their pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). If a thread's block fits its caches, a core for each thread is all
 * that counts.
 *
 * Check: compressions, volumes and energies are whole numbers that depend on the element's number, and the material
 * becomes stiffer with each iteration, over and over again. Each pressure is computed again in integers, and compared
 * exactly. So is each stiffness.
 */
#include "../workload.h"

#include "../numbers.h"

#define ARRAYS 5
#define ELEMENT_BYTES (ARRAYS * sizeof(double))

/* Compressions, volumes and energies are below these; energies may be negative. */
#define COMPRESSIONS 1000
#define VOLUMES 1000
#define ENERGIES 100000

#define LARGE_VOLUME 900        /* from this on there is no pressure */
#define SMALL_PRESSURE 100000   /* what is nearer to zero than this becomes zero */
#define LEAST_PRESSURE -5000000 /* what is less becomes this */

/* The material becomes stiffer for this number of iterations before it begins again. */
#define STIFFER 1000

static const struct workload pressure = {
    .name = "pressure",
    .summary = "the pressure in elements of a material in two passes over five arrays, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "all arrays together",
    .size = UINT64_C(64) << 20,
    .smallest_size = ELEMENT_BYTES,
    .iterations = 300,
};

static int64_t compression_of(uint64_t i)
{
    return (int64_t)(number_at(0, i) % COMPRESSIONS);
}

static int64_t volume_of(uint64_t i)
{
    return (int64_t)(number_at(1, i) % VOLUMES);
}

static int64_t energy_of(uint64_t i)
{
    return (int64_t)(number_at(2, i) % ENERGIES) - ENERGIES / 4;
}

/* How stiff the material is in an iteration, counted from 1. */
static int64_t stiffness_in(uint64_t iteration)
{
    return (int64_t)(iteration % STIFFER) + 1;
}

/* The pressure in an element after this number of iterations. */
static int64_t exact(uint64_t i, uint64_t iterations)
{
    const int64_t value = stiffness_in(iterations) * (compression_of(i) + 1) * energy_of(i);
    if (volume_of(i) >= LARGE_VOLUME || llabs(value) < SMALL_PRESSURE)
        return 0;
    return value < LEAST_PRESSURE ? LEAST_PRESSURE : value;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&pressure, argc, argv);
    const uint64_t elements = run.size / ELEMENT_BYTES;
    run.size = elements * ELEMENT_BYTES;
    double *array[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        array[i] = workload_allocate(&run, elements * sizeof(double));
    double *compressed = array[0], *volume = array[1], *energy = array[2], *stiff = array[3], *result = array[4];

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < elements; i++) {
        compressed[i] = (double)compression_of(i);
        volume[i] = (double)volume_of(i);
        energy[i] = (double)energy_of(i);
        stiff[i] = result[i] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const double stiffness = (double)stiffness_in(run.iterations);
#pragma omp parallel
        {
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++)
                stiff[i] = stiffness * (compressed[i] + 1);
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++) {
                double value = stiff[i] * energy[i];
                if (fabs(value) < SMALL_PRESSURE || volume[i] >= LARGE_VOLUME)
                    value = 0;
                result[i] = value < LEAST_PRESSURE ? LEAST_PRESSURE : value;
            }
        }
    }

    result[elements / 2] += (double)run.corrupt;
    uint64_t first_wrong = elements, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < elements; i++) {
        const int64_t stiffness = stiffness_in(run.iterations) * (compression_of(i) + 1);
        const bool right = result[i] == (double)exact(i, run.iterations) && stiff[i] == (double)stiffness;
        if (!right && i < first_wrong)
            first_wrong = i;
        sum += (fingerprint(result[i]) + 3 * fingerprint(stiff[i])) * (2 * i + 1);
    }
    if (first_wrong < elements)
        workload_wrong(&run, "element %" PRIu64 " has the stiffness %.17g and the pressure %.17g", first_wrong,
                       stiff[first_wrong], result[first_wrong]);
    workload_report(&run, 1e-6 * (double)elements * (double)run.iterations, "million elements", sum);
    for (int i = 0; i < ARRAYS; i++)
        free(array[i]);
    return EXIT_SUCCESS;
}
