/*
 * A stencil of five points on a grid that two or more processes share by rows.
 *
 * stencil STEPS FILE: in each step every process exchanges its border rows with its neighbours. Process 0 counts the
 * steps in the first eight bytes of FILE, which is shared memory: reading the count costs the program nothing.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 1024, ROWS = 256 };

static double grids[2][ROWS + 2][WIDTH];

static volatile uint64_t *shared(const char *name)
{
    int file = open(name, O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, sizeof(uint64_t)) != 0) {
        perror(name);
        exit(1);
    }
    void *memory = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        perror(name);
        exit(1);
    }
    return memory;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    if (count != 3) {
        fprintf(stderr, "usage: stencil STEPS FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    volatile uint64_t *done = rank == 0 ? shared(words[2]) : NULL;
    long long steps = atoll(words[1]);
    for (int column = 0; column < WIDTH; column++)
        grids[0][0][column] = rank == 0;
    for (long long step = 0; step < steps; step++) {
        double(*from)[WIDTH] = grids[step % 2], (*to)[WIDTH] = grids[(step + 1) % 2];
        MPI_Sendrecv(from[1], WIDTH, MPI_DOUBLE, above, 0, from[ROWS + 1], WIDTH, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(from[ROWS], WIDTH, MPI_DOUBLE, below, 1, from[0], WIDTH, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int row = 1; row <= ROWS; row++)
            for (int column = 1; column + 1 < WIDTH; column++)
                to[row][column] = 0.2 * (from[row][column] + from[row - 1][column] + from[row + 1][column] +
                                         from[row][column - 1] + from[row][column + 1]);
        if (done != NULL)
            *done = (uint64_t)step + 1;
    }
    MPI_Finalize();
    return 0;
}
