/*
 * Gravity among n bodies, each pair of them: n^2 forces per step.
 *
 * Load on the machine: the units for square roots and divisions are busy. All threads read the positions, 24 bytes
 * per body, from begin to end, repeatedly, and write them once per step. They fit caches near the core unless there
 * are very many bodies.
 *
 * Effect of placement: nearly none, if each thread has its own core; two SMT siblings share the divider and gain
 * nothing. After each step every position moves from the core that wrote it to all others. This is little compared
 * with n^2 divisions, but it grows with the threads: with few bodies and many threads, close together is better.
 *
 * Check: momentum is a whole number. Each force is rounded to a whole number so that the two bodies of a pair have
 * exactly opposite forces, though two different threads compute them. Positions are multiples of 2^-20. So the total
 * momentum stays zero and the sum of the positions stays the same, bit by bit. A force that is missing, counted twice
 * or computed from a position of another step changes them.
 */
#include "../workload.h"

#include "../numbers.h"

enum { X, Y, Z, AXES };

struct position {
    double at[AXES];
};

struct momentum {
    int64_t of[AXES];
};

static const struct workload nbody = {
    .name = "nbody",
    .summary = "gravity among all pairs of bodies, bound by the cores' dividers",
    .size_unit = "bytes",
    .size_meaning = "the bodies, 48 bytes each",
    .size = UINT64_C(128) << 10,
    .smallest_size = 2 * (sizeof(struct position) + sizeof(struct momentum)),
    .iterations = 400,
};

/* Bodies start in a cube of this side, and forces are softened at a small part of it, so that none is beyond 2^19. */
#define CUBE (UINT64_C(1) << 20)
#define SOFTENING ((double)(UINT64_C(1) << 28)) /* squared */
#define STRENGTH ((double)(UINT64_C(1) << 48))
#define STEPS_TO_A_UNIT ((double)(UINT64_C(1) << 20)) /* how far momentum carries in a step: 2^-20 */

static double start(uint64_t body, int axis)
{
    return (double)(number_at((uint64_t)axis, body) % CUBE) - (double)(CUBE / 2);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&nbody, argc, argv);
    const uint64_t bodies = run.size / (sizeof(struct position) + sizeof(struct momentum));
    run.size = bodies * (sizeof(struct position) + sizeof(struct momentum));
    struct position *position = workload_allocate(&run, bodies * sizeof *position);
    struct momentum *momentum = workload_allocate(&run, bodies * sizeof *momentum);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < bodies; i++) {
        momentum[i] = (struct momentum){{0, 0, 0}};
        for (int axis = X; axis < AXES; axis++)
            position[i].at[axis] = start(i, axis);
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < bodies; i++) {
                const struct position own = position[i];
                struct momentum sum = momentum[i];
                for (uint64_t j = 0; j < bodies; j++) {
                    const double x = position[j].at[X] - own.at[X], y = position[j].at[Y] - own.at[Y],
                                 z = position[j].at[Z] - own.at[Z];
                    const double squared = x * x + y * y + z * z + SOFTENING;
                    const double force = STRENGTH / (squared * sqrt(squared)); /* to be multiplied by the distance */
                    sum.of[X] += (int64_t)(force * x);
                    sum.of[Y] += (int64_t)(force * y);
                    sum.of[Z] += (int64_t)(force * z);
                }
                momentum[i] = sum;
            }
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < bodies; i++)
                for (int axis = X; axis < AXES; axis++)
                    position[i].at[axis] += (double)momentum[i].of[axis] / STEPS_TO_A_UNIT;
        }
    }

    momentum[bodies / 2].of[Y] ^= (int64_t)run.corrupt;
    int64_t total[AXES] = {0}, moved[AXES] = {0};
    uint64_t sum = 0;
    for (uint64_t i = 0; i < bodies; i++) {
        for (int axis = X; axis < AXES; axis++) {
            total[axis] += momentum[i].of[axis];
            moved[axis] += (int64_t)((position[i].at[axis] - start(i, axis)) * STEPS_TO_A_UNIT);
            sum += fingerprint(position[i].at[axis]) * (2 * (AXES * i + (uint64_t)axis) + 1);
        }
    }
    for (int axis = X; axis < AXES; axis++)
        if (total[axis] != 0 || moved[axis] != 0)
            workload_wrong(&run, "along axis %d the momentum is %" PRId64 " and the bodies have moved by %" PRId64
                           " together, which both must be 0", axis, total[axis], moved[axis]);
    workload_report(&run, 1e-6 * (double)bodies * (double)bodies * (double)run.iterations, "million forces", sum);
    free(position);
    free(momentum);
    return EXIT_SUCCESS;
}
