/*
 * A program that uses MPI if there is MPI, as libraries with optional MPI do. Prints whether it finds functions of MPI:
 * by weak references, by dlsym(), and functions of MPI 4. With an argument it calls one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

__attribute__((weak)) int MPI_Initialized(int *flag);
__attribute__((weak)) int MPI_Allreduce(void);
__attribute__((weak)) int PMPI_Barrier(void);
__attribute__((weak)) int MPI_Send_c(void);

int main(int count, char **words)
{
    (void)words;
    const int weak = MPI_Initialized != NULL || MPI_Allreduce != NULL || PMPI_Barrier != NULL;
    const int by_name = dlsym(RTLD_DEFAULT, "MPI_Barrier") != NULL || dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
    printf("weak references: %d, dlsym: %d, MPI 4: %d\n", weak, by_name, MPI_Send_c != NULL);
    fflush(stdout);
    return count > 1 ? MPI_Allreduce() : 0;
}
