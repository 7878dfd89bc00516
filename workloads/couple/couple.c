/*
 * The coupling of three waves, as of a laser's light in a plasma: the light and two scattered waves, each a complex
 * amplitude at every point, exchange energy through two densities of the plasma, complex numbers too, which do not
 * change. The points are divided into equal blocks among the threads.
 *
 * Load on the machine: five arrays of complex numbers stream through the caches, three of them are read and written,
 * with some sixty operations and a division for each point. No thread reads what another writes.
 *
 * Effect of placement: points beyond the caches need bandwidth and their pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). If a thread's block fits its caches, a core for each thread is all
 * that counts.
 *
 * Method: with the densities d and e, the light a and the waves b and c change by da = -(conj(d) b + conj(e) c), db =
 * d a and dc = e a. A step follows the implicit midpoint rule, solved by hand: with s = conj(d) b + conj(e) c and
 * h^2 = (|d|^2 + |e|^2) / 4, the light becomes ((1 - h^2) a - s) / (1 + h^2), and half the sum of the old and the new
 * light, times d and e, goes to the waves.
 *
 * Check: the light and s / (2 h) only turn into each other, by the angle 2 atan(h) in each step, and a part of the
 * waves, which the densities do not see, stays. So each amplitude is known after any number of iterations.
 */
#include "../workload.h"

#include "../numbers.h"

/* Three amplitudes and two densities. */
#define ARRAYS 5
#define POINT_BYTES (ARRAYS * sizeof(struct number))

struct number {
    double re, im;
};

static const struct workload couple = {
    .name = "couple",
    .summary = "the coupling of three waves in five complex arrays, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "all amplitudes and densities together",
    .size = UINT64_C(64) << 20,
    .smallest_size = POINT_BYTES,
    .iterations = 200,
};

enum { LIGHT, FIRST_WAVE, SECOND_WAVE, FIRST_DENSITY, SECOND_DENSITY };

static inline struct number sum_of(struct number a, struct number b)
{
    return (struct number){a.re + b.re, a.im + b.im};
}

static inline struct number times(double factor, struct number a)
{
    return (struct number){factor * a.re, factor * a.im};
}

static inline struct number product(struct number a, struct number b)
{
    return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* conj(a) b */
static inline struct number projected(struct number a, struct number b)
{
    return (struct number){a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}

static inline double square(struct number a)
{
    return a.re * a.re + a.im * a.im;
}

/* What is in array `array` at the start, with parts from -1 to 1; densities are smaller, and not zero. */
static struct number start_of(int array, uint64_t i)
{
    const uint64_t number = number_at((uint64_t)array, i);
    const struct number full = {(double)(number >> 33) / (double)(UINT64_C(1) << 30) - 1,
                                (double)(number & UINT32_MAX) / (double)(UINT64_C(1) << 31) - 1};
    if (array < FIRST_DENSITY)
        return full;
    return sum_of(times(0.25, full), (struct number){0.5, 0});
}

/* The light and the waves at a point after this number of iterations. */
static void exact(struct number *expected, uint64_t i, uint64_t iterations)
{
    const struct number light = start_of(LIGHT, i), b = start_of(FIRST_WAVE, i), c = start_of(SECOND_WAVE, i);
    const struct number d = start_of(FIRST_DENSITY, i), e = start_of(SECOND_DENSITY, i);
    const double length = sqrt(square(d) + square(e)), angle = 2 * atan(length / 2) * (double)iterations;
    const struct number seen = times(1 / length, sum_of(projected(d, b), projected(e, c)));
    const struct number change = sum_of(times(cos(angle) - 1, seen), times(sin(angle), light)); /* of what is seen */
    expected[LIGHT] = sum_of(times(cos(angle), light), times(-sin(angle), seen));
    expected[FIRST_WAVE] = sum_of(b, times(1 / length, product(d, change)));
    expected[SECOND_WAVE] = sum_of(c, times(1 / length, product(e, change)));
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&couple, argc, argv);
    const uint64_t points = run.size / POINT_BYTES;
    run.size = points * POINT_BYTES;
    struct number *array[ARRAYS];
    for (int a = 0; a < ARRAYS; a++)
        array[a] = workload_allocate(&run, points * sizeof(struct number));
    struct number *light = array[LIGHT], *first = array[FIRST_WAVE], *second = array[SECOND_WAVE];
    const struct number *first_density = array[FIRST_DENSITY], *second_density = array[SECOND_DENSITY];

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < points; i++)
        for (int a = 0; a < ARRAYS; a++)
            array[a][i] = start_of(a, i);

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < points; i++) {
            const struct number a = light[i], b = first[i], c = second[i];
            const struct number d = first_density[i], e = second_density[i];
            const double h_squared = (square(d) + square(e)) / 4;
            const struct number scattered = sum_of(projected(d, b), projected(e, c));
            const struct number rest = sum_of(times(1 - h_squared, a), times(-1, scattered));
            const struct number after = times(1 / (1 + h_squared), rest);
            const struct number middle = times(0.5, sum_of(a, after));
            light[i] = after;
            first[i] = sum_of(b, product(d, middle));
            second[i] = sum_of(c, product(e, middle));
        }
    }

    light[points / 2].re += (double)run.corrupt;
    /* An iteration rounds each amplitude, at most 3, some ten times, and does not enlarge the errors before it. The
     * angle of all iterations together is rounded once, to a part of itself. */
    const double tolerance = 3 * 2.3e-16 * 32 * (double)(run.iterations + 16);
    uint64_t first_wrong = points, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < points; i++) {
        struct number expected[FIRST_DENSITY];
        exact(expected, i, run.iterations);
        for (int a = 0; a < FIRST_DENSITY; a++) {
            const struct number found = array[a][i];
            const double error = square(sum_of(found, times(-1, expected[a])));
            if (!(error <= tolerance * tolerance) && i < first_wrong)
                first_wrong = i;
            sum += (fingerprint(found.re) + 3 * fingerprint(found.im)) * (2 * (FIRST_DENSITY * i + (uint64_t)a) + 1);
        }
    }
    if (first_wrong < points)
        workload_wrong(&run, "at point %" PRIu64 " the light is (%.17g, %.17g)", first_wrong, light[first_wrong].re,
                       light[first_wrong].im);
    workload_report(&run, 1e-6 * (double)points * (double)run.iterations, "million points", sum);
    for (int a = 0; a < ARRAYS; a++)
        free(array[a]);
    return EXIT_SUCCESS;
}
