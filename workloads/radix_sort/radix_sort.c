/*
 * Radix sort of records by their 32-bit keys, the least significant digit first. An iteration is one pass: it sorts
 * by the next of the four digits, in 256 buckets, and keeps the order of records whose digits are equal. The benchmark
 * IS of the NAS Parallel Benchmarks ranks keys in a similar way.
 *
 * Load on the machine: each thread reads its share of the records twice, in order: first to count the digits, and then
 * to write each record to its place. A thread writes to 256 places in turn, all over the target, which other threads
 * read in the next pass. So all data cross the machine once per iteration, by writes. Between the two, the threads
 * exchange their counts.
 *
 * Effect of placement: all pairs of threads exchange the same amount of data, so the order of the ranks does not
 * matter. Records beyond the caches need bandwidth, so threads should be spread over the nodes; first touch makes the
 * reads near, but not the writes. Records that fit the last-level caches move between the cores' caches in each pass,
 * so threads should be close together. The open lines and pages of 256 buckets fill a core's first caches and TLB,
 * which SMT siblings then share.
 *
 * Check: a record's upper half is its position at the start, which determines its key. So every record is known by
 * itself. After k passes the records must be in strictly ascending order of the digits sorted by, the latest first,
 * then of the position. That leaves one possible order. After the fourth pass the keys are sorted; the later passes
 * begin again at the lowest digit.
 */
#include "../workload.h"

#include "../numbers.h"

#define DIGIT_BITS 8
#define DIGITS (32 / DIGIT_BITS)
#define BUCKETS (UINT64_C(1) << DIGIT_BITS)

static const struct workload radix_sort = {
    .name = "radix_sort",
    .summary = "passes of a radix sort, bound by scattered writes to what all threads read",
    .size_unit = "bytes",
    .size_meaning = "the records, and room for the sorted ones, together",
    .size = UINT64_C(64) << 20,
    .smallest_size = 2 * sizeof(uint64_t),
    .iterations = 200,
};

/* The record that is at `position` at the start. */
static uint64_t record_at(uint64_t position)
{
    return position << 32 | number_at(0, position) >> 32;
}

/* The digit of the record's key by which this pass sorts, the first pass being 0. */
static uint64_t digit_of(uint64_t record, uint64_t pass)
{
    return record >> pass % DIGITS * DIGIT_BITS & (BUCKETS - 1);
}

/* Where thread `thread` of `threads` begins. */
static uint64_t share_begin(uint64_t length, int thread, int threads)
{
    return length * (uint64_t)thread / (uint64_t)threads;
}

/* A number that is in ascending order after `passes` passes. */
static uint64_t order_of(uint64_t record, uint64_t passes)
{
    uint64_t order = 0;
    for (uint64_t pass = passes; pass > 0 && pass + DIGITS > passes; pass--)
        order = order << DIGIT_BITS | digit_of(record, pass - 1);
    return order << 32 | record >> 32;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&radix_sort, argc, argv);
    const uint64_t length = run.size / (2 * sizeof(uint64_t));
    if (length > UINT32_MAX)
        workload_usage_error(&radix_sort, "--size %" PRIu64 ": positions have 32 bits, so the largest is %" PRIu64,
                             run.size, UINT32_MAX * 2 * sizeof(uint64_t));
    run.size = length * 2 * sizeof(uint64_t);
    uint64_t *from = workload_allocate(&run, length * sizeof *from);
    uint64_t *to = workload_allocate(&run, length * sizeof *to);
    uint64_t *all_counts = workload_allocate(&run, (uint64_t)run.threads * BUCKETS * sizeof *all_counts);
    uint64_t *totals = workload_allocate(&run, BUCKETS * sizeof *totals);

#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const uint64_t end = share_begin(length, thread + 1, threads);
        for (uint64_t i = share_begin(length, thread, threads); i < end; i++) {
            from[i] = record_at(i);
            to[i] = 0;
        }
        memset(all_counts + (uint64_t)thread * BUCKETS, 0, BUCKETS * sizeof *all_counts);
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t pass = run.iterations - 1;
#pragma omp parallel
        {
            const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
            const uint64_t begin = share_begin(length, thread, threads), end = share_begin(length, thread + 1, threads);
            uint64_t *counts = all_counts + (uint64_t)thread * BUCKETS;
            memset(counts, 0, BUCKETS * sizeof *counts);
            for (uint64_t i = begin; i < end; i++)
                counts[digit_of(from[i], pass)]++;
#pragma omp barrier
            /* Each count becomes the number of records of this bucket that the threads before have. */
#pragma omp for schedule(static)
            for (uint64_t bucket = 0; bucket < BUCKETS; bucket++) {
                uint64_t before = 0;
                for (int other = 0; other < threads; other++) {
                    uint64_t *count = &all_counts[(uint64_t)other * BUCKETS + bucket];
                    const uint64_t here = *count;
                    *count = before;
                    before += here;
                }
                totals[bucket] = before;
            }
            /* And then the place of the thread's first record of this bucket. */
            uint64_t bucket_begin = 0;
            for (uint64_t bucket = 0; bucket < BUCKETS; bucket++) {
                counts[bucket] += bucket_begin;
                bucket_begin += totals[bucket];
            }
            for (uint64_t i = begin; i < end; i++)
                to[counts[digit_of(from[i], pass)]++] = from[i];
        }
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }

    from[length / 2] ^= run.corrupt;
    uint64_t first_wrong = length, first_unordered = length, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong, first_unordered) reduction(+ : sum)
    for (uint64_t i = 0; i < length; i++) {
        const uint64_t position = from[i] >> 32;
        if ((position >= length || from[i] != record_at(position)) && i < first_wrong)
            first_wrong = i;
        if (i > 0 && order_of(from[i - 1], run.iterations) >= order_of(from[i], run.iterations) && i < first_unordered)
            first_unordered = i;
        sum += from[i] * (2 * i + 1);
    }
    if (first_wrong < length)
        workload_wrong(&run, "record %" PRIu64 " is %" PRIu64 ", which was not made", first_wrong, from[first_wrong]);
    if (first_unordered < length)
        workload_wrong(&run, "record %" PRIu64 " must not come after the one before it", first_unordered);
    workload_report(&run, 1e-6 * (double)length * (double)run.iterations, "million records", sum);
    free(from);
    free(to);
    free(all_counts);
    free(totals);
    return EXIT_SUCCESS;
}
