/*
 * Sparse matrix times vector, y = A x, with the matrix in compressed rows (CSR); each product is the next vector.
 *
 * Load on the machine: the matrix streams through the caches once per iteration, which uses memory bandwidth. Each
 * entry of it reads one element of the vector: for about half of the entries close to the diagonal, where the line is
 * already in a cache, for the others anywhere. All threads wrote the vector an iteration ago, so its lines come from
 * other cores' caches where they fit there, and from all nodes where they do not.
 *
 * Effect of placement: matrix and vector have opposite needs. The matrix needs all memory controllers, so threads
 * should be spread, each with its rows on its own node (by first touch). For the vector, threads should be close
 * together. With a matrix far beyond the caches, bandwidth decides; with one that fits the last-level caches, the
 * distance between them matters.
 *
 * Check: integers modulo 2^64. The diagonal is chosen so that a vector v with odd elements is an eigenvector, A v = 3
 * v; this is possible because odd numbers have inverses. So the vector is v times a power of 3, and each element is
 * compared.
 */
#include "../workload.h"

#include "../numbers.h"

/* The entries of eight rows in turn; irregular, but the start of each row is known. They are 16 in the mean. */
static const uint8_t row_lengths[8] = {4, 28, 12, 20, 8, 24, 15, 17};
#define MEAN_LENGTH 16

/* Half of the entries are at most this number of columns after the diagonal. */
#define BAND 128

#define EIGENVALUE 3

/* A row's entries, its start, and its elements of both vectors. */
#define ROW_BYTES (MEAN_LENGTH * (sizeof(uint64_t) + sizeof(uint32_t)) + 3 * sizeof(uint64_t))

static const struct workload spmv = {
    .name = "spmv",
    .summary = "sparse matrix times vector, bound by bandwidth and by scattered reads of the vector",
    .size_unit = "bytes",
    .size_meaning = "the matrix and both vectors together",
    .size = UINT64_C(96) << 20,
    .smallest_size = ROW_BYTES,
    .iterations = 200,
};

/* Where the entries of a row start. */
static uint64_t row_start(uint64_t row)
{
    uint64_t start = row / 8 * 8 * MEAN_LENGTH;
    for (uint64_t before = 0; before < row % 8; before++)
        start += row_lengths[before];
    return start;
}

static uint64_t eigenvector(uint64_t i)
{
    return number_at(0, i) | 1;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&spmv, argc, argv);
    const uint64_t rows = run.size / ROW_BYTES;
    if (rows > UINT32_MAX)
        workload_usage_error(&spmv, "--size %" PRIu64 ": column numbers have 32 bits, so the largest is %" PRIu64,
                             run.size, UINT32_MAX * ROW_BYTES);
    run.size = rows * ROW_BYTES;
    const uint64_t entries = row_start(rows);
    uint64_t *start = workload_allocate(&run, (rows + 1) * sizeof *start);
    uint64_t *values = workload_allocate(&run, entries * sizeof *values);
    uint32_t *columns = workload_allocate(&run, entries * sizeof *columns);
    uint64_t *x = workload_allocate(&run, rows * sizeof *x);
    uint64_t *y = workload_allocate(&run, rows * sizeof *y);

    start[rows] = entries;
#pragma omp parallel for schedule(static)
    for (uint64_t row = 0; row < rows; row++) {
        start[row] = row_start(row);
        x[row] = eigenvector(row);
        y[row] = 0;
        uint64_t others = 0; /* what the entries off the diagonal make of the eigenvector */
        const uint64_t diagonal = start[row], end = row_start(row + 1);
        for (uint64_t entry = diagonal + 1; entry < end; entry++) {
            const uint64_t number = number_at(1, entry);
            columns[entry] = (uint32_t)(entry % 2 ? (row + number % BAND) % rows : number % rows);
            values[entry] = number;
            others += number * eigenvector(columns[entry]);
        }
        columns[diagonal] = (uint32_t)row;
        values[diagonal] = (EIGENVALUE * eigenvector(row) - others) * inverse_of_odd(eigenvector(row));
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t row = 0; row < rows; row++) {
            uint64_t sum = 0;
            for (uint64_t entry = start[row]; entry < start[row + 1]; entry++)
                sum += values[entry] * x[columns[entry]];
            y[row] = sum;
        }
        uint64_t *swapped = x;
        x = y;
        y = swapped;
    }

    x[rows / 2] ^= run.corrupt;
    uint64_t scale = 1;
    for (uint64_t iteration = 0; iteration < run.iterations; iteration++)
        scale *= EIGENVALUE;
    uint64_t first_wrong = rows, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < rows; i++) {
        if (x[i] != scale * eigenvector(i) && i < first_wrong)
            first_wrong = i;
        sum += x[i] * (2 * i + 1);
    }
    if (first_wrong < rows)
        workload_wrong(&run, "element %" PRIu64 " is %" PRIu64 " and must be %" PRIu64, first_wrong, x[first_wrong],
                       scale * eigenvector(first_wrong));
    workload_report(&run, 1e-6 * (double)entries * (double)run.iterations, "million entries", sum);
    free(start);
    free(values);
    free(columns);
    free(x);
    free(y);
    return EXIT_SUCCESS;
}
