/*
 * Transposition of a square matrix from one array to another, in blocks, and back in the next iteration. The rows of
 * the target are divided into equal shares among the threads.
 *
 * Load on the machine: each thread writes its own rows and reads columns, a block from each other thread's rows. So
 * all data cross the machine once per iteration, as in an exchange of all threads with all others, with one addition
 * per number. A block reads and writes whole lines of 64 bytes, but each of its lines is on another page of a large
 * matrix, which costs TLB entries, and few prefetchers follow.
 *
 * Effect of placement: all pairs of threads exchange the same amount of data, so the order of the ranks does not
 * matter. Matrices beyond the caches need the bandwidth of all memory controllers, so threads should be spread over
 * the nodes; on k nodes only 1 / k of what is read is near, and links between packages may be the limit. Matrices that
 * fit the last-level caches were written by all other cores an iteration ago, so threads should be close together, on
 * one such cache at best.
 *
 * Method: each thread begins at the diagonal and goes round from there, so that the threads read from different rows
 * at a time.
 *
 * Check: each number starts as its position, and each transposition adds 1. All are integers and so exact; every
 * number of the last iteration is compared.
 */
#include "../workload.h"

#include "../numbers.h"

static const struct workload transpose = {
    .name = "transpose",
    .summary = "transposition of a matrix, bound by the exchange of all data between all threads",
    .size_unit = "bytes",
    .size_meaning = "the two square matrices together",
    .size = UINT64_C(96) << 20,
    .smallest_size = 2 * sizeof(double),
    .iterations = 200,
};

/* Rows and columns of a block: one line of 64 bytes wide. */
#define BLOCK UINT64_C(8)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Writes the block that begins at (row, column), the transpose of one of `from` with 1 added. */
static void transpose_block(double *restrict to, const double *restrict from, uint64_t side, uint64_t first_row,
                            uint64_t first_column)
{
    const uint64_t last_row = least(first_row + BLOCK, side), last_column = least(first_column + BLOCK, side);
    for (uint64_t row = first_row; row < last_row; row++)
        for (uint64_t column = first_column; column < last_column; column++)
            to[row * side + column] = from[column * side + row] + 1;
}

/* The number at (row, column) after this many transpositions. */
static double exact(uint64_t row, uint64_t column, uint64_t side, uint64_t iterations)
{
    return (double)((iterations % 2 ? column * side + row : row * side + column) + iterations);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&transpose, argc, argv);
    uint64_t side = (uint64_t)sqrt((double)(run.size / (2 * sizeof(double))));
    if (side < 1)
        side = 1; /* the root may have been rounded down */
    const uint64_t blocks = (side + BLOCK - 1) / BLOCK; /* per side */
    run.size = 2 * side * side * sizeof(double);
    double *from = workload_allocate(&run, side * side * sizeof *from);
    double *to = workload_allocate(&run, side * side * sizeof *to);

#pragma omp parallel for schedule(static)
    for (uint64_t block = 0; block < blocks; block++) {
        for (uint64_t row = block * BLOCK; row < least((block + 1) * BLOCK, side); row++) {
            for (uint64_t column = 0; column < side; column++) {
                from[row * side + column] = exact(row, column, side, 0);
                to[row * side + column] = 0;
            }
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t block = 0; block < blocks; block++) {
            for (uint64_t column = block; column < blocks; column++)
                transpose_block(to, from, side, block * BLOCK, column * BLOCK);
            for (uint64_t column = 0; column < block; column++)
                transpose_block(to, from, side, block * BLOCK, column * BLOCK);
        }
        double *swapped = from;
        from = to;
        to = swapped;
    }

    from[side * side / 2] += (double)run.corrupt;
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < side * side; i++) {
        if (from[i] != exact(i / side, i % side, side, run.iterations) && i < first_wrong)
            first_wrong = i;
        sum += fingerprint(from[i]) * (2 * i + 1);
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "number (%" PRIu64 ", %" PRIu64 ") is %.17g and must be %.17g", first_wrong / side,
                       first_wrong % side, from[first_wrong],
                       exact(first_wrong / side, first_wrong % side, side, run.iterations));
    workload_report(&run, 1e-6 * (double)(side * side) * (double)run.iterations, "million numbers", sum);
    free(from);
    free(to);
    return EXIT_SUCCESS;
}
