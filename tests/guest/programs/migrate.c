/* migrate PID FROM TO: one call of migrate_pages(2) moves all pages of a process from one node to another; prints its seconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    unsigned long from = 1ul << atoi(argv[2]), to = 1ul << atoi(argv[3]);
    double begin = now();
    /* The kernel uses one bit fewer than the given number. */
    if (syscall(SYS_migrate_pages, atoi(argv[1]), 65, &from, &to) < 0) {
        perror("migrate_pages");
        return 1;
    }
    printf("%.6f\n", now() - begin);
    return 0;
}
