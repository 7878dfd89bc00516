/*
 * Monte Carlo integration: points are drawn in the unit square, and those within the quarter of a circle are counted.
 *
 * Load on the machine: integer multiplications for the random numbers, floating-point ones for the distance, hardly
 * any memory, and nothing shared until the region's end.
 *
 * Effect of placement: nearly none, if each thread has its own core. The program is like `compute`, but with many
 * short independent chains instead of four long ones. They fill a core's multipliers, so an SMT sibling adds little;
 * it adds much for a program with long latencies.
 *
 * Method: the points are those of a grid of 2^k by 2^k, drawn at random without replacement, by another permutation
 * (permutation.h) in each iteration. So an iteration draws every point of the grid once.
 *
 * Check: the exact number of grid points within the circle, counted row by row.
 */
#include "../workload.h"

#include "../permutation.h"

static const struct workload monte_carlo = {
    .name = "monte_carlo",
    .summary = "Monte Carlo integration, bound by the cores alone",
    .size_unit = "points",
    .size_meaning = "points drawn in an iteration, rounded down to a power of four",
    .size = UINT64_C(4) << 20,
    .smallest_size = 1,
    .iterations = 200,
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&monte_carlo, argc, argv);
    const unsigned bits = permutation_bits(run.size) / 2; /* of each coordinate */
    const uint64_t side = UINT64_C(1) << bits;
    run.size = side * side;
    /* Points lie in the middle of the grid's squares, so that none is on the circle. */
    const double radius = (double)side;

    uint64_t hits = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        const struct permutation order = permutation_make(2 * bits, run.iterations);
#pragma omp parallel for schedule(static) reduction(+ : hits)
        for (uint64_t i = 0; i < side * side; i++) {
            const uint64_t drawn = permute(&order, i);
            const double x = (double)(drawn >> bits) + 0.5, y = (double)(drawn & (side - 1)) + 0.5;
            hits += x * x + y * y < radius * radius;
        }
    }

    hits ^= run.corrupt;
    uint64_t within = 0, column = side; /* the first column of the row whose point is outside */
    for (uint64_t row = 0; row < side; row++) {
        const double y = (double)row + 0.5;
        while (column > 0 && ((double)column - 0.5) * ((double)column - 0.5) + y * y >= radius * radius)
            column--;
        within += column;
    }
    if (hits != within * run.iterations)
        workload_wrong(&run, "%" PRIu64 " points are within the circle and must be %" PRIu64, hits,
                       within * run.iterations);
    workload_report(&run, 1e-6 * (double)run.size * (double)run.iterations, "million points", hits);
    return EXIT_SUCCESS;
}
