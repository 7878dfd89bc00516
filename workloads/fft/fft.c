/*
 * A one-dimensional Fourier transform of n complex numbers by the six-step method: as an m by m matrix, n = m m, they
 * are transposed, transformed row by row, multiplied by roots of unity, transposed, transformed row by row again, and
 * transposed (Bailey, FFTs in external or hierarchical memory, Journal of Supercomputing 4, 1990).
 *
 * Load on the machine: the transforms of rows compute in a core's own caches. In the three transpositions each thread
 * reads a block from each other thread's rows, so all data cross the machine three times per iteration. The stride is
 * a power of two, so the accesses use few sets of each cache and touch a new page at each step.
 *
 * Effect of placement: all pairs of threads exchange the same amount of data, so the order of the ranks does not
 * matter, but the number of packages does. For numbers that fit the last-level caches, threads should be close
 * together. For larger numbers, memory bandwidth matters, near or far, so threads should be spread over the nodes.
 * Interleaved pages are as good as first touch here.
 *
 * Method: each transform scales the data by 1 / m, which keeps their length. Each row is transformed in place, by the
 * usual radix-2 method.
 *
 * Check: the start is x_j = exp(2 pi i (1/2) j / n), half a period. Its transform is known for each k, (1 + i cot(pi
 * (1/2 - k) / n)) / m. Two transforms give the reverse of the start, and four give the start. Every number of the
 * last iteration is compared. The threads do not change how a number is computed, so the bits are the same for all
 * numbers of threads.
 */
#include "../workload.h"

#include "../numbers.h"

struct complex {
    double re, im;
};

static const struct workload fft = {
    .name = "fft",
    .summary = "a Fourier transform with transpositions, bound by the exchange of all data between all threads",
    .size_unit = "bytes",
    .size_meaning = "the two arrays together, rounded down to 32 times a power of four",
    .size = UINT64_C(32) << 20,
    .smallest_size = 2 * 4 * sizeof(struct complex),
    .iterations = 200,
};

/* Rows and columns of a transposed block: four lines of 64 bytes wide. */
#define BLOCK UINT64_C(16)

static const double pi = 3.14159265358979323846;

static struct complex times(struct complex a, struct complex b)
{
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* exp(-2 pi i numerator / denominator) */
static struct complex root_of_unity(uint64_t numerator, uint64_t denominator)
{
    const double angle = -2 * pi * (double)numerator / (double)denominator;
    return (struct complex){cos(angle), sin(angle)};
}

/* Writes the transpose of `from` to `to`; each thread of the team writes a share of the rows. */
static void transpose(struct complex *restrict to, const struct complex *restrict from, uint64_t side)
{
#pragma omp for schedule(static)
    for (uint64_t first_row = 0; first_row < side; first_row += BLOCK) {
        const uint64_t last_row = first_row + BLOCK < side ? first_row + BLOCK : side;
        for (uint64_t first_column = 0; first_column < side; first_column += BLOCK) {
            const uint64_t last_column = first_column + BLOCK < side ? first_column + BLOCK : side;
            for (uint64_t row = first_row; row < last_row; row++)
                for (uint64_t column = first_column; column < last_column; column++)
                    to[row * side + column] = from[column * side + row];
        }
    }
}

/* Transforms one row in place. `coarse` holds the roots of unity of order `side`. */
static void transform_row(struct complex *row, uint64_t side, const struct complex *coarse)
{
    for (uint64_t i = 1, reversed = 0; i < side; i++) {
        uint64_t bit = side >> 1;
        for (; reversed & bit; bit >>= 1)
            reversed ^= bit;
        reversed ^= bit;
        if (i < reversed) {
            const struct complex swapped = row[i];
            row[i] = row[reversed];
            row[reversed] = swapped;
        }
    }
    for (uint64_t half = 1; half < side; half *= 2) {
        for (uint64_t first = 0; first < side; first += 2 * half) {
            for (uint64_t i = 0; i < half; i++) {
                struct complex *low = &row[first + i], *high = &row[first + half + i];
                const struct complex a = *low, b = times(*high, coarse[i * (side / (2 * half))]);
                *low = (struct complex){a.re + b.re, a.im + b.im};
                *high = (struct complex){a.re - b.re, a.im - b.im};
            }
        }
    }
}

/* Element `j` after `transforms` transforms. */
static struct complex exact(uint64_t j, uint64_t side, uint64_t transforms)
{
    const uint64_t length = side * side;
    if (transforms % 4 >= 2)
        j = (length - j) % length;
    if (transforms % 2 == 0) {
        const double angle = pi * (double)j / (double)length;
        return (struct complex){cos(angle), sin(angle)};
    }
    /* From the nearer end, as the cotangent near its other pole would enlarge the rounding of the angle. */
    const double from_end = j < length / 2 ? 0.5 - (double)j : 0.5 + (double)(length - j);
    return (struct complex){1 / (double)side, 1 / tan(pi * from_end / (double)length) / (double)side};
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&fft, argc, argv);
    uint64_t side = 2;
    while (run.size / (2 * sizeof(struct complex)) / (2 * side) >= 2 * side)
        side *= 2;
    const uint64_t length = side * side;
    run.size = 2 * length * sizeof(struct complex);
    struct complex *data = workload_allocate(&run, length * sizeof *data);
    struct complex *other = workload_allocate(&run, length * sizeof *other);

    /* A root of order n is a coarse one, of order m, times a fine one. */
    struct complex *coarse = workload_allocate(&run, side * sizeof *coarse);
    struct complex *fine = workload_allocate(&run, side * sizeof *fine);
    for (uint64_t i = 0; i < side; i++) {
        coarse[i] = root_of_unity(i, side);
        fine[i] = root_of_unity(i, length);
    }
#pragma omp parallel for schedule(static)
    for (uint64_t row = 0; row < side; row++) {
        for (uint64_t j = row * side; j < (row + 1) * side; j++) {
            data[j] = exact(j, side, 0);
            other[j] = (struct complex){0, 0};
        }
    }

    const double scale = 1 / (double)side;
    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
            transpose(other, data, side);
#pragma omp for schedule(static)
            for (uint64_t row = 0; row < side; row++) {
                struct complex *numbers = other + row * side;
                transform_row(numbers, side, coarse);
                for (uint64_t column = 0; column < side; column++) {
                    const uint64_t power = row * column;
                    const struct complex root = times(coarse[power / side], fine[power % side]);
                    numbers[column] = times(numbers[column], (struct complex){scale * root.re, scale * root.im});
                }
            }
            transpose(data, other, side);
#pragma omp for schedule(static)
            for (uint64_t row = 0; row < side; row++)
                transform_row(data + row * side, side, coarse);
            transpose(other, data, side);
        }
        struct complex *swapped = data;
        data = other;
        other = swapped;
    }

    data[length / 2].re += (double)run.corrupt;
    /* A transform rounds log2 n times, relative to numbers of at most m, and does not enlarge the errors before it. */
    const double tolerance = 2.3e-16 * 16 * (double)side * log2((double)length) * (double)(run.iterations + 1);
    uint64_t first_wrong = length, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t j = 0; j < length; j++) {
        const struct complex expected = exact(j, side, run.iterations);
        const double error = hypot(data[j].re - expected.re, data[j].im - expected.im);
        if (!(error <= tolerance) && j < first_wrong)
            first_wrong = j;
        sum += (fingerprint(data[j].re) + 2 * fingerprint(data[j].im)) * (2 * j + 1);
    }
    if (first_wrong < length) {
        const struct complex expected = exact(first_wrong, side, run.iterations);
        workload_wrong(&run, "number %" PRIu64 " is %.17g + %.17g i and must be %.17g + %.17g i", first_wrong,
                       data[first_wrong].re, data[first_wrong].im, expected.re, expected.im);
    }
    workload_report(&run, 1e-6 * (double)length * (double)run.iterations, "million numbers", sum);
    free(data);
    free(other);
    free(coarse);
    free(fine);
    return EXIT_SUCCESS;
}
