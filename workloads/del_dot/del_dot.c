/*
 * The divergence of a vector field on a mesh of quadrilaterals in two dimensions. The field is known at the mesh's
 * nodes. A list names the first corner of each cell. The divergence of a cell is the flow out through its four sides,
 * divided by its area. Each cell adds it up over the iterations, as its expansion. The cells are divided into equal
 * blocks among the threads.
 *
 * Load on the machine: four arrays of nodes are read (coordinates and field), each at the four corners of a cell, and
 * so two rows of each at once; the list is read, and the expansion is read and written. There is a division and some
 * forty other operations for each cell. Nothing that other threads write is read.
 *
 * Effect of placement: a mesh beyond the caches needs bandwidth and its pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). A mesh that fits the caches together stays in them: then a core for
 * each thread is all that counts.
 *
 * Check: the cells are equal parallelograms, and the field is quadratic in the coordinates. Then the errors of the
 * trapezoidal rule on opposite sides cancel, and the divergence is exactly that at the cell's centre. All numbers are
 * multiples of small powers of two, so nothing is rounded, and each expansion is compared exactly.
 */
#include "../workload.h"

#include "../numbers.h"

/* A cell's list entry and expansion, and the two coordinates and two components of the field at a node. */
#define CELL_BYTES (sizeof(uint32_t) + 5 * sizeof(double))

/* How far each row of nodes is moved to the right of the previous row. */
#define SHEAR 0.5

static const struct workload del_dot = {
    .name = "del_dot",
    .summary = "the divergence of a field on quadrilaterals through lists of corners, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the square mesh, its field, the list and the result together",
    .size = UINT64_C(64) << 20,
    .smallest_size = CELL_BYTES,
    .iterations = 200,
};

struct mesh {
    double *x, *y; /* coordinates of the nodes */
    double *u, *v; /* the field at the nodes */
    uint64_t row;  /* the number of nodes in a row */
};

/* The field at a place. */
static double field_x(double x, double y)
{
    return 2 * x * x + x * y - y * y;
}

static double field_y(double x, double y)
{
    return x * x - 3 * x * y + y * y;
}

/* The divergence of this field. */
static double exact(double x, double y)
{
    return (4 * x + y) + (2 * y - 3 * x);
}

/* Twice the flow out through the side from node `a` to node `b`, with the cell on its left. */
static inline double twice_the_flow(const struct mesh *mesh, uint64_t a, uint64_t b)
{
    const double along_x = mesh->x[b] - mesh->x[a], along_y = mesh->y[b] - mesh->y[a];
    return (mesh->u[a] + mesh->u[b]) * along_y - (mesh->v[a] + mesh->v[b]) * along_x;
}

/* The divergence in the cell whose first corner is this node; the corners are numbered counter-clockwise. */
static inline double divergence(const struct mesh *mesh, uint64_t first)
{
    const uint64_t second = first + 1, third = second + mesh->row, fourth = first + mesh->row;
    const double flow = twice_the_flow(mesh, first, second) + twice_the_flow(mesh, second, third) +
                        twice_the_flow(mesh, third, fourth) + twice_the_flow(mesh, fourth, first);
    const double area = (mesh->x[third] - mesh->x[first]) * (mesh->y[fourth] - mesh->y[second]) -
                        (mesh->x[fourth] - mesh->x[second]) * (mesh->y[third] - mesh->y[first]); /* twice the area */
    return flow / area;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&del_dot, argc, argv);
    const uint64_t side = (uint64_t)sqrt((double)(run.size / CELL_BYTES)), cells = side * side;
    const uint64_t row = side + 1, nodes = row * row;
    if (nodes > UINT32_MAX)
        workload_usage_error(&del_dot, "--size %" PRIu64 ": numbers of nodes have 32 bits, so choose a smaller one",
                             run.size);
    run.size = cells * CELL_BYTES;
    const struct mesh mesh = {
        .x = workload_allocate(&run, nodes * sizeof(double)),
        .y = workload_allocate(&run, nodes * sizeof(double)),
        .u = workload_allocate(&run, nodes * sizeof(double)),
        .v = workload_allocate(&run, nodes * sizeof(double)),
        .row = row,
    };
    uint32_t *corner = workload_allocate(&run, cells * sizeof *corner);
    double *expansion = workload_allocate(&run, cells * sizeof *expansion);

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (uint64_t node = 0; node < nodes; node++) {
            mesh.y[node] = (double)(node / row);
            mesh.x[node] = (double)(node % row) + SHEAR * mesh.y[node];
            mesh.u[node] = field_x(mesh.x[node], mesh.y[node]);
            mesh.v[node] = field_y(mesh.x[node], mesh.y[node]);
        }
#pragma omp for schedule(static)
        for (uint64_t cell = 0; cell < cells; cell++) {
            corner[cell] = (uint32_t)(cell / side * row + cell % side);
            expansion[cell] = 0;
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t cell = 0; cell < cells; cell++)
            expansion[cell] += divergence(&mesh, corner[cell]);
    }

    expansion[cells / 2] += (double)run.corrupt;
    uint64_t first_wrong = cells, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t cell = 0; cell < cells; cell++) {
        const double y = (double)(cell / side) + 0.5, x = (double)(cell % side) + 0.5 + SHEAR * y;
        if (expansion[cell] != exact(x, y) * (double)run.iterations && cell < first_wrong)
            first_wrong = cell;
        sum += fingerprint(expansion[cell]) * (2 * cell + 1);
    }
    if (first_wrong < cells)
        workload_wrong(&run, "the expansion of cell %" PRIu64 " is %.17g", first_wrong, expansion[first_wrong]);
    workload_report(&run, 1e-6 * (double)cells * (double)run.iterations, "million cells", sum);
    free(mesh.x);
    free(mesh.y);
    free(mesh.u);
    free(mesh.v);
    free(corner);
    free(expansion);
    return EXIT_SUCCESS;
}
