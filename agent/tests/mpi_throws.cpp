/* Three sends to a rank that does not exist. The error handler throws an exception through the MPI library. */
#include <cstdio>
#include <mpi.h>

static void thrower(MPI_Comm *, int *error, ...)
{
    throw *error;
}

int main(int count, char **words)
{
    int caught = 0, message = 0;
    MPI_Errhandler handler;
    MPI_Init(&count, &words);
    MPI_Comm_create_errhandler(thrower, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int i = 0; i < 3; i++)
        try {
            MPI_Send(&message, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        } catch (int) {
            caught++;
        }
    MPI_Finalize();
    return caught == 3 ? 0 : 1;
}
