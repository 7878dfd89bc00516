/*
 * Two parallel regions in turn that want different configurations (the cases of section 6 of Sánchez Barrera et al., ICS
 * 2020). The first goes through an array of records, each thread through its own part. In the second all threads add to
 * four shared counters: with `--mode threads` they do nothing else, and with `--mode pages` each goes through its part of
 * the records, too, and adds once for every 64 of them.
 *
 * Load on the machine: the first region needs memory bandwidth. The second one moves the lines of the counters between all
 * threads, one after the other, and with `--mode pages` it also reads and writes all records.
 *
 * Effect of placement: the first region is fastest with many threads on all nodes, each near to its records. The second one
 * is fastest with few threads of one last-level cache. With `--mode threads` it has no records, so that threads alone can
 * change between the regions. With `--mode pages` the few threads want the records on their own node, where the many of the
 * first region do not want them: pages do not move at every border, so one placement of them has to serve both.
 *
 * Check: each region adds to each record, or to a counter for each record, what only depends on its number. So each record
 * and the sum of the counters are known after any number of iterations.
 */
#include "../workload.h"

enum mode { THREADS, PAGES };
static const char *const modes[] = {[THREADS] = "threads", [PAGES] = "pages", NULL};

enum { COUNTERS = 4, RECORDS_OF_ADDITION = 64 };

/* A line, so that memory does the work and not the core. */
struct record {
    uint64_t value;
    uint64_t unused[7];
};

struct counter {
    uint64_t sum;
    char unused[WORKLOAD_LINE - sizeof(uint64_t)];
};

static const struct workload phases = {
    .name = "phases",
    .summary = "two regions in turn that want different numbers of threads, or their pages at different places",
    .size_unit = "bytes",
    .size_meaning = "the records",
    .size = UINT64_C(64) << 20,
    .smallest_size = sizeof(struct record),
    .iterations = 100,
    .modes = modes,
};

/* What a region adds for a record. */
static uint64_t of_record(uint64_t record)
{
    return record % 1021 + 1;
}

/* The first region. */
__attribute__((noinline)) static void go_through(struct record *records, uint64_t length)
{
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++)
        records[i].value += of_record(i);
}

/* The second region; `records` is NULL where it has none. */
__attribute__((noinline)) static void add(struct counter *counters, struct record *records, uint64_t length)
{
#pragma omp parallel for schedule(static)
    for (uint64_t first = 0; first < length; first += RECORDS_OF_ADDITION) {
        const uint64_t end = first + RECORDS_OF_ADDITION < length ? first + RECORDS_OF_ADDITION : length;
        if (records != NULL)
            for (uint64_t i = first; i < end; i++)
                records[i].value += of_record(i);
        uint64_t *sum = &counters[first / RECORDS_OF_ADDITION % COUNTERS].sum;
        __atomic_fetch_add(sum, of_record(first), __ATOMIC_RELAXED);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&phases, argc, argv);
    const uint64_t length = run.size / sizeof(struct record);
    run.size = length * sizeof(struct record);
    struct record *records = workload_allocate(&run, run.size);
    struct counter *counters = workload_allocate(&run, COUNTERS * sizeof *counters);

    for (int i = 0; i < COUNTERS; i++)
        counters[i].sum = 0;
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < length; i++)
        records[i].value = i;

    workload_start(&run);
    while (workload_next(&run)) {
        go_through(records, length);
        add(counters, run.mode == PAGES ? records : NULL, length);
    }

    records[length / 2].value ^= run.corrupt;
    const uint64_t regions = run.iterations * (run.mode == PAGES ? 2 : 1);
    uint64_t first_wrong = length, sum = 0, expected = 0, counted = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum, expected)
    for (uint64_t i = 0; i < length; i++) {
        if (records[i].value != i + regions * of_record(i) && i < first_wrong)
            first_wrong = i;
        sum += records[i].value;
        if (i % RECORDS_OF_ADDITION == 0)
            expected += run.iterations * of_record(i);
    }
    for (int i = 0; i < COUNTERS; i++)
        counted += counters[i].sum;
    if (first_wrong < length)
        workload_wrong(&run, "record %" PRIu64 " is %" PRIu64 " and must be %" PRIu64, first_wrong,
                       records[first_wrong].value, first_wrong + regions * of_record(first_wrong));
    if (counted != expected)
        workload_wrong(&run, "the counters' sum is %" PRIu64 " and must be %" PRIu64, counted, expected);
    workload_report(&run, 1e-6 * (double)run.size * (double)regions, "MB", sum + counted);
    free(records);
    free(counters);
    return EXIT_SUCCESS;
}
