/*
 * The volumes of the cells of a mesh of hexahedra, each from the coordinates of its eight corners. The rows of cells
 * are divided into equal blocks among the threads.
 *
 * Load on the machine: three arrays of coordinates are read, each at the eight corners of a cell, and so four rows of
 * each at once; the volumes are written. A cell needs some eighty operations. Three of four rows are reused from the
 * rows and the layer before, if two layers fit the cache. No thread reads what another writes.
 *
 * Effect of placement: little while the operations take longer than the memory. With many cores on a memory controller,
 * a mesh beyond the caches needs bandwidth, so threads should be spread, with their pages on their own nodes (first
 * touch places the pages).
 *
 * Method: the volume within six sides that are bilinear in their corners (Grandy, Efficient computation of volume of
 * hexahedral cells, 1997): the sum of three determinants of differences of corners, divided by twelve. Each iteration
 * measures in a smaller unit of volume, over and over again.
 *
 * Check: nodes are those of a grid of unit squares, with any whole number as the height. A cell's volume is then the
 * mean of the four heights of its columns. The mesh is sheared and turned by a linear map with determinant 1, which
 * changes no volume. All numbers are whole, and each volume is compared exactly.
 */
#include "../workload.h"

#include "../numbers.h"

/* A node's three coordinates, and a cell's volume. */
#define CELL_BYTES (4 * sizeof(double))

/* The number of heights, those that a node may add to its layer's. */
#define HEIGHTS 64

/* The number of iterations with different units. */
#define UNITS 1000

static const struct workload vol3d = {
    .name = "vol3d",
    .summary = "the volumes of hexahedra from eight corners, bound by computing and bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the coordinates and the volumes of the cube together",
    .size = UINT64_C(32) << 20,
    .smallest_size = CELL_BYTES,
    .iterations = 200,
};

struct vector {
    double x, y, z;
};

struct mesh {
    double *x, *y, *z;   /* coordinates of the nodes */
    uint64_t row, layer; /* the numbers of nodes in each */
};

/* The height of a node of layer `k`, before the mesh is turned. */
static int64_t height(uint64_t node, uint64_t k)
{
    return (int64_t)(HEIGHTS * k + number_at(0, node) % HEIGHTS);
}

/* The number of units in a unit of volume in an iteration, counted from 1. */
static int64_t units_in(uint64_t iteration)
{
    return (int64_t)(iteration % UNITS) + 1;
}

static inline struct vector plus(struct vector a, struct vector b)
{
    return (struct vector){a.x + b.x, a.y + b.y, a.z + b.z};
}

static inline double determinant(struct vector a, struct vector b, struct vector c)
{
    return a.x * (b.y * c.z - b.z * c.y) + a.y * (b.z * c.x - b.x * c.z) + a.z * (b.x * c.y - b.y * c.x);
}

/* From node `a` to node `b`. */
static inline struct vector way(const struct mesh *mesh, uint64_t a, uint64_t b)
{
    return (struct vector){mesh->x[b] - mesh->x[a], mesh->y[b] - mesh->y[a], mesh->z[b] - mesh->z[a]};
}

/* Twelve times the volume of the cell with this first corner. The bits of a corner's number say on which side it is. */
static inline double twelve_volumes(const struct mesh *mesh, uint64_t n0)
{
    const uint64_t n1 = n0 + 1, n2 = n0 + mesh->row, n3 = n1 + mesh->row;
    const uint64_t n4 = n0 + mesh->layer, n5 = n1 + mesh->layer, n6 = n2 + mesh->layer, n7 = n3 + mesh->layer;
    const struct vector d17 = way(mesh, n1, n7), d27 = way(mesh, n2, n7), d47 = way(mesh, n4, n7);
    const struct vector d03 = way(mesh, n0, n3), d05 = way(mesh, n0, n5), d06 = way(mesh, n0, n6);
    return determinant(plus(d17, d06), d27, d03) + determinant(d06, plus(d27, d05), d47) +
           determinant(d17, d05, plus(d47, d03));
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&vol3d, argc, argv);
    const uint64_t side = (uint64_t)cbrt((double)(run.size / CELL_BYTES)), cells = side * side * side;
    const uint64_t row = side + 1, layer = row * row, nodes = layer * row;
    run.size = cells * CELL_BYTES;
    const struct mesh mesh = {
        .x = workload_allocate(&run, nodes * sizeof(double)),
        .y = workload_allocate(&run, nodes * sizeof(double)),
        .z = workload_allocate(&run, nodes * sizeof(double)),
        .row = row,
        .layer = layer,
    };
    double *volume = workload_allocate(&run, cells * sizeof *volume);

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (uint64_t node = 0; node < nodes; node++) {
            const double along = (double)(node % row), across = (double)(node / row % row);
            const double up = (double)height(node, node / layer);
            mesh.x[node] = along + across + up;
            mesh.y[node] = across + up;
            mesh.z[node] = along + across + 2 * up;
        }
#pragma omp for schedule(static)
        for (uint64_t cell = 0; cell < cells; cell++)
            volume[cell] = 0;
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const double units = (double)units_in(run.iterations);
#pragma omp parallel for schedule(static)
        for (uint64_t line = 0; line < side * side; line++) {
            const uint64_t first = line / side * layer + line % side * row;
            for (uint64_t i = 0; i < side; i++)
                volume[line * side + i] = units * (twelve_volumes(&mesh, first + i) / 12);
        }
    }

    volume[cells / 2] += (double)run.corrupt;
    uint64_t first_wrong = cells, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t cell = 0; cell < cells; cell++) {
        const uint64_t k = cell / side / side, first = k * layer + cell / side % side * row + cell % side;
        int64_t heights = 0;
        for (uint64_t c = 0; c < 4; c++) {
            const uint64_t node = first + (c & 1) + (c >> 1) * row;
            heights += height(node + layer, k + 1) - height(node, k);
        }
        if (volume[cell] != (double)(units_in(run.iterations) * heights) / 4 && cell < first_wrong)
            first_wrong = cell;
        sum += fingerprint(volume[cell]) * (2 * cell + 1);
    }
    if (first_wrong < cells)
        workload_wrong(&run, "the volume of cell %" PRIu64 " is %.17g", first_wrong, volume[first_wrong]);
    workload_report(&run, 1e-6 * (double)cells * (double)run.iterations, "million cells", sum);
    free(mesh.x);
    free(mesh.y);
    free(mesh.z);
    free(volume);
    return EXIT_SUCCESS;
}
