/*
 * Random reads of a large table.
 *
 * Load on the machine: nearly every read misses the caches, and beyond a few MiB also the TLB; no prefetcher can
 * predict the next address. With `--mode independent` the addresses are computed, and a core keeps as many misses in
 * flight as it can. With `--mode dependent` each read gives the address of the next, so there is one miss at a time,
 * and the rate is the inverse of the memory's latency.
 *
 * Effect of placement: all threads read the whole table, whose pages first touch has spread evenly over the threads'
 * nodes. So no thread can be near all of its pages. The mean distance matters, and packing the threads on few nodes
 * shortens it if the table is also there. For a table of the size of a last-level cache, threads should be on one
 * such cache, which then holds the table once. Two SMT threads of a core hardly slow each other down in dependent
 * mode, because each mostly waits; in independent mode they share the core's buffers for outstanding misses.
 *
 * Method: permute() (permutation.h) permutes the n = 2^k entries. Entry permute(j) holds permute(j + 1), so the
 * entries form one cycle through the whole table, and the target of each step is known without reading. An iteration
 * reads the next part of this cycle, divided among the threads.
 *
 * Check: the sum of all read entries. It is w times the sum of all entries for w whole cycles, and the sum of
 * permute() over the rest.
 */
#include "../workload.h"

#include "../permutation.h"

enum mode { INDEPENDENT, DEPENDENT };
static const char *const modes[] = {[INDEPENDENT] = "independent", [DEPENDENT] = "dependent", NULL};

static const struct workload random_access = {
    .name = "random_access",
    .summary = "random reads of a large table, bound by memory latency",
    .size_unit = "bytes",
    .size_meaning = "the table, rounded down to a power of two",
    .size = UINT64_C(128) << 20,
    .smallest_size = 8 * sizeof(uint64_t),
    .iterations = 400,
    .modes = modes,
};

/* The number of reads of an iteration, unless the table is smaller. */
#define LONGEST_STRETCH (UINT64_C(1) << 18)

/* Reads the steps `begin` to `end` of the cycle; returns the sum of what they lead to. */
static uint64_t read_independently(const uint64_t *table, const struct permutation *p, uint64_t begin, uint64_t end)
{
    uint64_t sum = 0;
    for (uint64_t step = begin; step < end; step++)
        sum += table[permute(p, step)];
    return sum;
}

static uint64_t read_dependently(const uint64_t *table, const struct permutation *p, uint64_t begin, uint64_t end)
{
    uint64_t sum = 0, position = permute(p, begin);
    for (uint64_t step = begin; step < end; step++) {
        position = table[position];
        sum += position;
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&random_access, argc, argv);
    const unsigned bits = permutation_bits(run.size / sizeof(uint64_t));
    const uint64_t length = UINT64_C(1) << bits;
    const struct permutation p = permutation_make(bits, 0);
    run.size = length * sizeof(uint64_t);
    uint64_t *table = workload_allocate(&run, run.size);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++)
        table[i] = permute(&p, unpermute(&p, i) + 1);

    const uint64_t stretch = length < LONGEST_STRETCH ? length : LONGEST_STRETCH;
    uint64_t sum = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t first = (run.iterations - 1) * stretch;
#pragma omp parallel reduction(+ : sum)
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num(), threads = (uint64_t)omp_get_num_threads();
            const uint64_t begin = first + stretch * thread / threads;
            const uint64_t end = first + stretch * (thread + 1) / threads;
            sum += run.mode == DEPENDENT ? read_dependently(table, &p, begin, end)
                                         : read_independently(table, &p, begin, end);
        }
    }

    sum ^= run.corrupt;
    const uint64_t reads = run.iterations * stretch;
    uint64_t expected = reads / length * (length / 2 * (length - 1));
#pragma omp parallel for schedule(static) reduction(+ : expected)
    for (uint64_t step = 0; step < reads % length; step++)
        expected += permute(&p, step + 1);
    if (sum != expected)
        workload_wrong(&run, "the sum of what was read is %" PRIu64 " and must be %" PRIu64, sum, expected);
    workload_report(&run, 1e-6 * (double)reads, "million reads", sum);
    free(table);
    return EXIT_SUCCESS;
}
