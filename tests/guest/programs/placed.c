/*
 * placed THREADS MILLISECONDS: THREADS threads, including the first one, wait until they are placed, map a mebibyte each
 * and touch it for MILLISECONDS. Then a line for each is printed: its mask as a hexadecimal number, and the number of its
 * pages on each node.
 */
#define _GNU_SOURCE
#include "pages.h"
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { MOST = 64, PAGES = (1 << 20) / PAGE };

/* pinfold pins a process's first thread a tenth of a second after its start. */
static const struct timespec PLACED = {0, 400000000};

static pthread_barrier_t all_here;
static long milliseconds;
static unsigned long masks[MOST];
static long counts[MOST][NODES];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void count(char *from, long *nodes)
{
    void *addresses[PAGES];
    int status[PAGES];
    for (long page = 0; page < PAGES; page++)
        addresses[page] = from + page * PAGE;
    if (syscall(SYS_move_pages, 0, (long)PAGES, addresses, NULL, status, 0) != 0)
        exit(1);
    for (long page = 0; page < PAGES; page++)
        if (status[page] >= 0 && status[page] < NODES)
            nodes[status[page]]++;
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    pthread_barrier_wait(&all_here);
    nanosleep(&PLACED, NULL);
    char *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        exit(1);
    madvise(own, 1 << 20, MADV_NOHUGEPAGE);
    double end = now() + (double)milliseconds;
    do
        for (long page = 0; page < PAGES; page++)
            own[page * PAGE]++;
    while (now() < end);
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    for (int cpu = 0; cpu < MOST; cpu++)
        masks[thread] |= (unsigned long)(CPU_ISSET(cpu, &mask) != 0) << cpu;
    count(own, counts[thread]);
    return NULL;
}

int main(int number, char **words)
{
    pthread_t others[MOST];
    int threads = number == 3 ? atoi(words[1]) : 0;
    if (threads < 1 || threads > MOST)
        return 2;
    milliseconds = atol(words[2]);
    pthread_barrier_init(&all_here, NULL, (unsigned)threads);
    for (int thread = 1; thread < threads; thread++)
        pthread_create(&others[thread], NULL, work, (void *)(intptr_t)thread);
    work(NULL);
    for (int thread = 1; thread < threads; thread++)
        pthread_join(others[thread], NULL);
    for (int thread = 0; thread < threads; thread++) {
        printf("%lx", masks[thread]);
        for (int node = 0; node < NODES; node++)
            printf(" %ld", counts[thread][node]);
        printf("\n");
    }
    return 0;
}
