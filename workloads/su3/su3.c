/*
 * Matrices of the group SU(3) times vectors, as in lattice theories of quarks: at each site of a lattice a complex
 * matrix of three by three is multiplied by a complex vector. The result is the next iteration's vector. The sites are
 * divided into equal blocks among the threads.
 *
 * Load on the machine: the matrices, three fifths of the data, are read once, from begin to end, and so are the old
 * vectors; the new ones are written. There are 66 operations for 30 numbers. No thread reads what another writes.
 *
 * Effect of placement: a lattice beyond the caches needs bandwidth and its pages on the threads' own nodes, so threads
 * should be spread (first touch places the pages). If a thread's block fits its caches, a core for each thread is all
 * that counts.
 *
 * Check: each matrix turns the part of a vector along an axis by one angle, and the two parts across by another, such
 * that the determinant is 1. The axis is another at each site. So each vector is known after any number of iterations.
 */
#include "../workload.h"

#include "../numbers.h"

#include <complex.h>

#define COLOURS 3

/* By how much the part along the axis is turned beyond the others, in radians. */
#define ANGLE 1.0

struct vector {
    double re[COLOURS], im[COLOURS];
};

struct matrix {
    double re[COLOURS][COLOURS], im[COLOURS][COLOURS];
};

#define SITE_BYTES (sizeof(struct matrix) + 2 * sizeof(struct vector))

static const struct workload su3 = {
    .name = "su3",
    .summary = "matrices of SU(3) times vectors over a lattice, bound by bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the matrices and both vectors together",
    .size = UINT64_C(64) << 20,
    .smallest_size = SITE_BYTES,
    .iterations = 300,
};

/* A complex number for a colour at a site, with parts from -1 to 1. */
static double complex number_of(uint64_t seed, uint64_t site, int colour)
{
    const uint64_t number = number_at(seed, COLOURS * site + (uint64_t)colour);
    return (double)(number >> 33) / (double)(UINT64_C(1) << 30) - 1 +
           I * ((double)(number & UINT32_MAX) / (double)(UINT64_C(1) << 31) - 1);
}

static double complex start_of(uint64_t site, int colour)
{
    return number_of(0, site, colour);
}

/* The axis at a site, of length 1. */
static void axis_of(double complex *axis, uint64_t site)
{
    double squared = 0;
    for (int colour = 0; colour < COLOURS; colour++) {
        axis[colour] = number_of(1, site, colour) + (colour == 0 ? 2 : 0); /* not zero */
        squared += creal(axis[colour] * conj(axis[colour]));
    }
    for (int colour = 0; colour < COLOURS; colour++)
        axis[colour] /= sqrt(squared);
}

/* What turning `turns` times does to the parts across the axis. */
static double complex across(double turns)
{
    return cexp(-I * (ANGLE / COLOURS) * turns);
}

/* What it does to the part along the axis in addition. */
static double complex along(double turns)
{
    return across(turns) * (cexp(I * ANGLE * turns) - 1);
}

static inline struct vector product(const struct matrix *a, const struct vector *b)
{
    struct vector c;
    for (int i = 0; i < COLOURS; i++) {
        double re = 0, im = 0;
        for (int j = 0; j < COLOURS; j++) {
            re += a->re[i][j] * b->re[j] - a->im[i][j] * b->im[j];
            im += a->re[i][j] * b->im[j] + a->im[i][j] * b->re[j];
        }
        c.re[i] = re;
        c.im[i] = im;
    }
    return c;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&su3, argc, argv);
    const uint64_t sites = run.size / SITE_BYTES;
    run.size = sites * SITE_BYTES;
    struct matrix *link = workload_allocate(&run, sites * sizeof *link);
    struct vector *from = workload_allocate(&run, sites * sizeof *from);
    struct vector *to = workload_allocate(&run, sites * sizeof *to);

#pragma omp parallel for schedule(static)
    for (uint64_t site = 0; site < sites; site++) {
        double complex axis[COLOURS];
        axis_of(axis, site);
        for (int i = 0; i < COLOURS; i++) {
            for (int j = 0; j < COLOURS; j++) {
                const double complex entry = along(1) * axis[i] * conj(axis[j]) + (i == j ? across(1) : 0);
                link[site].re[i][j] = creal(entry);
                link[site].im[i][j] = cimag(entry);
            }
            from[site].re[i] = creal(start_of(site, i));
            from[site].im[i] = cimag(start_of(site, i));
            to[site].re[i] = to[site].im[i] = 0;
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t site = 0; site < sites; site++)
            to[site] = product(&link[site], &from[site]);
        struct vector *swapped = from;
        from = to;
        to = swapped;
    }

    from[sites / 2].re[1] += (double)run.corrupt;
    /* An iteration rounds each vector, at most sqrt(6) long, some ten times; a matrix, which is rounded too, does not
     * enlarge the errors before it. */
    const double tolerance = 3 * 2.3e-16 * 32 * (double)(run.iterations + 16);
    const double complex turned = across((double)run.iterations), added = along((double)run.iterations);
    uint64_t first_wrong = sites, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t site = 0; site < sites; site++) {
        double complex axis[COLOURS], part = 0;
        axis_of(axis, site);
        for (int colour = 0; colour < COLOURS; colour++)
            part += conj(axis[colour]) * start_of(site, colour);
        for (int colour = 0; colour < COLOURS; colour++) {
            const double re = from[site].re[colour], im = from[site].im[colour];
            const double complex expected = turned * start_of(site, colour) + added * part * axis[colour];
            if (!(fabs(re - creal(expected)) + fabs(im - cimag(expected)) <= tolerance) && site < first_wrong)
                first_wrong = site;
            sum += (fingerprint(re) + 3 * fingerprint(im)) * (2 * (COLOURS * site + (uint64_t)colour) + 1);
        }
    }
    if (first_wrong < sites)
        workload_wrong(&run, "the vector at site %" PRIu64 " begins with (%.17g, %.17g)", first_wrong,
                       from[first_wrong].re[0], from[first_wrong].im[0]);
    workload_report(&run, 1e-6 * (double)sites * (double)run.iterations, "million sites", sum);
    free(link);
    free(from);
    free(to);
    return EXIT_SUCCESS;
}
