/*
 * steps THREADS RATE SECONDS: THREADS threads work for SECONDS. Each of them calls advance() RATE times per second, also
 * on a busy machine: late calls are made up for. advance() calls relax() all the time. With a RATE of zero, threads call
 * relax() only. At the end the first thread prints, for each tenth of a second, the seconds since the start and the calls
 * of advance() until then.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double begin, end, interval;
static atomic_long steps;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

__attribute__((noinline)) double relax(double value)
{
    for (int turn = 0; turn < 10; turn++)
        value = 0.5 * value + 1.0;
    return value;
}

__attribute__((noinline)) double advance(double value, double until)
{
    do
        value = relax(value);
    while (now() < until);
    return value;
}

static void *work(void *values)
{
    double *value = values;
    double next = begin;
    while (now() < end) {
        if (interval == 0) {
            *value = relax(*value);
            continue;
        }
        next += interval;
        *value = advance(*value, next);
        atomic_fetch_add(&steps, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int threads = atoi(argv[1]);
    double rate = atof(argv[2]);
    interval = rate > 0 ? 1 / rate : 0;
    begin = now();
    end = begin + atof(argv[3]);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    double *values = calloc((size_t)threads * 16, sizeof *values);
    for (int thread = 0; thread < threads; thread++)
        if (pthread_create(&others[thread], NULL, work, &values[16 * thread]) != 0)
            return 1;
    size_t tenths = 0;
    struct { double at; long steps; } *seen = calloc((size_t)(10 * (end - begin)) + 10, sizeof *seen);
    while (now() < end) {
        struct timespec tenth = {0, 100000000};
        nanosleep(&tenth, NULL);
        seen[tenths].at = now() - begin;
        seen[tenths++].steps = atomic_load(&steps);
    }
    for (int thread = 0; thread < threads; thread++)
        pthread_join(others[thread], NULL);
    for (size_t at = 0; at < tenths; at++)
        printf("%.4f %ld\n", seen[at].at, seen[at].steps);
    free(seen);
    free(others);
    free(values);
    return 0;
}
