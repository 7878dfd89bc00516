/*
 * The Mandelbrot set, point by point, row by row. Threads fetch one row after the other.
 *
 * Load on the machine: it computes in registers. A point takes between 1 and 256 steps, and the rows differ by large
 * factors, so they are distributed dynamically. The threads share only the counter of rows, and each point of the
 * image is written once.
 *
 * Effect of placement: small. Only the total speed of the cores matters, faster and slower ones mixed, because no
 * thread waits for another until the last rows. A chain of dependent multiplications leaves room for an SMT sibling.
 * The places of ranks and of pages do not matter. Compared with `imbalance --mode dynamic`, this program has
 * floating-point work and branches.
 *
 * Check: the image is symmetric about the real axis, bit by bit; points in the set's main cardioid and in its largest
 * disc never escape; points farther than 2 from the origin escape at once. Each iteration moves the section of the
 * plane a little to the right.
 */
#include "../workload.h"

#define LIMIT 256

static const struct workload mandelbrot = {
    .name = "mandelbrot",
    .summary = "the Mandelbrot set, bound by the cores alone, with rows of very different cost",
    .size_unit = "bytes",
    .size_meaning = "the square image, 4 bytes per point",
    .size = UINT64_C(1) << 20,
    .smallest_size = 2 * 2 * sizeof(uint32_t),
    .iterations = 200,
};

struct view {
    double left; /* the real part of the leftmost points */
    double step; /* from point to point */
    uint64_t side;
};

static double real_part(struct view view, uint64_t column)
{
    return view.left + view.step * (double)column;
}

/* Exactly opposite for a row and the one that mirrors it. */
static double imaginary_part(struct view view, uint64_t row)
{
    return view.step / 2 * ((double)(2 * row + 1) - (double)view.side);
}

/* How many steps a point takes to escape, at most LIMIT. */
static uint32_t steps_to_escape(double cx, double cy)
{
    double x = 0, y = 0;
    uint32_t steps = 0;
    while (steps < LIMIT && x * x + y * y <= 4) {
        const double next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        steps++;
    }
    return steps;
}

/* Whether theory allows this number of steps; the margins are for rounding. */
static bool is_possible(double cx, double cy, uint32_t steps)
{
    const double margin = 1e-9, squared = (cx - 0.25) * (cx - 0.25) + cy * cy;
    const bool in_cardioid = squared * (squared + cx - 0.25) < 0.25 * cy * cy - margin;
    const bool in_disc = (cx + 1) * (cx + 1) + cy * cy < 0.0625 - margin;
    if (in_cardioid || in_disc)
        return steps == LIMIT;
    if (cx * cx + cy * cy > 4 + margin)
        return steps == 1;
    return steps >= 1 && steps <= LIMIT;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&mandelbrot, argc, argv);
    const uint64_t side = (uint64_t)sqrt((double)(run.size / sizeof(uint32_t))) / 2 * 2;
    run.size = side * side * sizeof(uint32_t);
    uint32_t *image = workload_allocate(&run, run.size);
    struct view view = {.step = 3.0 / (double)side, .side = side};

    workload_start(&run);
    while (workload_next(&run)) {
        view.left = -2.25 + (double)(run.iterations % 64) / 256;
#pragma omp parallel for schedule(dynamic)
        for (uint64_t row = 0; row < side; row++)
            for (uint64_t column = 0; column < side; column++)
                image[row * side + column] = steps_to_escape(real_part(view, column), imaginary_part(view, row));
    }

    image[side / 2] ^= (uint32_t)run.corrupt;
    uint64_t first_wrong = side * side, sum = 0, steps = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum, steps)
    for (uint64_t i = 0; i < side * side; i++) {
        const uint64_t row = i / side, column = i % side;
        if ((image[i] != image[(side - 1 - row) * side + column] ||
             !is_possible(real_part(view, column), imaginary_part(view, row), image[i])) &&
            i < first_wrong)
            first_wrong = i;
        sum += image[i] * (2 * i + 1);
        steps += image[i];
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "the point (%" PRIu64 ", %" PRIu64 ") of the image cannot take %" PRIu32 " steps",
                       first_wrong % side, first_wrong / side, image[first_wrong]);
    /* All iterations count as many steps as the last one. */
    workload_report(&run, 1e-6 * (double)steps * (double)run.iterations, "million steps", sum);
    free(image);
    return EXIT_SUCCESS;
}
