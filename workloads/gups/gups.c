/*
 * Random updates of a table that all threads share, as in the benchmark RandomAccess of the HPC Challenge, whose unit
 * is giga-updates per second. An update is an atomic exclusive or with one of the table's 64-bit numbers.
 *
 * Load on the machine: nearly every update misses the caches, and beyond a few MiB also the TLB; no prefetcher can
 * predict the next address. As an atomic operation waits for its line, a core has hardly more than one miss at a time.
 * Each updated line is dirty afterwards: it goes back to memory, or it moves to the next core that updates it.
 *
 * Effect of placement: all threads update the whole table, whose pages first touch has spread evenly over the threads'
 * nodes. So no thread can be near all of its pages, and the order of the ranks does not matter. For a table beyond the
 * caches the mean distance to the memory counts, and packing the threads on few nodes shortens it if the table is also
 * there, until the memory controllers of those nodes are busy. For a table that fits the caches, lines come from other
 * cores, so threads should be on one last-level cache. SMT siblings hardly slow each other down, because each mostly
 * waits.
 *
 * Method: a stream of random numbers, one for four numbers of the table, is the same in each iteration. The low bits
 * of a random number are the place of the update, and the whole of it, masked by the iteration's mask, is the operand.
 * Two updates per line of 64 bytes reach 86 % of the lines. Each iteration begins elsewhere in the stream, so that a
 * place is updated by another thread each time.
 *
 * Check: the exclusive or of operands with several masks is that with the exclusive or of the masks. So one more
 * iteration, with this mask, must restore the start of the table. Every number is compared.
 */
#include "../workload.h"

#include "../permutation.h"

#include <stdatomic.h>

static const struct workload gups = {
    .name = "gups",
    .summary = "random updates of a shared table, bound by memory latency and by coherence",
    .size_unit = "bytes",
    .size_meaning = "the table, rounded down to a power of two",
    .size = UINT64_C(64) << 20,
    .smallest_size = 8 * sizeof(uint64_t),
    .iterations = 100,
};

/* Numbers of the table for one update of an iteration. */
#define NUMBERS_PER_UPDATE 4

/* The seeds of the random numbers, of the masks, and of the places in the stream where iterations begin. */
enum { STREAM, MASKS, BEGINS };

/* Updates the table of `length` numbers by the whole stream; each thread of the team does a share of it. */
static void update(_Atomic uint64_t *table, uint64_t length, uint64_t begin, uint64_t mask)
{
    const uint64_t updates = length / NUMBERS_PER_UPDATE; /* a power of two, as `length` is */
#pragma omp for schedule(static)
    for (uint64_t i = 0; i < updates; i++) {
        const uint64_t number = number_at(STREAM, (begin + i) & (updates - 1));
        atomic_fetch_xor_explicit(&table[number & (length - 1)], number & mask, memory_order_relaxed);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&gups, argc, argv);
    const uint64_t length = UINT64_C(1) << permutation_bits(run.size / sizeof(uint64_t));
    run.size = length * sizeof(uint64_t);
    _Atomic uint64_t *table = workload_allocate(&run, run.size);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++)
        atomic_init(&table[i], i);

    uint64_t all_masks = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t begin = number_at(BEGINS, run.iterations), mask = number_at(MASKS, run.iterations);
        all_masks ^= mask;
#pragma omp parallel
        update(table, length, begin, mask);
    }

    atomic_fetch_xor(&table[length / 2], run.corrupt);
    uint64_t first_wrong = length, sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (uint64_t i = 0; i < length; i++)
        sum += atomic_load_explicit(&table[i], memory_order_relaxed) * (2 * i + 1);
#pragma omp parallel
    update(table, length, 0, all_masks);
#pragma omp parallel for schedule(static) reduction(min : first_wrong)
    for (uint64_t i = 0; i < length; i++)
        if (atomic_load_explicit(&table[i], memory_order_relaxed) != i && i < first_wrong)
            first_wrong = i;
    if (first_wrong < length)
        workload_wrong(&run, "number %" PRIu64 " returns to %" PRIu64 " and must return to %" PRIu64, first_wrong,
                       atomic_load(&table[first_wrong]), first_wrong);
    const double updates = (double)(length / NUMBERS_PER_UPDATE) * (double)run.iterations;
    workload_report(&run, 1e-6 * updates, "million updates", sum);
    free((void *)table);
    return EXIT_SUCCESS;
}
