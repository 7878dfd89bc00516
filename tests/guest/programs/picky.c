/*
 * picky FILE MIB SPREAD SECONDS: touches MIB MiB, and then reports a heartbeat every 3 ms while its pages are as it
 * likes them, and every 30 ms while they are not. With SPREAD 1 it likes pages on several nodes, with 0 on one node.
 *
 * After SECONDS it writes to FILE a line with the number of pages on each node from 0 on, as they were at its begin,
 * one as they are at its end, and one with the number of CPUs that it may use.
 */
#define _GNU_SOURCE
#include "../../../agent/pinfold.h"
#include "pages.h"
#include <sched.h>
#include <stdio.h>
#include <time.h>

static void write_counts(FILE *file)
{
    long nodes[NODES];
    count_pages(pages, nodes);
    for (int node = 0; node < NODES; node++)
        fprintf(file, "%ld%c", nodes[node], node + 1 < NODES ? ' ' : '\n');
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    FILE *file = fopen(argv[1], "w");
    int likes_spread = atoi(argv[3]);
    time_t end = time(NULL) + atol(argv[4]);
    if (!file)
        return 1;
    map_pages(atol(argv[2]));
    write_counts(file);
    while (time(NULL) < end) {
        struct timespec nap = {0, is_spread() == likes_spread ? 3000000 : 30000000};
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
