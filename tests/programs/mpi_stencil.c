/*
 * A solver of the heat equation with MPI and no threads: Jacobi steps on a grid that is divided into rows. Each step
 * makes six MPI calls in each rank.
 *
 *   mpi_stencil SECONDS [STEPS_PER_SECOND]
 *
 * With a second argument, a rank that is early sleeps, so that the rate is known. Rank 0 writes a line for each tenth of
 * a second, and one at the end: the time (CLOCK_MONOTONIC, in seconds) and the steps until then.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COLUMNS = 400, ROWS = 100 };

static double grid[2][ROWS + 2][COLUMNS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void sleep_until(double then)
{
    struct timespec time = {(time_t)then, (long)(1e9 * (then - (double)(time_t)then))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue;
}

/* Returns the greatest change of a value in any rank. */
static double step(double (*old)[COLUMNS], double (*new)[COLUMNS], int above, int below)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    double change = 0, greatest = 0;
    MPI_Irecv(old[0], COLUMNS, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(old[ROWS + 1], COLUMNS, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(old[1], COLUMNS, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(old[ROWS], COLUMNS, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    for (int row = 1; row <= ROWS; row++)
        for (int column = 1; column < COLUMNS - 1; column++) {
            new[row][column] =
                0.25 * (old[row - 1][column] + old[row + 1][column] + old[row][column - 1] + old[row][column + 1]);
            const double here = new[row][column] - old[row][column];
            change = here > change ? here : -here > change ? -here : change;
        }
    MPI_Allreduce(&change, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return greatest;
}

int main(int count, char **words)
{
    int rank, ranks, steps = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    const double seconds = count > 1 ? atof(words[1]) : 1, rate = count > 2 ? atof(words[2]) : 0;
    for (int row = 0; row < ROWS + 2; row++)
        grid[0][row][0] = grid[1][row][0] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now();
    /* Rank 0 says when to end, with the change that it reports: all ranks make the same number of steps. */
    for (double next = begin, greatest = 1; greatest >= 0; steps++) {
        if (rate > 0)
            sleep_until(begin + steps / rate);
        greatest = step(grid[steps % 2], grid[1 - steps % 2], above, below);
        if (rank == 0 && now() >= next) {
            printf("%.6f %d\n", now(), steps);
            fflush(stdout);
            next += 0.1;
        }
        if (steps % 64 == 63) {
            int end = now() > begin + seconds;
            MPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
            greatest = end ? -1 : greatest;
        }
    }
    if (rank == 0)
        printf("%.6f %d\n", now(), steps);
    return MPI_Finalize();
}
