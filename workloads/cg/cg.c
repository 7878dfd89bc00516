/*
 * Conjugate gradients: systems of equations with a sparse symmetric matrix in compressed rows (CSR). An iteration of
 * the program is a step of the method; after 25 steps the next system begins, with another right side. The benchmark
 * CG of the NAS Parallel Benchmarks does the same with a matrix of random pattern.
 *
 * Load on the machine: a step streams the matrix once and the four vectors two or three times each, with two
 * operations per entry. The product reads the vector at the places of the row's six neighbours in a cube, so a thread
 * also reads what the threads before and after it have written, up to a whole plane of the cube. Two dot products
 * follow each other in a step: each has a barrier, and then all threads read the partial sums of all others.
 *
 * Effect of placement: a matrix beyond the caches needs bandwidth and its pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). A system that fits the caches together is bound by the three
 * barriers and the partial sums, so threads should be close together, and ranks that are neighbours near each other.
 *
 * Method: the points of the cube are numbered line by line and plane by plane, and each point has the neighbours at
 * the distances 1, n and n^2 in this numbering, n being the side. The last point is followed by the first. The
 * diagonal is 7, each neighbour's entry is -1, so the eigenvalues lie between 1 and 13. A sum is that of fixed parts
 * of the rows, in a fixed order, so the bits are the same for any number of threads.
 *
 * Check: the method updates the residual r without the right side; it must be b - A x for each row, except for
 * rounding. Its norm must have shrunk as the theory of the method promises for these eigenvalues, to 2 sqrt(13)
 * (sqrt(13) - 1)^k / (sqrt(13) + 1)^k of that of b in k steps. The last step must have had the right length and be
 * followed by the right direction p: the products p A p' and r p' with the direction p' before it are 0. As p - r is a
 * multiple of p', the latter shows as p r = r r.
 */
#include "../workload.h"

#include "../numbers.h"

#define ROW_ENTRIES UINT64_C(7)
#define DIAGONAL 7.0
#define CONDITION 13.0 /* largest eigenvalue to smallest */

/* The steps for one right side, as in the NAS Parallel Benchmarks. */
#define STEPS UINT64_C(25)

/* The parts of the rows; a multiple of many numbers of cores, so that all threads have equally many. */
#define PARTS UINT64_C(768)

/* A row's entries, its start, and its elements of the four vectors. */
#define ROW_BYTES (ROW_ENTRIES * (sizeof(double) + sizeof(uint32_t)) + sizeof(uint64_t) + 4 * sizeof(double))

static const struct workload cg = {
    .name = "cg",
    .summary = "conjugate gradients, bound by bandwidth, with dot products of all threads",
    .size_unit = "bytes",
    .size_meaning = "the matrix and the vectors together",
    .size = UINT64_C(96) << 20,
    .smallest_size = ROW_BYTES,
    .iterations = 200,
};

/* The first row of a part. */
static uint64_t part_begin(uint64_t rows, uint64_t part)
{
    return rows * part / PARTS;
}

/* The right side of a system, between -1 and 1. */
static double right_side(uint64_t system, uint64_t row)
{
    return (double)(number_at(system, row) >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

static double total(const double *partial)
{
    double sum = 0;
    for (uint64_t part = 0; part < PARTS; part++)
        sum += partial[part];
    return sum;
}

/* A system that is solved to the last bit, as very small ones are, has only zeros to divide. */
static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&cg, argc, argv);
    const uint64_t rows = run.size / ROW_BYTES;
    if (rows > UINT32_MAX)
        workload_usage_error(&cg, "--size %" PRIu64 ": column numbers have 32 bits, so the largest is %" PRIu64,
                             run.size, UINT32_MAX * ROW_BYTES);
    run.size = rows * ROW_BYTES;
    uint64_t *start = workload_allocate(&run, (rows + 1) * sizeof *start);
    double *values = workload_allocate(&run, rows * ROW_ENTRIES * sizeof *values);
    uint32_t *columns = workload_allocate(&run, rows * ROW_ENTRIES * sizeof *columns);
    double *x = workload_allocate(&run, rows * sizeof *x); /* the solution so far */
    double *r = workload_allocate(&run, rows * sizeof *r); /* its residual */
    double *p = workload_allocate(&run, rows * sizeof *p); /* the direction of the next step */
    double *q = workload_allocate(&run, rows * sizeof *q); /* A p */
    double *products = workload_allocate(&run, PARTS * sizeof *products);
    double *squares = workload_allocate(&run, PARTS * sizeof *squares);

    const uint64_t side = (uint64_t)cbrt((double)rows);
    const uint64_t distances[ROW_ENTRIES] = {rows - side * side % rows, rows - side % rows, rows - 1, 0, 1, side,
                                             side * side};
    start[rows] = rows * ROW_ENTRIES;
#pragma omp parallel for schedule(static)
    for (uint64_t part = 0; part < PARTS; part++) {
        for (uint64_t row = part_begin(rows, part); row < part_begin(rows, part + 1); row++) {
            start[row] = row * ROW_ENTRIES;
            for (uint64_t i = 0; i < ROW_ENTRIES; i++) {
                columns[start[row] + i] = (uint32_t)((row + distances[i]) % rows);
                values[start[row] + i] = i == ROW_ENTRIES / 2 ? DIAGONAL : -1;
            }
            x[row] = r[row] = p[row] = q[row] = 0;
        }
        products[part] = squares[part] = 0;
    }

    double squared_residual = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t system = (run.iterations - 1) / STEPS, step = (run.iterations - 1) % STEPS;
#pragma omp parallel
        {
            double before = squared_residual;
            if (step == 0) {
#pragma omp for schedule(static)
                for (uint64_t part = 0; part < PARTS; part++) {
                    double sum = 0;
                    for (uint64_t row = part_begin(rows, part); row < part_begin(rows, part + 1); row++) {
                        x[row] = 0;
                        p[row] = r[row] = right_side(system, row);
                        sum += r[row] * r[row];
                    }
                    squares[part] = sum;
                }
                before = total(squares);
            }
#pragma omp for schedule(static)
            for (uint64_t part = 0; part < PARTS; part++) {
                double sum = 0;
                for (uint64_t row = part_begin(rows, part); row < part_begin(rows, part + 1); row++) {
                    double product = 0;
                    for (uint64_t entry = start[row]; entry < start[row + 1]; entry++)
                        product += values[entry] * p[columns[entry]];
                    q[row] = product;
                    sum += p[row] * product;
                }
                products[part] = sum;
            }
            const double length = quotient(before, total(products));
#pragma omp for schedule(static)
            for (uint64_t part = 0; part < PARTS; part++) {
                double sum = 0;
                for (uint64_t row = part_begin(rows, part); row < part_begin(rows, part + 1); row++) {
                    x[row] += length * p[row];
                    r[row] -= length * q[row];
                    sum += r[row] * r[row];
                }
                squares[part] = sum;
            }
            const double after = total(squares), share = quotient(after, before);
#pragma omp single nowait
            squared_residual = after; /* all threads have read the old one before the barriers above */
#pragma omp for schedule(static)
            for (uint64_t part = 0; part < PARTS; part++)
                for (uint64_t row = part_begin(rows, part); row < part_begin(rows, part + 1); row++)
                    p[row] = r[row] + share * p[row];
        }
    }

    x[rows / 2] += (double)run.corrupt;
    const uint64_t system = (run.iterations - 1) / STEPS, steps = (run.iterations - 1) % STEPS + 1;
    /* A step rounds some twenty times, numbers of about 1 that the matrix multiplies by at most 13. */
    const double tolerance = 2.3e-16 * 20 * 13 * (double)(steps + 1);
    uint64_t first_wrong = rows, sum = 0;
    double bb = 0, rr = 0, qq = 0, pq = 0, pr = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum, bb, rr, qq, pq, pr)
    for (uint64_t row = 0; row < rows; row++) {
        double residual = right_side(system, row);
        bb += residual * residual;
        for (uint64_t entry = start[row]; entry < start[row + 1]; entry++)
            residual -= values[entry] * x[columns[entry]];
        rr += r[row] * r[row];
        qq += q[row] * q[row];
        pq += p[row] * q[row];
        pr += p[row] * r[row];
        if (!(fabs(residual - r[row]) <= tolerance) && row < first_wrong)
            first_wrong = row;
        sum += fingerprint(x[row]) * (2 * row + 1);
    }
    if (first_wrong < rows)
        workload_wrong(&run, "the residual of row %" PRIu64 " is not %.17g", first_wrong, r[first_wrong]);
    const double rate = (sqrt(CONDITION) - 1) / (sqrt(CONDITION) + 1);
    const double bound = 2 * sqrt(CONDITION) * pow(rate, (double)steps) * sqrt(bb);
    if (!(sqrt(rr) <= bound))
        workload_wrong(&run, "the norm of the residual is %.17g and must be at most %.17g", sqrt(rr), bound);
    const double rounding = 1e-10 * qq + 1e-300; /* the latter where numbers are subnormal */
    if (!(fabs(pq) <= rounding) || !(fabs(pr - rr) <= rounding))
        workload_wrong(&run, "p A p' is %.17g and must be 0, and p r - r r is %.17g and must be 0", pq, pr - rr);
    workload_report(&run, 1e-6 * (double)(rows * ROW_ENTRIES) * (double)run.iterations, "million entries", sum);
    free(start);
    free(values);
    free(columns);
    free(x);
    free(r);
    free(p);
    free(q);
    free(products);
    free(squares);
    return EXIT_SUCCESS;
}
