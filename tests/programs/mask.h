/*
 * The CPUs on which the calling thread may run, and a function that prints them, as 0,1,5. Include it first.
 *
 * It asks the kernel and not the C library, because pinfold's agent answers the latter with the CPUs with which the
 * program began.
 */
#ifndef MASK_H
#define MASK_H

#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void print_mask(const cpu_set_t *mask)
{
    const char *separator = "";
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, mask)) {
            printf("%s%d", separator, cpu);
            separator = ",";
        }
    printf("\n");
}

static inline cpu_set_t own_mask(void)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    syscall(SYS_sched_getaffinity, 0, sizeof mask, &mask);
    return mask;
}

#endif
