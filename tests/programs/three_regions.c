/*
 * Three parallel regions in turn, for a number of seconds: a sweep through memory, dependent arithmetic, and atomic
 * updates of one line. Each takes some milliseconds.
 *
 * three_regions SECONDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUMBERS = 1 << 20, STEPS = 1 << 20, UPDATES = 1 << 16 };

static double numbers[NUMBERS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    const double end = now() + (argc > 1 ? atof(argv[1]) : 1.0);
    double total = 0.0;
    long updates = 0;
    while (now() < end) {
#pragma omp parallel for
        for (int number = 0; number < NUMBERS; number++)
            numbers[number] = numbers[number] * 0.5 + 1.0;
#pragma omp parallel reduction(+ : total)
        {
            double value = 1.0;
            for (int step = 0; step < STEPS; step++)
                value = value * 0.999 + 0.001;
            total += value;
        }
#pragma omp parallel for
        for (int update = 0; update < UPDATES; update++) {
#pragma omp atomic
            updates++;
        }
    }
    printf("%.3f %.3f %ld\n", numbers[0], total > 0.0 ? 1.0 : 0.0, updates % UPDATES);
    return 0;
}
