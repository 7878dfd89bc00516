/*
 * Particles in a cell, in two dimensions: particles move over a periodic square grid, driven by a field that is known
 * at the grid's points. In a step each particle takes the field at its place, between the four points around it, and
 * its velocity and place change. The particles are divided into equal blocks among the threads.
 *
 * Load on the machine: the particles stream through the caches, read and written. Each reads the field's two arrays at
 * four points; at the start these come one after the other, because particles are in the order of their cells, and
 * later near there. The grid is read only, and has a ninth of the bytes. There are some forty operations for each
 * particle.
 *
 * Effect of placement: particles beyond the caches need bandwidth and their pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). The first touch of the grid follows the same order, so that a
 * particle's part of the field is mostly on its thread's node as well.
 *
 * Method: numbers are whole, with 2^16 for the side of a cell. A part of the velocity is lost in each step, so that a
 * particle never moves by more than half a cell.
 *
 * Check: the field repeats after each PERIOD points, and so do the starts of particles. So all particles of a kind do
 * the same from different places. One of each kind is followed alone, and every particle must have moved as far as it,
 * and be as fast. All is exact.
 */
#include "../workload.h"

#include "../numbers.h"

/* The points after which the field repeats, along both axes: odd, so that a power of two is no multiple of it. */
#define PERIOD UINT64_C(5)

/* The particles that start in each cell. */
#define IN_A_CELL UINT64_C(4)

#define CELL (INT64_C(1) << 16)

/* The strongest field, and the part of the velocity that is lost in a step: together a velocity of half a cell. */
#define STRONGEST (CELL / 16)
#define LOSS 8

#define KINDS (PERIOD * PERIOD * IN_A_CELL)

enum { X, Y, AXES };

struct particle {
    int64_t place[AXES];
    int64_t velocity[AXES];
};

/* A cell's particles, and the field at one point. */
#define CELL_BYTES (IN_A_CELL * sizeof(struct particle) + AXES * sizeof(int64_t))

static const struct workload pic = {
    .name = "pic",
    .summary = "particles that move over a grid with a field, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "particles and grid together, whose side is rounded down to a multiple of 5",
    .size = UINT64_C(64) << 20,
    .smallest_size = PERIOD * PERIOD * CELL_BYTES,
    .iterations = 200,
};

struct grid {
    int64_t *field[AXES];
    int64_t side;
};

/* The field at a point, from -STRONGEST to STRONGEST. */
static int64_t field_at(int axis, uint64_t x, uint64_t y)
{
    const uint64_t point = y % PERIOD * PERIOD + x % PERIOD;
    return (int64_t)(number_at((uint64_t)axis, point) % (2 * STRONGEST + 1)) - STRONGEST;
}

/* The particle of this number in its cell at the start. */
static struct particle start_of(uint64_t x, uint64_t y, uint64_t number)
{
    const uint64_t kind = (y % PERIOD * PERIOD + x % PERIOD) * IN_A_CELL + number;
    const int64_t in_cell[AXES] = {(int64_t)(number_at(2, kind) % CELL), (int64_t)(number_at(3, kind) % CELL)};
    return (struct particle){{(int64_t)x * CELL + in_cell[X], (int64_t)y * CELL + in_cell[Y]}, {0, 0}};
}

/* The number of the kind, for particle `i` of a grid. */
static uint64_t kind_of(uint64_t i, uint64_t side)
{
    const uint64_t cell = i / IN_A_CELL;
    return (cell / side % PERIOD * PERIOD + cell % side % PERIOD) * IN_A_CELL + i % IN_A_CELL;
}

/* How far apart two places are on the periodic grid, from -length / 2 to length / 2. */
static int64_t distance(int64_t to, int64_t from, int64_t length)
{
    const int64_t difference = (to - from) % length;
    return difference >= length / 2 ? difference - length : difference < -length / 2 ? difference + length : difference;
}

/* The field along an axis at a place in the cell between four points; (x, y) is its offset from the first. */
static inline int64_t between(const int64_t *lower, const int64_t *upper, int64_t left, int64_t right, int64_t x,
                              int64_t y)
{
    const int64_t at_lower = (CELL - x) * lower[left] + x * lower[right];
    const int64_t at_upper = (CELL - x) * upper[left] + x * upper[right];
    return ((CELL - y) * at_lower + y * at_upper) / (CELL * CELL);
}

/* The place after a move, on the grid. */
static inline int64_t wrapped(int64_t place, int64_t length)
{
    return place < 0 ? place + length : place < length ? place : place - length;
}

/* A particle after a step. */
static inline struct particle advanced(struct particle particle, struct grid grid)
{
    const int64_t left = particle.place[X] / CELL, below = particle.place[Y] / CELL;
    const int64_t right = left + 1 < grid.side ? left + 1 : 0, above = below + 1 < grid.side ? below + 1 : 0;
    const int64_t x = particle.place[X] % CELL, y = particle.place[Y] % CELL;
    const int64_t lower = below * grid.side, upper = above * grid.side, length = grid.side * CELL;
    const int64_t along = between(grid.field[X] + lower, grid.field[X] + upper, left, right, x, y);
    const int64_t across = between(grid.field[Y] + lower, grid.field[Y] + upper, left, right, x, y);
    const int64_t u = particle.velocity[X] + along - particle.velocity[X] / LOSS;
    const int64_t v = particle.velocity[Y] + across - particle.velocity[Y] / LOSS;
    return (struct particle){{wrapped(particle.place[X] + u, length), wrapped(particle.place[Y] + v, length)}, {u, v}};
}

/* How far a particle of a kind has moved, without the grid's edges, and its velocity. */
struct way {
    int64_t moved[AXES];
    int64_t velocity[AXES];
};

/* Follows a particle of a kind alone, on a grid of one period. */
static struct way follow(uint64_t kind, uint64_t iterations)
{
    const uint64_t cell = kind / IN_A_CELL;
    struct particle particle = start_of(cell % PERIOD, cell / PERIOD, kind % IN_A_CELL);
    struct way way = {{0, 0}, {0, 0}};
    for (uint64_t iteration = 0; iteration < iterations; iteration++) {
        const uint64_t left = (uint64_t)particle.place[X] / CELL, below = (uint64_t)particle.place[Y] / CELL;
        const int64_t weight[AXES] = {particle.place[X] % CELL, particle.place[Y] % CELL};
        for (int axis = X; axis < AXES; axis++) {
            int64_t field = 0;
            for (uint64_t corner = 0; corner < 4; corner++) {
                const uint64_t east = corner & 1, north = corner >> 1;
                field += (east ? weight[X] : CELL - weight[X]) * (north ? weight[Y] : CELL - weight[Y]) *
                         field_at(axis, left + east, below + north);
            }
            way.velocity[axis] += field / (CELL * CELL) - way.velocity[axis] / LOSS;
        }
        for (int axis = X; axis < AXES; axis++) {
            way.moved[axis] += way.velocity[axis];
            particle.place[axis] += way.velocity[axis] + (int64_t)PERIOD * CELL;
            particle.place[axis] %= (int64_t)PERIOD * CELL;
        }
    }
    return way;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&pic, argc, argv);
    const uint64_t side = (uint64_t)sqrt((double)(run.size / CELL_BYTES)) / PERIOD * PERIOD, cells = side * side;
    const uint64_t particles = cells * IN_A_CELL;
    run.size = cells * CELL_BYTES;
    struct particle *particle = workload_allocate(&run, particles * sizeof *particle);
    struct grid grid = {.side = (int64_t)side};
    for (int axis = X; axis < AXES; axis++)
        grid.field[axis] = workload_allocate(&run, cells * sizeof(int64_t));

#pragma omp parallel for schedule(static)
    for (uint64_t cell = 0; cell < cells; cell++) {
        for (int axis = X; axis < AXES; axis++)
            grid.field[axis][cell] = field_at(axis, cell % side, cell / side);
        for (uint64_t number = 0; number < IN_A_CELL; number++)
            particle[cell * IN_A_CELL + number] = start_of(cell % side, cell / side, number);
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < particles; i++)
            particle[i] = advanced(particle[i], grid);
    }

    particle[particles / 2].place[Y] ^= (int64_t)run.corrupt;
    struct way expected[KINDS];
    for (uint64_t kind = 0; kind < KINDS; kind++)
        expected[kind] = follow(kind, run.iterations);
    uint64_t first_wrong = particles, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < particles; i++) {
        const struct particle start = start_of(i / IN_A_CELL % side, i / IN_A_CELL / side, i % IN_A_CELL);
        const struct way *way = &expected[kind_of(i, side)];
        for (int axis = X; axis < AXES; axis++) {
            const int64_t place = particle[i].place[axis], velocity = particle[i].velocity[axis];
            const int64_t off = distance(place, start.place[axis] + way->moved[axis], grid.side * CELL);
            if ((off != 0 || velocity != way->velocity[axis]) && i < first_wrong)
                first_wrong = i;
            sum += ((uint64_t)place + 3 * (uint64_t)velocity) * (2 * (AXES * i + (uint64_t)axis) + 1);
        }
    }
    if (first_wrong < particles)
        workload_wrong(&run, "particle %" PRIu64 " is at (%" PRId64 ", %" PRId64 ")", first_wrong,
                       particle[first_wrong].place[X], particle[first_wrong].place[Y]);
    workload_report(&run, 1e-6 * (double)particles * (double)run.iterations, "million particles", sum);
    free(particle);
    for (int axis = X; axis < AXES; axis++)
        free(grid.field[axis]);
    return EXIT_SUCCESS;
}
