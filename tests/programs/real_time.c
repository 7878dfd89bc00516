/*
 * real_time: a worker changes its scheduling policy as the lines of the input ask for it, and prints `done` or why that
 * failed. First it prints the process id and its thread id. With `first` before a word of the list, it changes the
 * policy of the first thread.
 *
 *   deadline   SCHED_DEADLINE, by syscall(), as programs do where the C library has no function for it
 *   fifo       SCHED_FIFO, by sched_setscheduler()
 *   rr         SCHED_RR, by pthread_setschedparam()
 *   attr       SCHED_FIFO, by sched_setattr
 *   normal     SCHED_OTHER
 *   pin CPU    the worker pins itself
 *   end        ends the program
 */
#include "mask.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static pthread_t first;

static int by_attributes(pid_t thread, struct attributes attributes)
{
    attributes.size = sizeof attributes;
    return syscall(SYS_sched_setattr, thread, &attributes, 0) == 0 ? 0 : errno;
}

static int by_policy(pid_t thread, int policy)
{
    struct sched_param parameters = { .sched_priority = policy != SCHED_OTHER };
    return sched_setscheduler(thread, policy, &parameters) == 0 ? 0 : errno;
}

static int change(const char *what, pthread_t thread, pid_t number)
{
    struct sched_param lowest = { .sched_priority = 1 };
    struct attributes deadline = { .policy = SCHED_DEADLINE, .runtime = 1000000, .deadline = 10000000, .period = 10000000 };
    if (strcmp(what, "deadline\n") == 0)
        return by_attributes(number, deadline);
    if (strcmp(what, "attr\n") == 0)
        return by_attributes(number, (struct attributes){ .policy = SCHED_FIFO, .priority = 1 });
    if (strcmp(what, "fifo\n") == 0)
        return by_policy(number, SCHED_FIFO);
    if (strcmp(what, "rr\n") == 0)
        return pthread_setschedparam(thread, SCHED_RR, &lowest);
    if (strcmp(what, "normal\n") == 0)
        return by_policy(number, SCHED_OTHER);
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(atoi(what + strlen("pin ")), &own);
    return sched_setaffinity(0, sizeof own, &own) == 0 ? 0 : errno;
}

static void *work(void *nothing)
{
    char line[64];
    printf("%d %ld\n", getpid(), syscall(SYS_gettid));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
        int is_for_first = strncmp(line, "first ", 6) == 0;
        int failed = is_for_first ? change(line + 6, first, getpid()) : change(line, pthread_self(), 0);
        printf("%s\n", failed ? strerror(failed) : "done");
        fflush(stdout);
    }
    exit(0);
    return nothing;
}

int main(void)
{
    pthread_t worker;
    first = pthread_self();
    if (pthread_create(&worker, NULL, work, NULL) != 0)
        return 1;
    pthread_join(worker, NULL);
    return 0;
}
