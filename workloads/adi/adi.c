/*
 * Alternating directions: a heat equation on the unit square by implicit steps, first along all rows, then along all
 * columns of the same grid. In one half of an iteration each thread solves a tridiagonal system for each of its rows,
 * in the other half for each of its columns.
 *
 * Load on the machine: each half reads and writes the whole grid twice, up and down each row or column. A thread's
 * columns have a piece of each row of the grid, and so of what each other thread has just written, and then its rows
 * have a piece of each column. So all data move between all threads twice per iteration. Eight columns, a line of 64
 * bytes, are solved at once, each line on another page if the grid is large; so are eight rows.
 *
 * Effect of placement: all pairs of threads exchange the same amount of data, so the order of the ranks does not
 * matter, but the number of packages does. A grid that fits the last-level caches moves from cache to cache, so
 * threads should be close together. A larger grid needs bandwidth, so threads should be spread over the nodes. First
 * touch places the pages by rows: these are near in one half, and on all nodes in the other, so that links between
 * nodes carry most of the data. Interleaved pages lose only the near half.
 *
 * Check: the start is u = x + y + sin(pi x) sin(pi y). Both halves leave x + y unchanged, as its second differences
 * are zero, and divide the sine term by 1 + 4 r sin(pi h / 2)^2, where h is the distance of the points. So every
 * point is known after any number of iterations. (The linear part also keeps the values from becoming subnormal
 * numbers, which are slow.)
 */
#include "../workload.h"

#include "../numbers.h"

/* Rows or columns that are solved at once. */
#define WIDTH UINT64_C(8)

/* The length of a time step, r: a half solves (1 + 2 r) u[i] - r (u[i - 1] + u[i + 1]) = old u[i]. */
#define STEP 1.0

static const struct workload adi = {
    .name = "adi",
    .summary = "implicit steps along rows and columns in turn, bound by the exchange of all data between all threads",
    .size_unit = "bytes",
    .size_meaning = "the square grid, whose side is rounded down to an odd multiple of 8",
    .size = UINT64_C(64) << 20,
    .smallest_size = WIDTH * WIDTH * sizeof(double),
    .iterations = 100,
};

static const double pi = 3.14159265358979323846;

/* The value at (x, y) once the sine term has shrunk by `decay`. */
static double exact(uint64_t x, uint64_t y, double h, const double *sine, double decay)
{
    return h * (double)(x + y) + decay * sine[x] * sine[y];
}

/*
 * Solves for WIDTH lines of points at once, the first from `u` on. `along` is the distance of two points of a line,
 * `across` the distance of two lines. `pivot` has the inverse pivots, which are the same for all lines. The ends of a
 * line are given and do not change. The lines on the edges of the grid are linear, and solving leaves them so.
 */
static inline void solve(double *u, uint64_t along, uint64_t across, const double *pivot, uint64_t side)
{
    for (uint64_t i = 1; i < side - 1; i++)
        for (uint64_t line = 0; line < WIDTH; line++) {
            double *here = u + i * along + line * across;
            *here = (*here + STEP * here[-(int64_t)along]) * pivot[i];
        }
    for (uint64_t i = side - 2; i > 0; i--)
        for (uint64_t line = 0; line < WIDTH; line++) {
            double *here = u + i * along + line * across;
            *here += STEP * pivot[i] * here[along];
        }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&adi, argc, argv);
    uint64_t blocks = (uint64_t)sqrt((double)(run.size / sizeof(double))) / WIDTH;
    if (blocks % 2 == 0)
        blocks--; /* with a power of two as the side, a column would use few sets of a cache */
    const uint64_t side = blocks * WIDTH;
    const double h = 1.0 / (double)(side - 1);
    run.size = side * side * sizeof(double);
    double *u = workload_allocate(&run, side * side * sizeof *u);
    double *sine = workload_allocate(&run, side * sizeof *sine);
    double *pivot = workload_allocate(&run, side * sizeof *pivot);
    for (uint64_t i = 0; i < side; i++) {
        sine[i] = sin(pi * h * (double)i);
        pivot[i] = i == 0 ? 0 : 1 / (1 + 2 * STEP - STEP * STEP * pivot[i - 1]);
    }
    sine[0] = sine[side - 1] = 0;

#pragma omp parallel for schedule(static)
    for (uint64_t block = 0; block < blocks; block++)
        for (uint64_t y = block * WIDTH; y < (block + 1) * WIDTH; y++)
            for (uint64_t x = 0; x < side; x++)
                u[y * side + x] = exact(x, y, h, sine, 1);

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (uint64_t block = 0; block < blocks; block++)
                solve(u + block * WIDTH * side, 1, side, pivot, side);
#pragma omp for schedule(static)
            for (uint64_t block = 0; block < blocks; block++)
                solve(u + block * WIDTH, side, 1, pivot, side);
        }
    }

    u[side + 1] += (double)run.corrupt;
    const double half = sin(pi * h / 2), decay = pow(1 + 4 * STEP * half * half, -2 * (double)run.iterations);
    /* An iteration rounds each value, at most 3, some ten times, and does not enlarge the errors before it. */
    const double tolerance = 3 * 2.3e-16 * 16 * (double)(run.iterations + 16);
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < side * side; i++) {
        const double expected = exact(i % side, i / side, h, sine, decay);
        if (!(fabs(u[i] - expected) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(u[i]) * (2 * i + 1);
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "point (%" PRIu64 ", %" PRIu64 ") is %.17g and must be %.17g", first_wrong % side,
                       first_wrong / side, u[first_wrong],
                       exact(first_wrong % side, first_wrong / side, h, sine, decay));
    workload_report(&run, 1e-6 * (double)(side * side) * (double)run.iterations, "million points", sum);
    free(u);
    free(sine);
    free(pivot);
    return EXIT_SUCCESS;
}
