/*
 * Merge sort: ranges of 1024 numbers are sorted separately, and then merged in pairs, pass by pass.
 *
 * Load on the machine: a pass reads and writes all numbers once, in order. It uses memory bandwidth, with few
 * operations per number, but with branches that cannot be predicted. The numbers that a thread reads in a pass may
 * have been written by another thread in the previous pass; in the late passes they always have.
 *
 * Effect of placement: numbers beyond the caches need bandwidth, so threads should be spread. But in the late passes
 * most of the numbers that a thread reads are on other nodes, so first touch helps only with writing. For numbers
 * that fit the last-level caches, threads should be on one of them. The mispredicted branches leave room for an SMT
 * sibling.
 *
 * Method: each pass is divided into the same ranges of its result for any number of threads. Bisection finds the
 * start of a range in the two merged sequences.
 *
 * Check: the result is in ascending order, and a sum over all numbers, which detects a change of any number, equals
 * the sum over the generated numbers. Each iteration generates other numbers.
 */
#include "../workload.h"

#include "../numbers.h"

static const struct workload sort = {
    .name = "sort",
    .summary = "a merge sort, bound by bandwidth and mispredicted branches",
    .size_unit = "bytes",
    .size_meaning = "the numbers, and a buffer of the same size, together",
    .size = UINT64_C(8) << 20,
    .smallest_size = 2 * sizeof(uint64_t),
    .iterations = 200,
};

#define STRETCH UINT64_C(1024)

/* Fewer numbers are sorted by insertion. Six doublings lead from here to a stretch, so that it ends where it began. */
#define SHORTEST (STRETCH >> 6)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Merges two ascending sequences, the left of them first where numbers are equal, but writes only those numbers that
 * come at `skip` to `skip + count - 1` in the result.
 */
static void merge(uint64_t *to, const uint64_t *left, uint64_t left_length, const uint64_t *right,
                  uint64_t right_length, uint64_t skip, uint64_t count)
{
    /* How many of the `skip` first are from the left. */
    uint64_t low = skip > right_length ? skip - right_length : 0, high = least(skip, left_length);
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (left[middle] <= right[skip - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t l = low, r = skip - low;
    for (uint64_t i = 0; i < count; i++)
        to[i] = r == right_length || (l < left_length && left[l] <= right[r]) ? left[l++] : right[r++];
}

/* Writes the stretch [begin, end) of the pass that merges sequences of `width` numbers each, of `length` in all. */
static void merge_stretch(uint64_t *to, const uint64_t *from, uint64_t length, uint64_t width, uint64_t begin,
                          uint64_t end)
{
    const uint64_t left = begin / (2 * width) * (2 * width);
    const uint64_t right = least(left + width, length), last = least(right + width, length);
    merge(to + begin, from + left, right - left, from + right, last - right, begin - left, end - begin);
}

static void sort_by_insertion(uint64_t *numbers, uint64_t length)
{
    for (uint64_t i = 1; i < length; i++) {
        const uint64_t number = numbers[i];
        uint64_t hole = i;
        for (; hole > 0 && numbers[hole - 1] > number; hole--)
            numbers[hole] = numbers[hole - 1];
        numbers[hole] = number;
    }
}

static void sort_stretch(uint64_t *numbers, uint64_t *room, uint64_t length)
{
    for (uint64_t begin = 0; begin < length; begin += SHORTEST)
        sort_by_insertion(numbers + begin, least(SHORTEST, length - begin));
    uint64_t *from = numbers, *to = room;
    for (uint64_t width = SHORTEST; width < STRETCH; width *= 2) {
        for (uint64_t begin = 0; begin < length; begin += 2 * width)
            merge_stretch(to, from, length, width, begin, least(begin + 2 * width, length));
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&sort, argc, argv);
    const uint64_t length = run.size / (2 * sizeof(uint64_t));
    run.size = length * 2 * sizeof(uint64_t);
    uint64_t *numbers = workload_allocate(&run, length * sizeof *numbers);
    uint64_t *room = workload_allocate(&run, length * sizeof *room);

#pragma omp parallel for schedule(static)
    for (uint64_t begin = 0; begin < length; begin += STRETCH) {
        const uint64_t bytes = least(STRETCH, length - begin) * sizeof *numbers;
        memset(numbers + begin, 0, bytes);
        memset(room + begin, 0, bytes);
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (uint64_t begin = 0; begin < length; begin += STRETCH) {
                const uint64_t end = least(begin + STRETCH, length);
                for (uint64_t i = begin; i < end; i++)
                    numbers[i] = number_at(run.iterations, i);
                sort_stretch(numbers + begin, room + begin, end - begin);
            }
            const uint64_t *from = numbers;
            uint64_t *to = room;
            for (uint64_t width = STRETCH; width < length; width *= 2) {
#pragma omp for schedule(static)
                for (uint64_t begin = 0; begin < length; begin += STRETCH)
                    merge_stretch(to, from, length, width, begin, least(begin + STRETCH, length));
                from = to;
                to = to == room ? numbers : room;
            }
        }
    }

    uint64_t *sorted = numbers;
    for (uint64_t width = STRETCH; width < length; width *= 2)
        sorted = sorted == numbers ? room : numbers;
    sorted[length / 2] ^= run.corrupt;
    uint64_t first_wrong = length, made = 0, found = 0, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : made, found, sum)
    for (uint64_t i = 0; i < length; i++) {
        if (i > 0 && sorted[i - 1] > sorted[i] && i < first_wrong)
            first_wrong = i;
        made += number_at(0, number_at(run.iterations, i));
        found += number_at(0, sorted[i]);
        sum += sorted[i] * (2 * i + 1);
    }
    if (first_wrong < length)
        workload_wrong(&run, "number %" PRIu64 " is less than the one before it", first_wrong);
    if (found != made)
        workload_wrong(&run, "what was sorted is not what was made");
    workload_report(&run, 1e-6 * (double)length * (double)run.iterations, "million numbers", sum);
    free(numbers);
    free(room);
    return EXIT_SUCCESS;
}
