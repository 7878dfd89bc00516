/*
 * A lattice-Boltzmann flow in two dimensions: at each point of a periodic square there are nine distributions, for
 * particles that rest or move to one of the eight neighbours (D2Q9). In a step each point takes the distributions
 * that move to it, and relaxes them towards their equilibrium, from one set of nine arrays into another. The rows are
 * divided into equal blocks among the threads.
 *
 * Load on the machine: eighteen arrays stream through the caches, nine that are read and nine that are written, with
 * a few operations for each number. Each thread also reads the edge rows of the threads before and after it, three
 * arrays of each, which were written a step ago; the first and the last thread are neighbours too.
 *
 * Effect of placement: as in `stencil`, with more bandwidth for each point. A flow beyond the caches needs all memory
 * controllers and its pages on the threads' own nodes, so threads should be spread (first touch places the pages). A
 * flow that fits the caches together needs as much cache as possible, with ranks that are neighbours near to each
 * other. Edges are a smaller part of the data than in `stencil`, so their order matters less.
 *
 * Method: the equilibrium is that of slow flows, w (density + 3 direction . momentum), so a step is linear.
 *
 * Check: the start is fluid at rest plus a wave of density and momentum. As a step is linear and the same at each
 * point, it makes of a wave the same wave with other amplitudes, one complex number for each direction. So every
 * distribution at every point is known after any number of steps. (The fluid at rest also keeps the numbers from
 * becoming subnormal, which are slow.)
 */
#include "../workload.h"

#include "../numbers.h"

#include <complex.h>

#define DIRECTIONS UINT64_C(9)

/* The bytes of all distributions of a point. */
#define POINT_BYTES (2 * DIRECTIONS * sizeof(double))

/* How much of the way to the equilibrium a step goes; from 1 to 2 the flow has a low viscosity. */
#define RELAXATION 1.5

/* Weights of the directions in the equilibrium. */
#define REST (4.0 / 9)
#define STRAIGHT (1.0 / 9)
#define DIAGONAL (1.0 / 36)

static const int64_t direction[DIRECTIONS][2] = {{0, 0},  {1, 0}, {0, 1},   {-1, 0}, {0, -1},
                                                 {1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
static const double weight[DIRECTIONS] = {REST,     STRAIGHT, STRAIGHT, STRAIGHT, STRAIGHT,
                                          DIAGONAL, DIAGONAL, DIAGONAL, DIAGONAL};

static const struct workload lattice = {
    .name = "lattice",
    .summary = "a lattice-Boltzmann flow in eighteen arrays, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "all distributions, both sets together",
    .size = UINT64_C(64) << 20,
    .smallest_size = POINT_BYTES,
    .iterations = 300,
};

/* The distribution of direction `k` at (x, y). `wave` has one period, which is the side for x and half of it for y. */
static double exact(uint64_t k, uint64_t x, uint64_t y, uint64_t side, double complex amplitude,
                    const double complex *wave)
{
    const double complex here = wave[(x + 2 * y) % side];
    return weight[k] + creal(amplitude) * creal(here) - cimag(amplitude) * cimag(here);
}

/* `along` is the momentum along the direction. */
static inline double relaxed(double value, double weight_of_direction, double density, double along)
{
    return (1 - RELAXATION) * value + RELAXATION * weight_of_direction * (density + 3 * along);
}

/* The amplitudes after a step. */
static void step_wave(double complex *amplitude, const double complex *wave, uint64_t side)
{
    double complex density = 0, momentum[2] = {0, 0};
    for (uint64_t k = 0; k < DIRECTIONS; k++) {
        const int64_t moved = direction[k][0] + 2 * direction[k][1];
        amplitude[k] *= conj(wave[(uint64_t)(moved + 3 * (int64_t)side) % side]);
        density += amplitude[k];
        for (int axis = 0; axis < 2; axis++)
            momentum[axis] += direction[k][axis] * amplitude[k];
    }
    for (uint64_t k = 0; k < DIRECTIONS; k++) {
        const double complex along = direction[k][0] * momentum[0] + direction[k][1] * momentum[1];
        amplitude[k] = (1 - RELAXATION) * amplitude[k] + RELAXATION * weight[k] * (density + 3 * along);
    }
}

static void step_row(double *to, const double *from, uint64_t side, uint64_t y)
{
    const double *in[DIRECTIONS];
    double *out[DIRECTIONS];
    for (uint64_t k = 0; k < DIRECTIONS; k++) {
        in[k] = from + (k * side + (y + side - (uint64_t)direction[k][1]) % side) * side;
        out[k] = to + (k * side + y) * side;
    }
    for (uint64_t x = 0; x < side; x++) {
        const uint64_t before = x > 0 ? x - 1 : side - 1, after = x + 1 < side ? x + 1 : 0;
        const double rest = in[0][x], e = in[1][before], n = in[2][x], w = in[3][after], s = in[4][x];
        const double ne = in[5][before], nw = in[6][after], sw = in[7][after], se = in[8][before];
        const double density = rest + (e + n + w + s) + (ne + nw + sw + se);
        const double mx = e - w + (ne - sw) - (nw - se), my = n - s + (ne - sw) + (nw - se);
        out[0][x] = relaxed(rest, REST, density, 0);
        out[1][x] = relaxed(e, STRAIGHT, density, mx);
        out[2][x] = relaxed(n, STRAIGHT, density, my);
        out[3][x] = relaxed(w, STRAIGHT, density, -mx);
        out[4][x] = relaxed(s, STRAIGHT, density, -my);
        out[5][x] = relaxed(ne, DIAGONAL, density, mx + my);
        out[6][x] = relaxed(nw, DIAGONAL, density, my - mx);
        out[7][x] = relaxed(sw, DIAGONAL, density, -mx - my);
        out[8][x] = relaxed(se, DIAGONAL, density, mx - my);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&lattice, argc, argv);
    const uint64_t side = (uint64_t)sqrt((double)(run.size / POINT_BYTES));
    const uint64_t points = side * side;
    run.size = points * POINT_BYTES;
    double *from = workload_allocate(&run, points * DIRECTIONS * sizeof *from);
    double *to = workload_allocate(&run, points * DIRECTIONS * sizeof *to);
    double complex *wave = workload_allocate(&run, side * sizeof *wave);
    for (uint64_t i = 0; i < side; i++)
        wave[i] = cexp(2 * 3.14159265358979323846 * I * (double)i / (double)side);
    double complex amplitude[DIRECTIONS]; /* an equilibrium, with the momentum (0.1, 0.05) */
    for (uint64_t k = 0; k < DIRECTIONS; k++)
        amplitude[k] = weight[k] * (0.1 + 0.3 * (double)direction[k][0] + 0.15 * (double)direction[k][1]);

#pragma omp parallel for schedule(static)
    for (uint64_t y = 0; y < side; y++)
        for (uint64_t k = 0; k < DIRECTIONS; k++)
            for (uint64_t x = 0; x < side; x++) {
                const uint64_t i = k * points + y * side + x;
                from[i] = exact(k, x, y, side, amplitude[k], wave);
                to[i] = 0;
            }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t y = 0; y < side; y++)
            step_row(to, from, side, y);
        double *swapped = from;
        from = to;
        to = swapped;
    }

    from[points / 2] += (double)run.corrupt;
    for (uint64_t iteration = 0; iteration < run.iterations; iteration++)
        step_wave(amplitude, wave, side);
    /* A step rounds some twenty times, numbers near 1, and does not enlarge the errors before it. */
    const double tolerance = 2.3e-16 * 32 * (double)(run.iterations + 16);
    uint64_t first_wrong = points * DIRECTIONS, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < points * DIRECTIONS; i++) {
        const uint64_t k = i / points;
        const double expected = exact(k, i % side, i / side % side, side, amplitude[k], wave);
        if (!(fabs(from[i] - expected) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(from[i]) * (2 * i + 1);
    }
    if (first_wrong < points * DIRECTIONS)
        workload_wrong(&run, "distribution %" PRIu64 " at point (%" PRIu64 ", %" PRIu64 ") is %.17g",
                       first_wrong / points, first_wrong % side, first_wrong / side % side, from[first_wrong]);
    workload_report(&run, 1e-6 * (double)points * (double)run.iterations, "million points", sum);
    free(from);
    free(to);
    free(wave);
    return EXIT_SUCCESS;
}
