/* A plugin that is linked with an MPI library: ten rounds of two calls that count. plugin_host.c loads it. */
#include <mpi.h>
#include <stdlib.h>

void run(void);

void run(void)
{
    MPI_Init(NULL, NULL);
    for (int i = 0; i < 10; i++) {
        int sent = i, sum = 0;
        MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
        MPI_Sendrecv_replace(&sum, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        if (sum != i)
            abort();
    }
    MPI_Finalize();
}
