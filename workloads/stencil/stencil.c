/*
 * Two-dimensional Jacobi iteration: each inner point becomes the mean of its four neighbours, from one grid into
 * another. The rows are divided into equal blocks among the threads.
 *
 * Load on the machine: two grids stream through the caches, as in the triad, but two of three rows are reused from
 * the previous row of the sweep. Each thread also reads the edge rows of the threads before and after it, which were
 * written a sweep ago.
 *
 * Effect of placement: a grid beyond the caches needs bandwidth and its pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). A grid that fits the caches together needs as much cache as
 * possible, and ranks that are neighbours in the grid should be near to each other, because their edge rows move
 * between caches once per sweep. So the order of the ranks matters, not only the set of PUs.
 *
 * Check: the start is u = x + y + sin(pi x) sin(pi y) on the unit square. A sweep leaves x + y unchanged and
 * multiplies the sine term by cos(pi h), where h is the distance of the points: the sines are eigenvectors of the
 * iteration. So every point is known after any number of sweeps. (The linear part also keeps the values from becoming
 * subnormal numbers, which are slow.)
 */
#include "../workload.h"

#include "../numbers.h"

static const struct workload stencil = {
    .name = "stencil",
    .summary = "a two-dimensional Jacobi iteration, bound by bandwidth, with edges that neighbours exchange",
    .size_unit = "bytes",
    .size_meaning = "the two square grids together",
    .size = UINT64_C(64) << 20,
    .smallest_size = 2 * 3 * 3 * sizeof(double),
    .iterations = 300,
};

static const double pi = 3.14159265358979323846;

/* The value at (x, y) once the sine term has shrunk by `decay`. */
static double exact(uint64_t x, uint64_t y, double h, const double *sine, double decay)
{
    return h * (double)(x + y) + decay * sine[x] * sine[y];
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&stencil, argc, argv);
    uint64_t side = (uint64_t)sqrt((double)(run.size / (2 * sizeof(double))));
    if (side < 3)
        side = 3; /* the root may have been rounded down */
    const double h = 1.0 / (double)(side - 1);
    run.size = 2 * side * side * sizeof(double);
    double *from = workload_allocate(&run, side * side * sizeof *from);
    double *to = workload_allocate(&run, side * side * sizeof *to);

    /* One sine for each line of points, as sin(pi x) sin(pi y) needs only those. */
    double *sine = workload_allocate(&run, side * sizeof *sine);
    for (uint64_t i = 0; i < side; i++)
        sine[i] = sin(pi * h * (double)i);
    sine[0] = sine[side - 1] = 0;

    /* The first and last row never change; the thread of the next row touches them first. */
#pragma omp parallel for schedule(static)
    for (uint64_t row = 1; row < side - 1; row++) {
        const uint64_t first = row == 1 ? 0 : row;
        const uint64_t last = row == side - 2 ? side - 1 : row;
        for (uint64_t y = first; y <= last; y++)
            for (uint64_t x = 0; x < side; x++)
                from[y * side + x] = to[y * side + x] = exact(x, y, h, sine, 1);
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t y = 1; y < side - 1; y++) {
            const double *restrict above = from + (y - 1) * side, *restrict here = from + y * side,
                                   *restrict below = from + (y + 1) * side;
            double *restrict target = to + y * side;
            for (uint64_t x = 1; x < side - 1; x++)
                target[x] = 0.25 * (above[x] + below[x] + here[x - 1] + here[x + 1]);
        }
        double *swapped = from;
        from = to;
        to = swapped;
    }

    from[side + 1] += (double)run.corrupt;
    const double decay = pow(cos(pi * h), (double)run.iterations);
    /* A sweep rounds each value, at most 3, four times, and passes the errors of the last one on without enlarging
     * them; pow() and the comparison add a few more. */
    const double tolerance = 3 * 2.3e-16 * 4 * (double)(run.iterations + 16);
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < side * side; i++) {
        const double expected = exact(i % side, i / side, h, sine, decay);
        if (!(fabs(from[i] - expected) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(from[i]);
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "point (%" PRIu64 ", %" PRIu64 ") is %.17g and must be %.17g", first_wrong % side,
                       first_wrong / side, from[first_wrong],
                       exact(first_wrong % side, first_wrong / side, h, sine, decay));
    const double points = (double)((side - 2) * (side - 2)) * (double)run.iterations;
    workload_report(&run, 1e-6 * points, "million points", sum);
    free(from);
    free(to);
    free(sine);
    return EXIT_SUCCESS;
}
