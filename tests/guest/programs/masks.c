/*
 * masks NAME: prints a line for each thread of each process with the program NAME: the process, the thread, the
 * thread's name and its CPUs as a hexadecimal number.
 */
#define _GNU_SOURCE
#include "proc.h"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    struct thread threads[MOST];
    int count = threads_of(argv[1], threads);
    for (int index = 0; index < count; index++)
        printf("%d %d %s %lx\n", threads[index].process, threads[index].thread, threads[index].name,
               threads[index].mask);
    return 0;
}
