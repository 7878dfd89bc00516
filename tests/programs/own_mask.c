/*
 * own_mask CPU SECONDS: a thread of this program pins itself to CPU and works for SECONDS. At its end it prints the
 * CPUs on which it may run.
 */
#include "mask.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static char **arguments;

static void *work(void *nothing)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(atoi(arguments[1]), &own);
    if (sched_setaffinity(0, sizeof own, &own) != 0)
        exit(1);
    for (double end = now() + atof(arguments[2]); now() < end;)
        ;
    own = own_mask();
    print_mask(&own);
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    arguments = argv;
    return argc != 3 || pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0;
}
