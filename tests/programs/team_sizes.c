/*
 * Two parallel regions in turn, which note how many threads their teams have and whether a thread is pinned to one PU. Ends
 * when it has seen the number ONE and a pinned thread, or after LIMIT seconds, and prints what it has seen:
 * `sizes: 1 2; pinned: yes`.
 *
 * Usage: team_sizes ONE LIMIT
 */
#define _GNU_SOURCE
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024

static bool seen[MOST];
static bool pinned;

/* The C library's function would show what the agent wants shown. */
static void look(void)
{
    unsigned char mask[8192];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int pus = 0;
    for (long i = 0; i < bytes; i++)
        pus += __builtin_popcount(mask[i]);
    if (pus == 1)
        __atomic_store_n(&pinned, true, __ATOMIC_RELAXED);
    if (omp_get_thread_num() == 0)
        seen[omp_get_num_threads() % MOST] = true;
}

static void work(volatile double *sum)
{
    for (int i = 0; i < 200000; i++)
        *sum += i;
}

__attribute__((noinline)) static void first(void)
{
#pragma omp parallel
    {
        volatile double sum = 0;
        look();
        work(&sum);
    }
}

__attribute__((noinline)) static void second(void)
{
#pragma omp parallel
    {
        volatile double sum = 1;
        look();
        work(&sum);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    const int one = count > 1 ? atoi(arguments[1]) : 1;
    const double until = now() + (count > 2 ? atof(arguments[2]) : 20);
    while (now() < until && !(seen[one] && pinned)) {
        first();
        second();
    }
    printf("sizes:");
    for (int size = 0; size < MOST; size++)
        if (seen[size])
            printf(" %d", size);
    printf("; pinned: %s\n", pinned ? "yes" : "no");
    return 0;
}
