/*
 * Dynamic programming over a table, as in the alignment of two sequences: each score needs those to the left, above,
 * and above to the left. The table has blocks of 16 rows by 64 columns. Their rows are distributed round-robin: thread
 * t has the block rows t, t + T, t + 2 T ... The whole table stays in memory, because programs then trace the best
 * alignment back through it.
 *
 * Load on the machine: a thread waits for the block above, which has another thread, computes its block, marks it as
 * ready, and goes to the next one to the right. So the threads form a pipeline that moves across the table as a
 * diagonal wave: the lowest row of each block passes from rank t to rank t + 1, and from the last rank to the first.
 * The table is written once, and each thread streams through its own rows. There is no barrier within an iteration.
 *
 * Effect of placement: only ranks that follow each other exchange data, a few lines and a counter for each block. The
 * exchange takes about as long as a part of a block, so ranks should be in order and close together, with as few
 * steps between packages as possible. A thread that shares its PU stops the pipeline. A table far beyond the caches
 * needs some bandwidth, and its rows on their threads' nodes (first touch places the pages). At most as many threads
 * work at the same time as the table has blocks in a row.
 *
 * Check: row 0 and column 0 are zero, and each other score must be what its three neighbours in the finished table
 * give. By induction only one table is so. Each iteration has another sequence.
 */
#include "../workload.h"

#include "../numbers.h"
#include "../spin.h"

#include <stdatomic.h>

/* Rows and columns of a block. */
#define ROWS UINT64_C(16)
#define COLUMNS UINT64_C(64)

/* What a pair of equal letters, a pair of different ones, and a letter without a partner add to a score. */
enum { EQUAL = 2, DIFFERENT = -1, ALONE = -1 };

static const struct workload wavefront = {
    .name = "wavefront",
    .summary = "dynamic programming over a table, bound by computing and by blocks that pass from rank to rank",
    .size_unit = "bytes",
    .size_meaning = "the table, whose side is rounded down to a multiple of 16",
    .size = UINT64_C(64) << 20,
    .smallest_size = ROWS * ROWS * sizeof(int32_t),
    .iterations = 100,
};

/* How many blocks of a row of blocks are ready, counted over all iterations; on a line of its own. */
struct progress {
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t ready;
};

/* The letter, of four, at a position of a sequence. Sequence 0 has a letter for each column, the others for rows. */
static uint8_t letter_at(uint64_t sequence, uint64_t position)
{
    return (uint8_t)(number_at(sequence, position) % 4);
}

/* A score of a local alignment, from those above to the left, above, and to the left. */
static inline int32_t score(int32_t corner, int32_t above, int32_t left, bool equal)
{
    const int32_t paired = corner + (equal ? EQUAL : DIFFERENT), single = (above > left ? above : left) + ALONE;
    const int32_t best = paired > single ? paired : single;
    return best > 0 ? best : 0;
}

static void fill_block(int32_t *table, const uint8_t *letters, uint64_t side, uint64_t iteration, uint64_t block_row,
                       uint64_t block_column)
{
    const uint64_t first_row = block_row == 0 ? 1 : block_row * ROWS;
    const uint64_t first = block_column == 0 ? 1 : block_column * COLUMNS;
    const uint64_t end = (block_column + 1) * COLUMNS < side ? (block_column + 1) * COLUMNS : side;
    for (uint64_t row = first_row; row < (block_row + 1) * ROWS; row++) {
        const int32_t *restrict above = table + (row - 1) * side;
        int32_t *restrict here = table + row * side;
        const uint8_t letter = letter_at(iteration, row);
        int32_t left = here[first - 1];
        for (uint64_t column = first; column < end; column++)
            here[column] = left = score(above[column - 1], above[column], left, letter == letters[column]);
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&wavefront, argc, argv);
    const uint64_t block_rows = (uint64_t)sqrt((double)(run.size / sizeof(int32_t))) / ROWS;
    const uint64_t side = block_rows * ROWS, block_columns = (side + COLUMNS - 1) / COLUMNS;
    if (side > INT32_MAX / EQUAL)
        workload_usage_error(&wavefront, "--size %" PRIu64 ": scores have 32 bits", run.size);
    run.size = side * side * sizeof(int32_t);
    int32_t *table = workload_allocate(&run, side * side * sizeof *table);
    uint8_t *letters = workload_allocate(&run, side * sizeof *letters);
    struct progress *progress = workload_allocate(&run, block_rows * sizeof *progress);
    for (uint64_t column = 0; column < side; column++)
        letters[column] = letter_at(0, column);

#pragma omp parallel for schedule(static, 1)
    for (uint64_t r = 0; r < block_rows; r++) {
        memset(table + r * ROWS * side, 0, ROWS * side * sizeof *table);
        atomic_init(&progress[r].ready, 0);
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t iteration = run.iterations, ready_before = (iteration - 1) * block_columns;
#pragma omp parallel
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num(), threads = (uint64_t)omp_get_num_threads();
            for (uint64_t r = thread; r < block_rows; r += threads) {
                for (uint64_t c = 0; c < block_columns; c++) {
                    const uint64_t needed = ready_before + c + 1;
                    unsigned looks = 0;
                    while (r > 0 && atomic_load_explicit(&progress[r - 1].ready, memory_order_acquire) < needed)
                        spin_pause(&looks);
                    fill_block(table, letters, side, iteration, r, c);
                    atomic_store_explicit(&progress[r].ready, needed, memory_order_release);
                }
            }
        }
    }

    table[side / 2 * side + side / 2] ^= (int32_t)run.corrupt;
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t row = 0; row < side; row++) {
        const uint8_t letter = letter_at(run.iterations, row);
        for (uint64_t column = 0; column < side; column++) {
            const int32_t *here = table + row * side + column, *above = row == 0 ? here : here - side;
            const int32_t expected =
                row == 0 || column == 0 ? 0 : score(above[-1], above[0], here[-1], letter == letters[column]);
            if (*here != expected && row * side + column < first_wrong)
                first_wrong = row * side + column;
            sum += (uint64_t)*here * (2 * (row * side + column) + 1);
        }
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "score (%" PRIu64 ", %" PRIu64 ") is %" PRId32 " and does not follow from its neighbours",
                       first_wrong / side, first_wrong % side, table[first_wrong]);
    workload_report(&run, 1e-6 * (double)(side * side) * (double)run.iterations, "million scores", sum);
    free(table);
    free(letters);
    free(progress);
    return EXIT_SUCCESS;
}
