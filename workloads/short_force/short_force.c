/*
 * The short-range part of gravity in a particle-mesh code: particles are in leaves, and each particle gets a force from
 * all particles within reach in its own leaf and the two leaves on each side. The force is that of softened gravity
 * less a polynomial of the squared distance, which stands for the part that the mesh computes.
 *
 * Load on the machine: for each pair a square root, a division and some twenty other operations, without branches. The
 * particles of five leaves, which a thread reads over and over again, fit the first-level cache. All threads only read
 * the positions; each writes the momenta of its own particles once.
 *
 * Effect of placement: nearly none, if each thread has its own core; two SMT siblings share the divider and gain
 * nothing.
 *
 * Method: the polynomial is the Taylor series of softened gravity about the reach, of degree five, so the force becomes
 * zero there with five derivatives. Leaves are in a ring. Particles do not move.
 *
 * Check: each force is rounded to a whole number, so the momentum after n iterations is exactly n times that after one.
 * This is computed again, in another way: once for each pair of particles, which get opposite forces.
 */
#include "../workload.h"

#include "../numbers.h"

enum { X, Y, Z, AXES };

/* The particles of a leaf, and the leaves on each side that act on it. */
#define LEAF UINT64_C(32)
#define REACHED UINT64_C(2)

/* The side of the cube that a leaf's particles are in. All leaves have their cubes at the same place. */
#define CUBE (UINT64_C(1) << 10)

#define REACH (512.0 * 512.0)  /* squared */
#define SOFTENING (32.0 * 32.0) /* squared */
#define STRENGTH ((double)(UINT64_C(1) << 40))
#define TERMS 6

#define PARTICLE_BYTES ((AXES + 1) * sizeof(double) + AXES * sizeof(int64_t))

static const struct workload short_force = {
    .name = "short_force",
    .summary = "the short-range part of gravity among particles in leaves, bound by the cores' dividers",
    .size_unit = "bytes",
    .size_meaning = "the particles, 56 bytes each, in leaves of 32",
    .size = UINT64_C(512) << 10,
    .smallest_size = LEAF * PARTICLE_BYTES,
    .iterations = 100,
};

struct particles {
    double *at[AXES];
    double *mass;
    int64_t *momentum[AXES];
};

static double place_of(uint64_t i, int axis)
{
    return (double)(number_at((uint64_t)axis, i) % CUBE);
}

static double mass_of(uint64_t i)
{
    return (double)(number_at(AXES, i) % 3 + 1);
}

/* The coefficients of the series of (squared distance + softening)^(-3/2) about the reach. */
static void find_series(double *series)
{
    series[0] = pow(REACH + SOFTENING, -1.5);
    for (int term = 1; term < TERMS; term++)
        series[term] = series[term - 1] * (-0.5 - term) / term / (REACH + SOFTENING);
}

/* The force for a distance of 1 and masses of 1; it is to be multiplied by them. */
static inline double strength_at(double squared, const double *series)
{
    const double softened = squared + SOFTENING, beyond = squared - REACH;
    double polynomial = series[TERMS - 1];
    for (int term = TERMS - 2; term >= 0; term--)
        polynomial = polynomial * beyond + series[term];
    const double strength = STRENGTH * (1 / (softened * sqrt(softened)) - polynomial);
    return squared < REACH ? strength : 0;
}

/* Adds the forces of a leaf on particle `i`. */
static inline void add_forces(const struct particles *of, uint64_t i, uint64_t leaf, const double *series, int64_t *sum)
{
    const double own[AXES] = {of->at[X][i], of->at[Y][i], of->at[Z][i]}, mass = of->mass[i];
    for (uint64_t j = leaf * LEAF; j < (leaf + 1) * LEAF; j++) {
        const double x = of->at[X][j] - own[X], y = of->at[Y][j] - own[Y], z = of->at[Z][j] - own[Z];
        const double force = mass * of->mass[j] * strength_at(x * x + y * y + z * z, series);
        sum[X] += (int64_t)(force * x);
        sum[Y] += (int64_t)(force * y);
        sum[Z] += (int64_t)(force * z);
    }
}

/* Adds the forces of particles `i` and `j` on each other to `expected`, three numbers for each particle. */
static void add_pair(int64_t *expected, uint64_t i, uint64_t j, const double *series)
{
    double between[AXES], squared = 0;
    for (int axis = X; axis < AXES; axis++) {
        between[axis] = place_of(j, axis) - place_of(i, axis);
        squared += between[axis] * between[axis];
    }
    const double force = mass_of(i) * mass_of(j) * strength_at(squared, series);
    for (uint64_t axis = X; axis < AXES; axis++) {
        expected[AXES * i + axis] += (int64_t)(force * between[axis]);
        expected[AXES * j + axis] -= (int64_t)(force * between[axis]);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&short_force, argc, argv);
    const uint64_t leaves = run.size / (LEAF * PARTICLE_BYTES), number = leaves * LEAF;
    run.size = number * PARTICLE_BYTES;
    /* In a short ring no leaf is reached twice. */
    const uint64_t reached = (leaves - 1) / 2 < REACHED ? (leaves - 1) / 2 : REACHED;
    struct particles particles = {.mass = workload_allocate(&run, number * sizeof(double))};
    for (int axis = X; axis < AXES; axis++) {
        particles.at[axis] = workload_allocate(&run, number * sizeof(double));
        particles.momentum[axis] = workload_allocate(&run, number * sizeof(int64_t));
    }
    double series[TERMS];
    find_series(series);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < number; i++) {
        particles.mass[i] = mass_of(i);
        for (int axis = X; axis < AXES; axis++) {
            particles.at[axis][i] = place_of(i, axis);
            particles.momentum[axis][i] = 0;
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t leaf = 0; leaf < leaves; leaf++) {
            for (uint64_t i = leaf * LEAF; i < (leaf + 1) * LEAF; i++) {
                int64_t sum[AXES] = {0, 0, 0};
                for (uint64_t other = leaf + leaves - reached; other <= leaf + leaves + reached; other++)
                    add_forces(&particles, i, other % leaves, series, sum);
                for (int axis = X; axis < AXES; axis++)
                    particles.momentum[axis][i] += sum[axis];
            }
        }
    }

    particles.momentum[Y][number / 2] ^= (int64_t)run.corrupt;
    int64_t *expected = workload_allocate(&run, AXES * number * sizeof *expected);
    memset(expected, 0, AXES * number * sizeof *expected);
    for (uint64_t i = 0; i < number; i++) {
        for (uint64_t j = i + 1; j < (i / LEAF + 1) * LEAF; j++)
            add_pair(expected, i, j, series);
        for (uint64_t after = 1; after <= reached; after++)
            for (uint64_t j = 0; j < LEAF; j++)
                add_pair(expected, i, (i / LEAF + after) % leaves * LEAF + j, series);
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < number; i++) {
        for (uint64_t axis = X; axis < AXES; axis++) {
            const int64_t found = particles.momentum[axis][i];
            const int64_t right = expected[AXES * i + axis] * (int64_t)run.iterations;
            if (found != right)
                workload_wrong(&run, "momentum %" PRIu64 " of particle %" PRIu64 " is %" PRId64 " and must be %" PRId64,
                               axis, i, found, right);
            sum += (uint64_t)found * (2 * (AXES * i + axis) + 1);
        }
    }
    const double pairs = (double)number * (double)((2 * reached + 1) * LEAF);
    workload_report(&run, 1e-6 * pairs * (double)run.iterations, "million forces", sum);
    free(particles.mass);
    for (int axis = X; axis < AXES; axis++) {
        free(particles.at[axis]);
        free(particles.momentum[axis]);
    }
    free(expected);
    return EXIT_SUCCESS;
}
