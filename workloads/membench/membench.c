/*
 * SAM's MemBench: memory is copied (USENIX ATC 2015, section 2.2).
 *
 * Load on the machine: only memory bandwidth. With `--mode row` each memcpy() copies 4 KiB, about a row of a memory
 * chip, which is opened once and then read completely; the paper calls this a high row buffer hit ratio (RBHR). With
 * `--mode line` each memcpy() copies one line of 64 bytes, and the next line is 4 KiB further. So each line opens a
 * row, prefetchers that stay within a page do not help, and only a few sets of a cache are used: low RBHR. Both modes
 * copy all data once per iteration.
 *
 * Effect of placement: a few tasks saturate the memory of a package; in line mode it takes a few more, and the
 * bandwidth is a tenth less at the end (the paper's figure 2). So threads should be spread over all packages, with
 * their pages on their own nodes; the place within a package does not matter. The threads share nothing, except that
 * each one writes to the first of the next thread's rows.
 *
 * Method: each row is copied to the position of the next, and the last one to the first. So an iteration moves all
 * rows by one position. Then the two arrays change their roles.
 *
 * Check: each word is at the position after all moves.
 */
#include "../workload.h"

#include "../numbers.h"

enum mode { ROW, LINE };
static const char *const modes[] = {[ROW] = "row", [LINE] = "line", NULL};

#define ROW_WORDS UINT64_C(512)
#define LINE_WORDS UINT64_C(8)

static const struct workload membench = {
    .name = "membench",
    .summary = "copying memory, bound by memory bandwidth",
    .size_unit = "bytes",
    .size_meaning = "the source and the target of the copy together; a multiple of 8192",
    .size = UINT64_C(128) << 20,
    .smallest_size = 2 * ROW_WORDS * sizeof(uint64_t),
    .iterations = 200,
    .modes = modes,
};

/* Copies the rows `begin` to `end - 1`, each time `words` words of a row and then as many of the next. */
static inline void copy_rows(uint64_t *restrict to, const uint64_t *restrict from, uint64_t rows, uint64_t begin,
                             uint64_t end, uint64_t words)
{
    for (uint64_t first = 0; first < ROW_WORDS; first += words) {
        for (uint64_t row = begin; row < end; row++) {
            const uint64_t next = row + 1 < rows ? row + 1 : 0;
            memcpy(to + next * ROW_WORDS + first, from + row * ROW_WORDS + first, words * sizeof *to);
        }
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&membench, argc, argv);
    const uint64_t rows = run.size / (2 * ROW_WORDS * sizeof(uint64_t)), words = rows * ROW_WORDS;
    run.size = 2 * words * sizeof(uint64_t);
    uint64_t *from = workload_allocate(&run, words * sizeof *from);
    uint64_t *to = workload_allocate(&run, words * sizeof *to);

#pragma omp parallel
    {
        const uint64_t thread = (uint64_t)omp_get_thread_num(), threads = (uint64_t)omp_get_num_threads();
        for (uint64_t i = rows * thread / threads * ROW_WORDS; i < rows * (thread + 1) / threads * ROW_WORDS; i++) {
            from[i] = number_at(0, i);
            to[i] = 0;
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num(), threads = (uint64_t)omp_get_num_threads();
            const uint64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
            if (run.mode == LINE)
                copy_rows(to, from, rows, begin, end, LINE_WORDS);
            else
                copy_rows(to, from, rows, begin, end, ROW_WORDS);
        }
        uint64_t *swapped = from;
        from = to;
        to = swapped;
    }

    from[words / 2] ^= run.corrupt;
    const uint64_t turned = run.iterations % rows * ROW_WORDS;
    uint64_t first_wrong = words, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < words; i++) {
        if (from[i] != number_at(0, (i + words - turned) % words) && i < first_wrong)
            first_wrong = i;
        sum += from[i] * (2 * i + 1);
    }
    if (first_wrong < words)
        workload_wrong(&run, "word %" PRIu64 " is %" PRIu64 " and must be %" PRIu64, first_wrong, from[first_wrong],
                       number_at(0, (first_wrong + words - turned) % words));
    workload_report(&run, 1e-6 * (double)run.size * (double)run.iterations, "MB", sum);
    free(from);
    free(to);
    return EXIT_SUCCESS;
}
