/*
 * Calls the functions of mpi_fake.c.
 *
 *   mpi_fake_user           checks what they return: 6 calls count in each of 10 rounds
 *   mpi_fake_user CALLS     prints the nanoseconds of a call
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int MPI_Init(void);
int MPI_Barrier(void *comm);
int PMPI_Barrier(void *comm);
int MPI_Wait(int first, void *second);
int MPI_Sendrecv(int first, long second, void *third, int fourth, long fifth, int sixth, int seventh, long eighth,
                 void *ninth, int tenth, long eleventh, int twelfth);
double MPI_Bcast(double first, float second, int third, double fourth, double fifth, double sixth, double seventh,
                 double eighth, double ninth, double tenth);
void mpi_send_(void **comm, int *error);

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int is_right(void)
{
    void *comm = &comm;
    int error = 0;
    errno = 77;
    mpi_send_(&comm, &error);
    return error == 1 && MPI_Wait(-1, (void *)INTPTR_MAX) == 2 && MPI_Barrier(comm) == 1 && PMPI_Barrier(comm) == 1 &&
           MPI_Sendrecv(1, INT64_MIN, (void *)3, -4, 5, 6, -7, INT64_MAX, (void *)-9, 10, -11, 12) == 12 &&
           MPI_Bcast(1.5, 2.5f, 3, 4, 5, 6, 7, 8, 9, 10.5) == 10.5 && errno == 77;
}

int main(int count, char **words)
{
    MPI_Init();
    if (count > 1) {
        const long calls = atol(words[1]);
        const double begin = now();
        for (long i = 0; i < calls; i++)
            MPI_Barrier(words);
        printf("%.3f\n", (now() - begin) / (double)calls);
        return 0;
    }
    for (int round = 0; round < 10; round++)
        if (!is_right())
            return 1;
    return 0;
}
