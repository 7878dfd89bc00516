/*
 * at_home CPU SLEEP: a child uses CPU milliseconds of processor time, and sleeps for SLEEP milliseconds where its mask
 * is on one NUMA node, for three times as long elsewhere. So it is like a program that is slow on several nodes, and a
 * busy host does not change which of its runs is the slower one. Prints the number of CPUs in the mask. The environment
 * variable AT_HOME_TIMES multiplies both times: more work with the same arguments.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The CPUs of a node in the guest. */
#define CPUS_OF_A_NODE 2

static double used(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void work(double cpu, long sleeps)
{
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    int cpus = CPU_COUNT(&mask);
    printf("%d\n", cpus);
    while (used() < cpu) {
    }
    if (cpus > CPUS_OF_A_NODE)
        sleeps *= 3;
    struct timespec rest = {sleeps / 1000, sleeps % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

int main(int number, char **words)
{
    if (number != 3)
        return 2;
    const char *longer = getenv("AT_HOME_TIMES");
    const int times = longer ? atoi(longer) : 1;
    pid_t child = fork();
    if (child == 0) {
        work(times * atof(words[1]), times * atol(words[2]));
        return 0;
    }
    int status = 1;
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}
