/*
 * spin THREADS SECONDS: THREADS threads work for SECONDS. Each touches a new page of memory at intervals, and
 * together they call step() a thousand times per second, also on a busy machine: late calls are made up for. Prints
 * the process id when all threads run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double end;
static pthread_barrier_t all_run;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

__attribute__((noinline)) void step(void)
{
    __asm__ volatile("");
}

static void touch_a_page(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        *page = 1;
        munmap((void *)page, 4096);
    }
}

static void *work(void *steps)
{
    pthread_barrier_wait(&all_run);
    double next = now();
    while (next < end) {
        while (now() < next)
            ;
        next += 1e-3;
        if (steps)
            step();
        touch_a_page();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int threads = atoi(argv[1]);
    end = now() + atof(argv[2]);
    pthread_barrier_init(&all_run, NULL, (unsigned)threads);
    pthread_t *others = calloc((size_t)threads, sizeof *others);
    for (int thread = 1; thread < threads; thread++)
        if (pthread_create(&others[thread], NULL, work, NULL) != 0)
            return 1;
    printf("%d\n", getpid());
    fflush(stdout);
    work(&end);
    for (int thread = 1; thread < threads; thread++)
        pthread_join(others[thread], NULL);
    free(others);
    return 0;
}
