/*
 * LU factorisation of a dense matrix in panels of 16 columns, which are distributed round-robin: thread t has the
 * panels t, t + T, t + 2 T ...
 *
 * Load on the machine: a panel needs all panels before it, in order, and waits for the one just before it until that
 * panel's thread marks it as ready. So the threads form a pipeline: each finished panel is read by one thread after
 * the other, rank by rank, and in between they compute in their own panel. There is no barrier within an iteration.
 *
 * Effect of placement: each thread reads all finished panels, about half of the matrix, for each of its panels.
 * Threads on one last-level cache at about the same position of the pipeline fetch them once for all. The last ready
 * panel delays all others, so the distance from rank t to rank t + 1 matters: ranks should be in order and close
 * together. A matrix far beyond the caches also needs bandwidth. A thread that shares its PU stops the pipeline.
 *
 * Check: there is no pivoting, and the matrix is r_i c_j (min(i, j) + 1), with the factors r_i / r_j and r_i c_j. All
 * r and c are powers of two, so every intermediate number is exact, and every number of the result is compared. Each
 * iteration has other r and c.
 */
#include "../workload.h"

#include "../numbers.h"
#include "../spin.h"

#include <stdatomic.h>

/* Columns of a panel. */
#define WIDTH UINT64_C(16)

static const struct workload lu = {
    .name = "lu",
    .summary = "LU factorisation, bound by computing and by panels that pass from rank to rank",
    .size_unit = "bytes",
    .size_meaning = "the matrix, whose side is rounded down to a multiple of 16",
    .size = UINT64_C(2) << 20,
    .smallest_size = WIDTH * WIDTH * sizeof(double),
    .iterations = 200,
};

/* A row of a panel. The panel's rows lie one after the other, so that a panel is one piece of memory. */
struct row {
    double at[WIDTH];
};

/* In which iteration a panel was last ready; on a line of its own. */
struct readiness {
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t iteration;
};

enum scales { OF_ROWS, OF_COLUMNS };

/* The power of two, up to its sign, of a row or column in an iteration. */
static double scale_of(enum scales which, uint64_t iteration, uint64_t i)
{
    const uint64_t number = number_at(2 * iteration + which, i);
    return (number & 1 ? -1 : 1) * (number & 2 ? 2.0 : 1.0);
}

static void fill(struct row *panel, uint64_t first_column, uint64_t side, uint64_t iteration)
{
    double column_scale[WIDTH];
    for (uint64_t column = 0; column < WIDTH; column++)
        column_scale[column] = scale_of(OF_COLUMNS, iteration, first_column + column);
    for (uint64_t i = 0; i < side; i++) {
        const double row_scale = scale_of(OF_ROWS, iteration, i);
        for (uint64_t column = 0; column < WIDTH; column++) {
            const uint64_t j = first_column + column;
            panel[i].at[column] = row_scale * column_scale[column] * (double)((i < j ? i : j) + 1);
        }
    }
}

/* Subtracts from `row` the product of the first `count` multipliers of `left` and the rows of `top`. */
static inline void eliminate(struct row *restrict row, const struct row *restrict left, const struct row *restrict top,
                             uint64_t count)
{
    for (uint64_t k = 0; k < count; k++)
        for (uint64_t column = 0; column < WIDTH; column++)
            row->at[column] -= left->at[k] * top[k].at[column];
}

/* Applies a finished panel, whose columns begin at `first`, to one that comes later. */
static void update(struct row *panel, const struct row *finished, uint64_t first, uint64_t side)
{
    for (uint64_t i = first + 1; i < first + WIDTH; i++)
        eliminate(&panel[i], &finished[i], &panel[first], i - first);
    for (uint64_t i = first + WIDTH; i < side; i++)
        eliminate(&panel[i], &finished[i], &panel[first], WIDTH);
}

/* Factorises a panel to which all panels before it have been applied. */
static void factorise(struct row *panel, uint64_t first, uint64_t side)
{
    for (uint64_t k = 0; k < WIDTH; k++) {
        const struct row *pivot = &panel[first + k];
        for (uint64_t i = first + k + 1; i < side; i++) {
            const double multiplier = panel[i].at[k] / pivot->at[k];
            panel[i].at[k] = multiplier;
            for (uint64_t column = k + 1; column < WIDTH; column++)
                panel[i].at[column] -= multiplier * pivot->at[column];
        }
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&lu, argc, argv);
    const uint64_t panels = (uint64_t)sqrt((double)(run.size / sizeof(double))) / WIDTH;
    const uint64_t side = panels * WIDTH;
    run.size = side * side * sizeof(double);
    struct row *matrix = workload_allocate(&run, panels * side * sizeof *matrix);
    struct readiness *ready = workload_allocate(&run, panels * sizeof *ready);

#pragma omp parallel for schedule(static, 1)
    for (uint64_t p = 0; p < panels; p++) {
        memset(matrix + p * side, 0, side * sizeof *matrix);
        atomic_init(&ready[p].iteration, 0);
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t iteration = run.iterations;
#pragma omp parallel
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num(), threads = (uint64_t)omp_get_num_threads();
            for (uint64_t p = thread; p < panels; p += threads) {
                struct row *panel = matrix + p * side;
                fill(panel, p * WIDTH, side, iteration);
                for (uint64_t before = 0; before < p; before++) {
                    unsigned looks = 0;
                    while (atomic_load_explicit(&ready[before].iteration, memory_order_acquire) != iteration)
                        spin_pause(&looks);
                    update(panel, matrix + before * side, before * WIDTH, side);
                }
                factorise(panel, p * WIDTH, side);
                atomic_store_explicit(&ready[p].iteration, iteration, memory_order_release);
            }
        }
    }

    matrix[panels / 2 * side + side / 2].at[0] += (double)run.corrupt;
    uint64_t first_wrong = side * side, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < side; i++) {
        const double row_scale = scale_of(OF_ROWS, run.iterations, i);
        for (uint64_t j = 0; j < side; j++) {
            const double expected = i > j ? row_scale / scale_of(OF_ROWS, run.iterations, j)
                                          : row_scale * scale_of(OF_COLUMNS, run.iterations, j);
            const double value = matrix[j / WIDTH * side + i].at[j % WIDTH];
            if (value != expected && i * side + j < first_wrong)
                first_wrong = i * side + j;
            sum += fingerprint(value) * (2 * (i * side + j) + 1);
        }
    }
    if (first_wrong < side * side)
        workload_wrong(&run, "the factors' element (%" PRIu64 ", %" PRIu64 ") is %.17g", first_wrong / side,
                       first_wrong % side,
                       matrix[first_wrong % side / WIDTH * side + first_wrong / side].at[first_wrong % WIDTH]);
    const double operations = 2.0 / 3 * pow((double)side, 3) * (double)run.iterations;
    workload_report(&run, 1e-6 * operations, "million operations", sum);
    free(matrix);
    free(ready);
    return EXIT_SUCCESS;
}
