/*
 * whereabouts THREADS SECONDS: THREADS threads compute for SECONDS, the first of them being the one that creates the
 * others. Ten times a second each notes the CPU on which it runs. Afterwards a line for each of these times is printed,
 * with a CPU for each thread. Nothing else runs meanwhile, so the scheduler alone decides.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const double INTERVAL = 0.1;

static double begin;
static int threads, times;
static int *cpus;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *work(void *rank)
{
    for (int time = 0; time < times; time++) {
        while (now() < begin + INTERVAL * (time + 1))
            ;
        cpus[time * threads + *(int *)rank] = sched_getcpu();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    threads = atoi(argv[1]);
    times = (int)(atof(argv[2]) / INTERVAL);
    cpus = calloc((size_t)(times * threads), sizeof *cpus);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    int *ranks = calloc((size_t)threads, sizeof *ranks);
    begin = now();
    for (int rank = 1; rank < threads; rank++) {
        ranks[rank] = rank;
        if (pthread_create(&others[rank], NULL, work, &ranks[rank]) != 0)
            return 1;
    }
    work(&ranks[0]);
    for (int rank = 1; rank < threads; rank++)
        pthread_join(others[rank], NULL);
    for (int time = 0; time < times; time++)
        for (int rank = 0; rank < threads; rank++)
            printf("%d%c", cpus[time * threads + rank], rank + 1 < threads ? ' ' : '\n');
    return 0;
}
