/* hands_out: the main thread calls step() fifty times a second and hardly computes, while other threads compute. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_bool ends;

__attribute__((noinline)) void step(long number)
{
    __asm__ volatile("" ::"r"(number) : "memory");
}

static void *compute(void *argument)
{
    volatile double value = 1;
    while (!atomic_load_explicit(&ends, memory_order_relaxed))
        value = value * 1.0000001 + 1e-9;
    return argument;
}

int main(int argc, char **argv)
{
    enum { WORKERS = 2, PER_SECOND = 50 };
    const long steps = PER_SECOND * (argc > 1 ? atol(argv[1]) : 600);
    const struct timespec pause = {0, 1000000000 / PER_SECOND};
    pthread_t workers[WORKERS];
    for (int worker = 0; worker < WORKERS; worker++)
        pthread_create(&workers[worker], NULL, compute, NULL);
    for (long number = 0; number < steps; number++) {
        step(number);
        nanosleep(&pause, NULL);
    }
    atomic_store(&ends, 1);
    for (int worker = 0; worker < WORKERS; worker++)
        pthread_join(workers[worker], NULL);
    return 0;
}
