/*
 * A sound wave in a mesh of hexahedra, whose nodes and elements find each other by lists of numbers, as in codes for
 * unstructured meshes. A step has three passes: each element writes the force of its pressure on each of its eight
 * corners; each node adds up the forces of the eight corners at it and moves; each element finds from the velocities of
 * its eight nodes how its volume changes. Elements and nodes are divided into equal blocks among the threads.
 *
 * Load on the machine: the corners' forces, three fifths of all data, are written by one pass and read by the next, at
 * eight places at once. So are the velocities, and both lists stream through the caches. At the edges of its block a
 * thread reads a layer of forces and one of velocities that the threads before and after it have just written. There
 * are three barriers in a step.
 *
 * Effect of placement: a mesh beyond the caches needs bandwidth and its pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). A mesh that fits the caches together needs as much cache as
 * possible, with ranks that are neighbours near to each other.
 *
 * Method: the mesh is a periodic cube of unit cubes, and displacements are small, so that forces are linear in them: a
 * node that moves by one along an axis changes the volume of an element by a quarter, and the pressure is the change
 * of the volume times minus the stiffness. Nodes are numbered line by line and layer by layer, and so are elements.
 *
 * Check: the start is a plane wave that moves along the direction in which the elements see it. It keeps its shape, and
 * its displacement and velocity follow from those before by the same two numbers at each node. So displacement and
 * velocity of each node and strain and energy of each element are known after any number of steps.
 */
#include "../workload.h"

#include "../numbers.h"

#include <complex.h>

enum { X, Y, Z, AXES };

#define CORNERS UINT64_C(8)

/* The pressure for a change of the volume by 1, with a mass and a time step of 1. Any wave is stable below 1. */
#define STIFFNESS 0.125

struct vector {
    double of[AXES];
};

/* A node's displacement, velocity and inverse mass and its list of corners; an element's list of nodes, strain, energy
 * and forces on its corners. */
#define ELEMENT_BYTES                                                                                                  \
    (2 * sizeof(struct vector) + sizeof(double) + 2 * CORNERS * sizeof(uint32_t) + 2 * sizeof(double) +                \
     CORNERS * sizeof(struct vector))

static const struct workload hydro = {
    .name = "hydro",
    .summary = "a wave in a mesh of hexahedra with lists of neighbours, bound by bandwidth and gathers",
    .size_unit = "bytes",
    .size_meaning = "all data of nodes and elements of the cube together",
    .size = UINT64_C(64) << 20,
    .smallest_size = ELEMENT_BYTES,
    .iterations = 100,
};

struct mesh {
    uint64_t side, elements;   /* there are as many nodes */
    uint32_t *nodes_of;        /* the eight nodes of each element */
    uint32_t *corners_of;      /* the eight corners at each node: element times eight plus number of the corner */
    double *inverse_mass;      /* of each node */
    struct vector *moved;      /* the displacement of each node */
    struct vector *velocity;   /* of each node */
    struct vector *force;      /* on each corner of each element */
    double *strain, *energy;   /* of each element */
};

/* On which side of an element a corner is along an axis: 1 or -1. */
static inline double side_of(uint64_t corner, int axis)
{
    return corner >> axis & 1 ? 1 : -1;
}

/* The number of the cell that is `steps` cells after cell `i` along each axis for which the corner's bit is set. */
static uint32_t beside(const struct mesh *mesh, uint64_t i, uint64_t corner, uint64_t steps)
{
    const uint64_t side = mesh->side;
    const uint64_t x = (i % side + (corner & 1) * steps) % side;
    const uint64_t y = (i / side % side + (corner >> 1 & 1) * steps) % side;
    const uint64_t z = (i / side / side + (corner >> 2) * steps) % side;
    return (uint32_t)((z * side + y) * side + x);
}

/* First pass: an element's forces on its corners. */
static inline void press(const struct mesh *mesh, uint64_t element)
{
    const double pressure = -STIFFNESS * mesh->strain[element];
    for (uint64_t corner = 0; corner < CORNERS; corner++)
        for (int axis = X; axis < AXES; axis++)
            mesh->force[element * CORNERS + corner].of[axis] = 0.25 * pressure * side_of(corner, axis);
}

/* Second pass: a node adds up the forces on it and moves. */
static inline void move(const struct mesh *mesh, uint64_t node)
{
    struct vector sum = {{0, 0, 0}};
    for (uint64_t i = 0; i < CORNERS; i++)
        for (int axis = X; axis < AXES; axis++)
            sum.of[axis] += mesh->force[mesh->corners_of[node * CORNERS + i]].of[axis];
    for (int axis = X; axis < AXES; axis++) {
        mesh->velocity[node].of[axis] += mesh->inverse_mass[node] * sum.of[axis];
        mesh->moved[node].of[axis] += mesh->velocity[node].of[axis];
    }
}

/* Third pass: the change of an element's volume, and the work that its mean pressure does. */
static inline void deform(const struct mesh *mesh, uint64_t element)
{
    double change = 0;
    for (uint64_t corner = 0; corner < CORNERS; corner++)
        for (int axis = X; axis < AXES; axis++)
            change += 0.25 * side_of(corner, axis) *
                      mesh->velocity[mesh->nodes_of[element * CORNERS + corner]].of[axis];
    const double before = mesh->strain[element], after = before + change;
    mesh->energy[element] += STIFFNESS * 0.5 * (before + after) * change;
    mesh->strain[element] = after;
}

/* A plane wave: the displacement at a node is the real part of amplitude times direction times phase. */
struct wave {
    double complex moved, velocity; /* amplitudes */
    double complex direction[AXES];
    double squared; /* of the length of what elements see of the direction: its divergence */
};

/* The number of periods of the wave along each axis of the cube. */
static const uint64_t periods[AXES] = {1, 2, 4};

/* The number of the phase at a cell. A period has as many parts as the side has cells. */
static uint64_t phase_of(uint64_t i, uint64_t side)
{
    return (periods[X] * (i % side) + periods[Y] * (i / side % side) + periods[Z] * (i / side / side)) % side;
}

static struct wave wave_of(uint64_t side, const double complex *phase)
{
    struct wave wave = {.moved = 1, .velocity = 0.125 * I};
    for (int axis = X; axis < AXES; axis++) {
        double complex seen = 0; /* what the direction along this axis does to the volume */
        for (uint64_t corner = 0; corner < CORNERS; corner++) {
            const uint64_t at = (corner & 1) * periods[X] + (corner >> 1 & 1) * periods[Y] + (corner >> 2) * periods[Z];
            seen += 0.25 * side_of(corner, axis) * phase[at % side];
        }
        wave.direction[axis] = conj(seen);
        wave.squared += creal(seen * conj(seen));
    }
    return wave;
}

/* The wave a step later. */
static void step_wave(struct wave *wave)
{
    wave->velocity -= STIFFNESS * wave->squared * wave->moved;
    wave->moved += wave->velocity;
}

/* How far the nodes' values are from the wave's, and the element's of the same number; `start` has the strain then. */
static double error_at(const struct mesh *mesh, uint64_t i, const struct wave *wave, const struct wave *start,
                       double complex phase)
{
    double error = 0;
    for (int axis = X; axis < AXES; axis++) {
        error += fabs(mesh->moved[i].of[axis] - creal(wave->moved * wave->direction[axis] * phase));
        error += fabs(mesh->velocity[i].of[axis] - creal(wave->velocity * wave->direction[axis] * phase));
    }
    const double strain = creal(wave->moved * wave->squared * phase);
    const double first = creal(start->moved * start->squared * phase);
    error += fabs(mesh->strain[i] - strain);
    return error + fabs(mesh->energy[i] - STIFFNESS * 0.5 * (strain * strain - first * first));
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&hydro, argc, argv);
    const uint64_t side = (uint64_t)cbrt((double)(run.size / ELEMENT_BYTES)), elements = side * side * side;
    if (elements > UINT32_MAX / CORNERS)
        workload_usage_error(&hydro, "--size %" PRIu64 ": numbers of corners have 32 bits, so choose a smaller one",
                             run.size);
    run.size = elements * ELEMENT_BYTES;
    const struct mesh mesh = {
        .side = side,
        .elements = elements,
        .nodes_of = workload_allocate(&run, elements * CORNERS * sizeof(uint32_t)),
        .corners_of = workload_allocate(&run, elements * CORNERS * sizeof(uint32_t)),
        .inverse_mass = workload_allocate(&run, elements * sizeof(double)),
        .moved = workload_allocate(&run, elements * sizeof(struct vector)),
        .velocity = workload_allocate(&run, elements * sizeof(struct vector)),
        .force = workload_allocate(&run, elements * CORNERS * sizeof(struct vector)),
        .strain = workload_allocate(&run, elements * sizeof(double)),
        .energy = workload_allocate(&run, elements * sizeof(double)),
    };
    double complex *phase = workload_allocate(&run, side * sizeof *phase);
    for (uint64_t i = 0; i < side; i++)
        phase[i] = cexp(2 * 3.14159265358979323846 * I * (double)i / (double)side);
    const struct wave start = wave_of(side, phase);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < elements; i++) {
        const double complex here = phase[phase_of(i, side)];
        for (uint64_t corner = 0; corner < CORNERS; corner++) {
            mesh.nodes_of[i * CORNERS + corner] = beside(&mesh, i, corner, 1);
            mesh.corners_of[i * CORNERS + corner] =
                (uint32_t)(beside(&mesh, i, corner, side - 1) * CORNERS + corner);
            mesh.force[i * CORNERS + corner] = (struct vector){{0, 0, 0}};
        }
        for (int axis = X; axis < AXES; axis++) {
            mesh.moved[i].of[axis] = creal(start.moved * start.direction[axis] * here);
            mesh.velocity[i].of[axis] = creal(start.velocity * start.direction[axis] * here);
        }
        mesh.inverse_mass[i] = 1;
        mesh.strain[i] = creal(start.moved * start.squared * here);
        mesh.energy[i] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (uint64_t element = 0; element < elements; element++)
                press(&mesh, element);
#pragma omp for schedule(static)
            for (uint64_t node = 0; node < elements; node++)
                move(&mesh, node);
#pragma omp for schedule(static)
            for (uint64_t element = 0; element < elements; element++)
                deform(&mesh, element);
        }
    }

    mesh.moved[elements / 2].of[Y] += (double)run.corrupt;
    struct wave wave = start;
    for (uint64_t iteration = 0; iteration < run.iterations; iteration++)
        step_wave(&wave);
    /* A step rounds some hundred times, numbers of at most about 16; what it makes of earlier errors grows with the
     * number of steps, as errors of velocities add up. */
    const double steps = (double)(run.iterations + 16), tolerance = 16 * 2.3e-16 * 16 * steps * sqrt(steps);
    uint64_t first_wrong = elements, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < elements; i++) {
        if (!(error_at(&mesh, i, &wave, &start, phase[phase_of(i, side)]) <= tolerance) && i < first_wrong)
            first_wrong = i;
        uint64_t values = fingerprint(mesh.strain[i]) + 3 * fingerprint(mesh.energy[i]);
        for (int axis = X; axis < AXES; axis++)
            values += (uint64_t)(2 * axis + 5) * fingerprint(mesh.moved[i].of[axis]);
        sum += values * (2 * i + 1);
    }
    if (first_wrong < elements)
        workload_wrong(&run, "node %" PRIu64 " has moved by (%.17g, %.17g, %.17g), or its element is wrong",
                       first_wrong, mesh.moved[first_wrong].of[X], mesh.moved[first_wrong].of[Y],
                       mesh.moved[first_wrong].of[Z]);
    workload_report(&run, 1e-6 * (double)elements * (double)run.iterations, "million elements", sum);
    free(mesh.nodes_of);
    free(mesh.corners_of);
    free(mesh.inverse_mass);
    free(mesh.moved);
    free(mesh.velocity);
    free(mesh.force);
    free(mesh.strain);
    free(mesh.energy);
    free(phase);
    return EXIT_SUCCESS;
}
