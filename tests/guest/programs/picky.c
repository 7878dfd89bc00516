/*
 * picky FILE MIB SPREAD SECONDS: touches MIB MiB, and then reports a heartbeat every 5 ms while its pages are as it
 * likes them, and every 20 ms while they are not. With SPREAD 1 it likes pages on several nodes, with 0 on one node.
 *
 * After SECONDS it writes to FILE a line with the number of pages on each node from 0 on, as they were at its begin,
 * one as they are at its end, and one with the number of CPUs that it may use.
 */
#define _GNU_SOURCE
#include "../../../agent/pinfold.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

enum { PAGE = 4096, NODES = 8, LOOKED_AT = 16 };

static char *memory;
static long pages;

/* Counts `number` pages, evenly distributed over the memory, by their nodes. */
static void count(long number, long *nodes)
{
    void **addresses = calloc((size_t)number, sizeof *addresses);
    int *status = calloc((size_t)number, sizeof *status);
    for (long page = 0; page < number; page++)
        addresses[page] = memory + page * (pages / number) * PAGE + (page % NODES) * (pages > number) * PAGE;
    memset(nodes, 0, NODES * sizeof *nodes);
    if (syscall(SYS_move_pages, 0, number, addresses, NULL, status, 0) != 0)
        exit(1);
    for (long page = 0; page < number; page++)
        if (status[page] >= 0 && status[page] < NODES)
            nodes[status[page]]++;
    free(addresses);
    free(status);
}

static int is_spread(void)
{
    long nodes[NODES];
    int used = 0;
    count(LOOKED_AT, nodes);
    for (int node = 0; node < NODES; node++)
        used += nodes[node] > 0;
    return used > 1;
}

static void write_counts(FILE *file)
{
    long nodes[NODES];
    count(pages, nodes);
    for (int node = 0; node < NODES; node++)
        fprintf(file, "%ld%c", nodes[node], node + 1 < NODES ? ' ' : '\n');
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    FILE *file = fopen(argv[1], "w");
    pages = (atol(argv[2]) << 20) / PAGE;
    int likes_spread = atoi(argv[3]);
    time_t end = time(NULL) + atol(argv[4]);
    memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!file || memory == MAP_FAILED)
        return 1;
    madvise(memory, (size_t)pages * PAGE, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++)
        memory[page * PAGE] = 1;
    write_counts(file);
    while (time(NULL) < end) {
        struct timespec nap = {0, is_spread() == likes_spread ? 5000000 : 20000000};
        nanosleep(&nap, NULL);
        pinfold_heartbeat();
    }
    write_counts(file);
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    fprintf(file, "%d\n", CPU_COUNT(&mask));
    return fclose(file) != 0;
}
