/*
 * The internal energy of the elements of a gas that is compressed and expanded in turn, by the midpoint rule, in six
 * passes over many arrays: the energy after half a step, the pressure and the viscosity there, the energy after the
 * whole step, and the pressure and the viscosity of this. The elements are divided into equal blocks among the threads.
 *
 * Load on the machine: fourteen arrays stream through the caches, each of them once to three times per iteration, with
 * one or two operations for each number; two of the passes have square roots. No thread reads what another writes. A
 * pass begins without a wait for the other threads, because the blocks are the same in all of them.
 *
 * Effect of placement: elements beyond the caches need bandwidth and their pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). If a thread's block fits its caches, the later passes and iterations
 * find it there: then a core for each thread, and its part of the last-level cache, are all that counts.
 *
 * Method: elements only compress in every other iteration, and only then have viscosity. They lose a part of their
 * energy in each step and are heated by a constant amount, so the energy is bounded and errors shrink.
 *
 * Check: what an element starts with depends only on its number modulo a prime. The histories of one element of each
 * kind are computed one by one, without arrays, and each element must have had the history of its kind.
 */
#include "../workload.h"

#include "../numbers.h"

#define ARRAYS 14
#define ELEMENT_BYTES (ARRAYS * sizeof(double))

/* The number of kinds of elements, a prime: neither lines, pages nor blocks of the threads repeat with them. */
#define KINDS UINT64_C(1021)

#define STIFFNESS 0.4 /* a gas of diatomic molecules: the ratio of its heat capacities less 1 */
#define LOSS 0.0625   /* the part of the energy that is lost in a step */
#define LEAST 0.001   /* no element has less energy */

static const struct workload energy = {
    .name = "energy",
    .summary = "the energy of a gas in six passes over fourteen arrays, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "all arrays together",
    .size = UINT64_C(64) << 20,
    .smallest_size = ELEMENT_BYTES,
    .iterations = 200,
};

/* What is constant of an element. */
struct constants {
    double change; /* of the volume in a step */
    double heat;
    double half_density, density;
    double linear, quadratic; /* of the viscosity */
};

/* What changes. */
struct state {
    double energy, pressure, viscosity;
};

/* A number from `least` to `most`, for elements of a kind. */
static double between(double least, double most, uint64_t seed, uint64_t kind)
{
    return least + (most - least) * (double)(number_at(seed, kind) >> 11) / (double)(UINT64_C(1) << 53);
}

static struct constants constants_of(uint64_t kind)
{
    return (struct constants){
        .change = between(0.01, 0.05, 0, kind),
        .heat = between(0.02, 0.08, 1, kind),
        .half_density = between(0.9, 1.1, 2, kind),
        .density = between(0.8, 1.2, 3, kind),
        .linear = between(0.01, 0.1, 4, kind),
        .quadratic = between(0.001, 0.01, 5, kind),
    };
}

static struct state start_of(uint64_t kind)
{
    return (struct state){between(0.5, 1.5, 6, kind), between(0.2, 0.6, 7, kind), between(0.0, 0.1, 8, kind)};
}

/* The sign of the changes of the volume in an iteration, counted from 1. */
static double direction_of(uint64_t iteration)
{
    return iteration % 2 ? -1 : 1;
}

/* The state of an element of a kind after this number of iterations. */
static struct state history(uint64_t kind, uint64_t iterations)
{
    const struct constants c = constants_of(kind);
    struct state s = start_of(kind);
    for (uint64_t iteration = 1; iteration <= iterations; iteration++) {
        const double change = direction_of(iteration) * c.change;
        const double middle = fmax(LEAST, s.energy - 0.5 * change * (s.pressure + s.viscosity) + 0.5 * c.heat);
        const double pressure = STIFFNESS * c.half_density * middle;
        const double viscosity = change < 0 ? c.linear * sqrt(pressure) + c.quadratic : 0;
        s.energy = fmax(LEAST, (1 - LOSS) * s.energy - change * (pressure + viscosity) + c.heat);
        s.pressure = STIFFNESS * c.density * s.energy;
        s.viscosity = change < 0 ? c.linear * sqrt(s.pressure) + c.quadratic : 0;
    }
    return s;
}

static double difference(struct state a, struct state b)
{
    return fabs(a.energy - b.energy) + fabs(a.pressure - b.pressure) + fabs(a.viscosity - b.viscosity);
}

static void swap(double **a, double **b)
{
    double *swapped = *a;
    *a = *b;
    *b = swapped;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&energy, argc, argv);
    const uint64_t elements = run.size / ELEMENT_BYTES;
    run.size = elements * ELEMENT_BYTES;
    double *array[ARRAYS];
    for (int i = 0; i < ARRAYS; i++)
        array[i] = workload_allocate(&run, elements * sizeof(double));
    double *change = array[0], *heat = array[1], *half_density = array[2], *density = array[3], *linear = array[4],
           *quadratic = array[5], *half_pressure = array[6], *half_viscosity = array[7], *old_energy = array[8],
           *new_energy = array[9], *old_pressure = array[10], *new_pressure = array[11], *old_viscosity = array[12],
           *new_viscosity = array[13];

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < elements; i++) {
        const struct constants c = constants_of(i % KINDS);
        const struct state s = start_of(i % KINDS);
        change[i] = c.change;
        heat[i] = c.heat;
        half_density[i] = c.half_density;
        density[i] = c.density;
        linear[i] = c.linear;
        quadratic[i] = c.quadratic;
        old_energy[i] = s.energy;
        old_pressure[i] = s.pressure;
        old_viscosity[i] = s.viscosity;
        half_pressure[i] = half_viscosity[i] = new_energy[i] = new_pressure[i] = new_viscosity[i] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const double direction = direction_of(run.iterations);
#pragma omp parallel
        {
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++) {
                const double work = direction * change[i] * (old_pressure[i] + old_viscosity[i]);
                const double middle = old_energy[i] - 0.5 * work + 0.5 * heat[i];
                new_energy[i] = middle > LEAST ? middle : LEAST;
            }
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++)
                half_pressure[i] = STIFFNESS * half_density[i] * new_energy[i];
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++)
                half_viscosity[i] =
                    direction * change[i] < 0 ? linear[i] * sqrt(half_pressure[i]) + quadratic[i] : 0;
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++) {
                const double work = direction * change[i] * (half_pressure[i] + half_viscosity[i]);
                const double whole = (1 - LOSS) * old_energy[i] - work + heat[i];
                new_energy[i] = whole > LEAST ? whole : LEAST;
            }
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++)
                new_pressure[i] = STIFFNESS * density[i] * new_energy[i];
#pragma omp for schedule(static) nowait
            for (uint64_t i = 0; i < elements; i++)
                new_viscosity[i] = direction * change[i] < 0 ? linear[i] * sqrt(new_pressure[i]) + quadratic[i] : 0;
        }
        swap(&old_energy, &new_energy);
        swap(&old_pressure, &new_pressure);
        swap(&old_viscosity, &new_viscosity);
    }

    old_energy[elements / 2] += (double)run.corrupt;
    struct state expected[KINDS];
    for (uint64_t kind = 0; kind < KINDS; kind++)
        expected[kind] = history(kind, run.iterations);
    /* The operations are the same, but another compiler may join other ones of them; errors shrink in each step. */
    const double tolerance = 2.3e-16 * 64 / LOSS;
    uint64_t first_wrong = elements, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < elements; i++) {
        const struct state found = {old_energy[i], old_pressure[i], old_viscosity[i]};
        if (!(difference(found, expected[i % KINDS]) <= tolerance) && i < first_wrong)
            first_wrong = i;
        sum += (fingerprint(found.energy) + 3 * fingerprint(found.pressure) + 5 * fingerprint(found.viscosity)) *
               (2 * i + 1);
    }
    if (first_wrong < elements)
        workload_wrong(&run, "element %" PRIu64 " has the energy %.17g, the pressure %.17g and the viscosity %.17g",
                       first_wrong, old_energy[first_wrong], old_pressure[first_wrong], old_viscosity[first_wrong]);
    workload_report(&run, 1e-6 * (double)elements * (double)run.iterations, "million elements", sum);
    for (int i = 0; i < ARRAYS; i++)
        free(array[i]);
    return EXIT_SUCCESS;
}
