/*
 * A library with the names of MPI functions, for tests and measurements of the interposer without an MPI library.
 *
 * Each function checks that its arguments arrive as mpi_fake_user.c gives them, and returns their number: in registers,
 * on the stack, and in vector registers, which no function of MPI has. A function of MPI_X is a second name of PMPI_X,
 * as in MPI libraries. The Fortran names call PMPI_X, as Open MPI's do.
 */
#include <stdint.h>

#define SECOND_NAME(name) __attribute__((weak, alias("P" #name)))

int PMPI_Init(void);
int PMPI_Barrier(void *comm);
int PMPI_Wait(int first, void *second);
int PMPI_Sendrecv(int first, long second, void *third, int fourth, long fifth, int sixth, int seventh, long eighth,
                  void *ninth, int tenth, long eleventh, int twelfth);
double PMPI_Bcast(double first, float second, int third, double fourth, double fifth, double sixth, double seventh,
                  double eighth, double ninth, double tenth);
int MPI_Init(void) SECOND_NAME(MPI_Init);
int MPI_Barrier(void *comm) SECOND_NAME(MPI_Barrier);
int MPI_Wait(int first, void *second) SECOND_NAME(MPI_Wait);
int MPI_Sendrecv(int first, long second, void *third, int fourth, long fifth, int sixth, int seventh, long eighth,
                 void *ninth, int tenth, long eleventh, int twelfth) SECOND_NAME(MPI_Sendrecv);
double MPI_Bcast(double first, float second, int third, double fourth, double fifth, double sixth, double seventh,
                 double eighth, double ninth, double tenth) SECOND_NAME(MPI_Bcast);
void mpi_send_(void **comm, int *error);

int PMPI_Init(void)
{
    return 0;
}

int PMPI_Barrier(void *comm)
{
    return comm != 0;
}

int PMPI_Wait(int first, void *second)
{
    return first == -1 && second == (void *)INTPTR_MAX ? 2 : -1;
}

int PMPI_Sendrecv(int first, long second, void *third, int fourth, long fifth, int sixth, int seventh, long eighth,
                  void *ninth, int tenth, long eleventh, int twelfth)
{
    return first == 1 && second == INT64_MIN && third == (void *)3 && fourth == -4 && fifth == 5 && sixth == 6 &&
                   seventh == -7 && eighth == INT64_MAX && ninth == (void *)-9 && tenth == 10 && eleventh == -11 &&
                   twelfth == 12
               ? 12
               : -1;
}

double PMPI_Bcast(double first, float second, int third, double fourth, double fifth, double sixth, double seventh,
                  double eighth, double ninth, double tenth)
{
    return first == 1.5 && second == 2.5f && third == 3 && fourth == 4 && fifth == 5 && sixth == 6 && seventh == 7 &&
                   eighth == 8 && ninth == 9 && tenth == 10.5
               ? 10.5
               : -1;
}

void mpi_send_(void **comm, int *error)
{
    *error = PMPI_Barrier(*comm);
}
