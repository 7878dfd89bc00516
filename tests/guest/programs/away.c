/*
 * away MIB NODE CPU OTHER [never]: two threads, whose MIB MiB of memory are on NODE. The first one begins on CPU and may
 * run anywhere, and the second one stays on OTHER. While they are on different nodes, they switch often and make progress
 * as usual. When they are together, they switch rarely. Then they make more progress if the memory is on their node, and
 * less if it is not; with `never` always less. Progress is page faults.
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "pages.h"

/* Page faults in a second, and how many there can be between two looks. */
enum { THREADS = 2, MOST = 6000, USUAL = 2000, LEAST = 500, AREA = 512, SWITCHES = 10 };

static volatile unsigned nodes[THREADS];
static int never, other_cpu;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int is_here(unsigned node)
{
    long on[NODES];
    count_pages(LOOKED_AT, on);
    return on[node] == LOOKED_AT;
}

static void go_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        exit(1);
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    if (thread == 1)
        go_to(other_cpu);
    volatile char *faults = mmap(NULL, AREA * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)faults, AREA * PAGE, MADV_NOHUGEPAGE);
    double due = 0;
    for (double last = now();;) {
        unsigned node;
        if (syscall(SYS_getcpu, NULL, &node, NULL) != 0)
            exit(1);
        nodes[thread] = node;
        int together = nodes[0] == nodes[1];
        double begin = now();
        due += (begin - last) * (!together ? USUAL : !never && is_here(node) ? MOST : LEAST);
        last = begin;
        madvise((void *)faults, AREA * PAGE, MADV_DONTNEED);
        for (int page = 0; page < AREA && due >= 1; page++, due--)
            faults[page * PAGE] = 1;
        while (now() < begin + 0.002)
            ;
        for (int times = together ? 1 : SWITCHES; times > 0; times--) {
            struct timespec pause = {0, 50000};
            nanosleep(&pause, NULL);
        }
        struct timespec pause = {0, 3000000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    never = argc > 5 && strcmp(argv[5], "never") == 0;
    map_pages_on(atol(argv[1]), (unsigned)atoi(argv[2]));
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return 1;
    go_to(atoi(argv[3]));
    if (sched_setaffinity(0, sizeof all, &all) != 0)
        return 1;
    other_cpu = atoi(argv[4]);
    pthread_t other;
    if (pthread_create(&other, NULL, work, (void *)1) != 0)
        return 1;
    work((void *)0);
}
