/*
 * Multigrid: Poisson's equation on the unit square by V-cycles, with red-black Gauss-Seidel sweeps on each of a
 * series of grids. Each grid has half as many points per side as the one before.
 *
 * Load on the machine: on the finest grids it streams, like `stencil`, with neighbours that exchange edges. Each next
 * grid has a quarter of the points, until a grid fits one core's cache and the threads mostly wait for each other: a
 * cycle has ten barriers on each grid.
 *
 * Effect of placement: the phases of an iteration have opposite needs. Fine grids beyond the caches need bandwidth
 * and threads on all nodes; coarse grids need short barriers and threads close together. The size decides which is
 * stronger, and the best placement may be in between, such as one package fewer than the machine has.
 *
 * Method: two sweeps, then the residual goes to the next grid by full weighting; the correction returns by linear
 * interpolation, followed by one sweep (Briggs, Henson and McCormick, A Multigrid Tutorial, chapter 3). Points of one
 * colour need only those of the other, so the bits are the same for any number of threads.
 *
 * Check: the right side is chosen so that sin(pi x) sin(pi y) solves the equations of the finest grid exactly. The
 * start is this solution plus noise. A cycle must reduce the error, at most 1 at first, to a quarter, except for
 * rounding; in practice it reduces it to a tenth or less.
 *
 * Limit: after some twenty cycles only the rounding error is left; the work continues unchanged.
 */
#include "../workload.h"

#include "../numbers.h"

/* The most that a cycle may leave of the error. */
#define REDUCTION 0.25

static const struct workload multigrid = {
    .name = "multigrid",
    .summary = "multigrid V-cycles, bound by bandwidth on fine grids and by barriers on coarse ones",
    .size_unit = "bytes",
    .size_meaning = "all grids together, the finest with 2^k + 1 points per side",
    .size = UINT64_C(9) << 20,
    .smallest_size = 3 * 3 * 3 * sizeof(double),
    .iterations = 200,
};

static const double pi = 3.14159265358979323846;

/* Grid k has 2^k + 1 points a side. Points on the edge are zero. */
struct grid {
    uint64_t side;
    double squared_distance; /* of two points */
    double *u, *right_side, *residual;
};

static uint64_t side_of(unsigned level)
{
    return (UINT64_C(1) << level) + 1;
}

/* The bytes of the grids 1 to `level`. */
static uint64_t bytes_of(unsigned level)
{
    uint64_t bytes = 0;
    for (; level > 0; level--)
        bytes += 3 * side_of(level) * side_of(level) * sizeof(double);
    return bytes;
}

/* The functions below are called by all threads of a team, and share out the rows among them. */

/* One sweep over the points of both colours. */
static void relax(const struct grid *grid)
{
    const uint64_t side = grid->side;
    for (uint64_t colour = 0; colour < 2; colour++) {
#pragma omp for schedule(static)
        for (uint64_t y = 1; y < side - 1; y++) {
            double *here = grid->u + y * side;
            const double *right_side = grid->right_side + y * side;
            for (uint64_t x = 1 + (y + colour) % 2; x < side - 1; x += 2)
                here[x] = 0.25 * (here[x - 1] + here[x + 1] + here[x - side] + here[x + side] +
                                  grid->squared_distance * right_side[x]);
        }
    }
}

static void find_residual(const struct grid *grid)
{
    const uint64_t side = grid->side;
#pragma omp for schedule(static)
    for (uint64_t y = 1; y < side - 1; y++) {
        const double *u = grid->u + y * side;
        for (uint64_t x = 1; x < side - 1; x++)
            grid->residual[y * side + x] =
                grid->right_side[y * side + x] -
                (4 * u[x] - u[x - 1] - u[x + 1] - u[x - side] - u[x + side]) / grid->squared_distance;
    }
}

/* Makes the residual of the fine grid the right side of the coarse one, whose u becomes zero. */
static void restrict_residual(const struct grid *coarse, const struct grid *fine)
{
    const uint64_t side = fine->side;
#pragma omp for schedule(static)
    for (uint64_t y = 1; y < coarse->side - 1; y++) {
        for (uint64_t x = 1; x < coarse->side - 1; x++) {
            const double *r = fine->residual + 2 * y * side + 2 * x;
            const double *above = r - side, *below = r + side;
            const double beside = r[-1] + r[1] + above[0] + below[0];
            const double diagonal = above[-1] + above[1] + below[-1] + below[1];
            coarse->right_side[y * coarse->side + x] = (4 * r[0] + 2 * beside + diagonal) / 16;
            coarse->u[y * coarse->side + x] = 0;
        }
    }
}

/* Adds the coarse grid's u to the fine one's. */
static void correct(const struct grid *fine, const struct grid *coarse)
{
    const uint64_t side = fine->side;
#pragma omp for schedule(static)
    for (uint64_t y = 1; y < side - 1; y++) {
        /* An odd row or column lies between two of the coarse grid, an even one on one of them, taken twice. */
        const double *above = coarse->u + y / 2 * coarse->side, *below = coarse->u + (y + 1) / 2 * coarse->side;
        for (uint64_t x = 1; x < side - 1; x++)
            fine->u[y * side + x] += 0.25 * (above[x / 2] + above[(x + 1) / 2] + below[x / 2] + below[(x + 1) / 2]);
    }
}

static void cycle(const struct grid *grids, unsigned level)
{
    relax(&grids[level]);
    if (level > 1) {
        relax(&grids[level]);
        find_residual(&grids[level]);
        restrict_residual(&grids[level - 1], &grids[level]);
        cycle(grids, level - 1);
        correct(&grids[level], &grids[level - 1]);
        relax(&grids[level]);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&multigrid, argc, argv);
    unsigned finest = 1;
    while (bytes_of(finest + 1) <= run.size)
        finest++;
    run.size = bytes_of(finest);
    const uint64_t side = side_of(finest);
    struct grid *grids = workload_allocate(&run, (finest + 1) * sizeof *grids);
    for (unsigned level = 1; level <= finest; level++) {
        struct grid *grid = &grids[level];
        const uint64_t points = side_of(level) * side_of(level);
        const double distance = 1 / (double)(side_of(level) - 1);
        *grid = (struct grid){
            .side = side_of(level),
            .squared_distance = distance * distance,
            .u = workload_allocate(&run, points * sizeof(double)),
            .right_side = workload_allocate(&run, points * sizeof(double)),
            .residual = workload_allocate(&run, points * sizeof(double)),
        };
#pragma omp parallel for schedule(static)
        for (uint64_t y = 0; y < grid->side; y++)
            for (uint64_t x = 0; x < grid->side; x++)
                grid->u[y * grid->side + x] = grid->right_side[y * grid->side + x] =
                    grid->residual[y * grid->side + x] = 0;
    }

    double *sine = workload_allocate(&run, side * sizeof *sine);
    for (uint64_t i = 0; i < side; i++)
        sine[i] = sin(pi * (double)i / (double)(side - 1));
    const struct grid *fine = &grids[finest];
    const double half = sin(pi / 2 / (double)(side - 1)), eigenvalue = 8 * half * half / fine->squared_distance;
#pragma omp parallel for schedule(static)
    for (uint64_t y = 1; y < side - 1; y++) {
        for (uint64_t x = 1; x < side - 1; x++) {
            const double noise = (double)(number_at(0, y * side + x) >> 11) / (double)(UINT64_C(1) << 52) - 1;
            fine->u[y * side + x] = sine[x] * sine[y] + noise;
            fine->right_side[y * side + x] = eigenvalue * sine[x] * sine[y];
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        cycle(grids, finest);
    }

    fine->u[side + 1] += (double)run.corrupt;
    /* The residual is a difference of numbers that are 1 / h^2 times as large. */
    const double tolerance = pow(REDUCTION, (double)run.iterations) + 2.3e-16 / fine->squared_distance;
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < side * side; i++) {
        const double expected = i % side == side - 1 || i / side == side - 1 ? 0 : sine[i % side] * sine[i / side];
        if (!(fabs(fine->u[i] - expected) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(fine->u[i]) * (2 * i + 1);
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "point (%" PRIu64 ", %" PRIu64 ") is %.17g and must be within %g of %.17g",
                       first_wrong % side, first_wrong / side, fine->u[first_wrong], tolerance,
                       sine[first_wrong % side] * sine[first_wrong / side]);
    const double points = (double)((side - 2) * (side - 2)) * (double)run.iterations;
    workload_report(&run, 1e-6 * points, "million points", sum);
    for (unsigned level = 1; level <= finest; level++) {
        free(grids[level].u);
        free(grids[level].right_side);
        free(grids[level].residual);
    }
    free(grids);
    free(sine);
    return EXIT_SUCCESS;
}
