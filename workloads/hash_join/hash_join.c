/*
 * A hash join of two tables: all threads put the small table into a hash table, and look up each row of the large
 * table in it.
 *
 * Load on the machine: both tables are read in order. The hash table, twice as large as the small table, is cleared
 * in order, then written at random with one atomic operation per row, then read at random. Each random access is one
 * line, and those of several rows overlap.
 *
 * Effect of placement: the time of a random line matters, from a cache or from memory on any node, with several in
 * flight. For a hash table of the size of a last-level cache, threads should be on one such cache; while the table is
 * built, its lines also move between cores. A table beyond all caches needs the memory controllers of all nodes, so
 * threads and pages should be spread: no thread can be near its part of the table.
 *
 * Check: the small table has each key below n once, and the large one each key below 2 n once. So n rows find a
 * partner, and the sum of their values is known. Each iteration stores other values with the keys.
 */
#include "../workload.h"

#include "../permutation.h"

#include <stdatomic.h>

struct entry {
    uint64_t key, value;
};

/* A place in the hash table. */
struct slot {
    _Atomic uint64_t key; /* EMPTY if there is none */
    uint64_t value;
};

#define EMPTY UINT64_MAX

/* For each row of the small table: the row, two slots, two keys of the large table. */
#define ROW_BYTES (sizeof(struct entry) + 2 * sizeof(struct slot) + 2 * sizeof(uint64_t))

static const struct workload hash_join = {
    .name = "hash_join",
    .summary = "a hash join, bound by random accesses to a table that all threads build",
    .size_unit = "bytes",
    .size_meaning = "both tables and the hash table, rounded down to 64 times a power of two",
    .size = UINT64_C(32) << 20,
    .smallest_size = ROW_BYTES,
    .iterations = 100,
};

/* Where to look for a key first: upper bits of a product (Knuth, The Art of Computer Programming, volume 3, 6.4). */
static inline uint64_t home(uint64_t key, unsigned bits)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
}

static uint64_t value_of(uint64_t key, uint64_t iteration)
{
    return key * 3 + iteration;
}

static void insert(struct slot *slots, unsigned bits, uint64_t key, uint64_t value)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (uint64_t i = home(key, bits);; i = (i + 1) & mask) {
        uint64_t empty = EMPTY;
        if (atomic_load_explicit(&slots[i].key, memory_order_relaxed) == EMPTY &&
            atomic_compare_exchange_strong_explicit(&slots[i].key, &empty, key, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            slots[i].value = value; /* no thread reads it before the barrier */
            return;
        }
    }
}

/* The slot with this key, or the empty one where it would be. */
static const struct slot *look_up(const struct slot *slots, unsigned bits, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t i = home(key, bits);
    for (;; i = (i + 1) & mask) {
        const uint64_t found = atomic_load_explicit(&slots[i].key, memory_order_relaxed);
        if (found == key || found == EMPTY)
            return &slots[i];
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&hash_join, argc, argv);
    const unsigned bits = permutation_bits(run.size / ROW_BYTES), slot_bits = bits + 1;
    const uint64_t rows = UINT64_C(1) << bits;
    run.size = rows * ROW_BYTES;
    struct entry *small = workload_allocate(&run, rows * sizeof *small);
    uint64_t *large = workload_allocate(&run, 2 * rows * sizeof *large);
    struct slot *slots = workload_allocate(&run, 2 * rows * sizeof *slots);

    const struct permutation of_small = permutation_make(bits, 0), of_large = permutation_make(bits + 1, 1);
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < rows; i++)
        small[i] = (struct entry){.key = permute(&of_small, i)};
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < 2 * rows; i++) {
        large[i] = permute(&of_large, i);
        atomic_init(&slots[i].key, EMPTY);
        slots[i].value = 0;
    }

    uint64_t matches = 0, sum = 0;
    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel reduction(+ : matches, sum)
        {
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < 2 * rows; i++)
                atomic_store_explicit(&slots[i].key, EMPTY, memory_order_relaxed);
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < rows; i++) {
                small[i].value = value_of(small[i].key, run.iterations);
                insert(slots, slot_bits, small[i].key, small[i].value);
            }
#pragma omp for schedule(static)
            for (uint64_t i = 0; i < 2 * rows; i++) {
                const struct slot *slot = look_up(slots, slot_bits, large[i]);
                if (slot->key == large[i]) {
                    matches++;
                    sum += slot->value * (2 * slot->key + 1);
                }
            }
        }
    }

    sum ^= run.corrupt;
    uint64_t for_keys = 0;
    for (uint64_t key = 0; key < rows; key++)
        for_keys += value_of(key, 0) * (2 * key + 1);
    /* An iteration adds its number to each value, and the factors 2 key + 1 add up to the square of `rows`. */
    const uint64_t expected =
        run.iterations * for_keys + rows * rows * (run.iterations * (run.iterations + 1) / 2);
    if (matches != rows * run.iterations)
        workload_wrong(&run, "%" PRIu64 " rows found a partner and %" PRIu64 " must", matches, rows * run.iterations);
    if (sum != expected)
        workload_wrong(&run, "the sum of what was found is %" PRIu64 " and must be %" PRIu64, sum, expected);
    workload_report(&run, 3e-6 * (double)rows * (double)run.iterations, "million rows", sum);
    free(small);
    free(large);
    free(slots);
    return EXIT_SUCCESS;
}
