/*
 * The price of swaptions, rights to swap interest rates later, by simulation: a path begins with a curve of forward
 * rates, moves it up or down in each period, and ends with the value of the swap, if it has any, discounted by the
 * rates on its way. Paths are divided into equal blocks among the threads.
 *
 * Load on the machine: additions, multiplications and a division for each period and payment, in a curve of some
 * hundred bytes that each thread has on its own stack. Nothing is shared until the region's end.
 *
 * Effect of placement: nearly none, if each thread has its own core.
 *
 * Method: the model of Ho and Lee (1986) in the form of Heath, Jarrow and Morton (1992): all forward rates move by the
 * same amount, so that it only matters how often a path has gone up. The bits of a path's number are its ups and downs.
 * Paths come in the order of another permutation (permutation.h) in each iteration, and each comes once. A value is
 * rounded to a whole number of units, so the sum does not depend on its order.
 *
 * Check: the mean value of all paths, found backwards from the last period, with a value for each number of ups. The
 * sum over the paths may differ by the rounding, half a unit for each. Each iteration must have the same sum.
 */
#include "../workload.h"

#include "../permutation.h"

/* The payments of the swap, and the most periods before it: a sum of values, each below 1, then has 62 bits. */
#define PAYMENTS 8
#define MOST_PERIODS 22

#define FIRST_RATE 0.02
#define SLOPE 0.0002 /* of the curve at the start, for each period */
#define DRIFT 0.0001
#define MOVE 0.0015 /* up or down */
#define STRIKE 0.025

/* The units of a value of 1. */
#define UNITS ((double)(UINT64_C(1) << 40))

static const struct workload swaptions = {
    .name = "swaptions",
    .summary = "the price of swaptions by simulated paths of rates, bound by the cores alone",
    .size_unit = "steps",
    .size_meaning = "periods of all paths in an iteration, rounded down to k 2^k for 2^k paths of k periods",
    .size = UINT64_C(4) << 20,
    .smallest_size = 2,
    .iterations = 100,
};

/* The value of the swap for a known curve of rates. Its first rate belongs to the current period. */
static inline double swap_value(const double *curve)
{
    double bond = 1, value = 0;
    for (int payment = 0; payment < PAYMENTS; payment++) {
        bond /= 1 + curve[payment];
        value += bond * (curve[payment] - STRIKE);
    }
    return value > 0 ? value : 0;
}

/* The value of a path in units. */
static int64_t simulate(uint64_t path, unsigned periods)
{
    double curve[MOST_PERIODS + PAYMENTS], discount = 1;
    for (unsigned i = 0; i < periods + PAYMENTS; i++)
        curve[i] = FIRST_RATE + SLOPE * i;
    for (unsigned period = 0; period < periods; period++) {
        discount /= 1 + curve[0];
        const double shock = path >> period & 1 ? DRIFT + MOVE : DRIFT - MOVE;
        for (unsigned i = 0; i + 1 < periods + PAYMENTS - period; i++)
            curve[i] = curve[i + 1] + shock;
    }
    return llrint(UNITS * discount * swap_value(curve));
}

/* The mean value of all paths. */
static double exact(unsigned periods)
{
    double value[MOST_PERIODS + 1];
    for (unsigned ups = 0; ups <= periods; ups++) {
        double curve[PAYMENTS];
        for (unsigned i = 0; i < PAYMENTS; i++)
            curve[i] = FIRST_RATE + SLOPE * (periods + i) + DRIFT * periods + MOVE * (2.0 * ups - periods);
        value[ups] = swap_value(curve);
    }
    for (unsigned period = periods; period-- > 0;)
        for (unsigned ups = 0; ups <= period; ups++) {
            const double rate = FIRST_RATE + SLOPE * period + DRIFT * period + MOVE * (2.0 * ups - period);
            value[ups] = 0.5 * (value[ups] + value[ups + 1]) / (1 + rate);
        }
    return value[0];
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&swaptions, argc, argv);
    unsigned periods = 1;
    while (periods < MOST_PERIODS && (UINT64_C(1) << (periods + 1)) * (periods + 1) <= run.size)
        periods++;
    const uint64_t paths = UINT64_C(1) << periods;
    run.size = periods * paths;

    int64_t sum = 0;    /* of an iteration */
    uint64_t total = 0; /* of all iterations, modulo 2^64 */
    workload_start(&run);
    while (workload_next(&run)) {
        const struct permutation order = permutation_make(periods, run.iterations);
        sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (uint64_t i = 0; i < paths; i++)
            sum += simulate(permute(&order, i), periods);
        total += (uint64_t)sum;
    }

    total ^= run.corrupt;
    if (total != (uint64_t)sum * run.iterations)
        workload_wrong(&run, "the last iteration's sum is %" PRId64 ", and that of all is %" PRIu64, sum, total);
    /* Each path is rounded to a unit, and its value before that to a small fraction of a unit. */
    const double expected = UNITS * exact(periods) * (double)paths, tolerance = 0.6 * (double)paths + 1;
    if (!(fabs((double)sum - expected) <= tolerance))
        workload_wrong(&run, "the paths' sum is %" PRId64 " and must be %.17g", sum, expected);
    workload_report(&run, 1e-6 * (double)paths * (double)run.iterations, "million paths", total);
    return EXIT_SUCCESS;
}
