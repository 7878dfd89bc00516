/*
 * Lets a pinned thread become a real-time thread as if pinfold had not pinned it.
 *
 * The kernel makes a thread SCHED_DEADLINE only if it may run on all CPUs of its root domain: a pinned thread gets
 * EPERM. A pinned SCHED_FIFO or SCHED_RR thread keeps other threads off its CPU. So before a thread of this process
 * becomes a real-time thread, it gets the process's original mask. pinfold sees the policy, and leaves the thread
 * alone from then on. If the kernel refuses the policy, pinfold pins the thread again.
 *
 *   1. The policy of sched_setscheduler() and pthread_setschedparam() is an argument: the mask is restored first.
 *   2. The policy of sched_setattr() is in memory, which need not be readable. The call is made. If the kernel returns
 *      EPERM and the thread was pinned, the mask is restored and the call is made again.
 *   3. glibc before version 2.41 lacks sched_setattr(), and programs use syscall() (system_calls.c).
 *
 * Known limits: direct system calls, and calls for threads of other processes.
 */
#define _GNU_SOURCE
#include "affinity.h"
#include "glibc.h"
#include "scheduling.h"
#include "system_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif
#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

/* pinfold may pin the thread again before the call, because it has seen the mask, but not yet the policy. */
enum { TRIES = 3 };

struct sched_attr; /* Declared in linux/sched/types.h. glibc has the function since 2.41. */

EXPORT int sched_setattr(pid_t thread, struct sched_attr *attributes, unsigned flags);

static int (*real_setscheduler)(pid_t, int, const struct sched_param *);
static int (*real_setschedparam)(pthread_t, int, const struct sched_param *);

__attribute__((constructor)) static void begin(void)
{
    real_setscheduler = (int (*)(pid_t, int, const struct sched_param *))dlsym(RTLD_NEXT, "sched_setscheduler");
    real_setschedparam =
        (int (*)(pthread_t, int, const struct sched_param *))dlsym(RTLD_NEXT, "pthread_setschedparam");
}

static bool is_real_time(int policy)
{
    policy &= ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

bool pinfold_this_thread_is_real_time(void)
{
    /* musl's function always fails. The system call cannot fail for the calling thread. */
    return is_real_time((int)pinfold_next_call(SYS_sched_getscheduler, 0));
}

long pinfold_set_attributes(long thread, long attributes, long flags)
{
    int before = errno;
    long result = pinfold_next_call(SYS_sched_setattr, thread, attributes, flags);
    for (int tries = 1; result == -1 && errno == EPERM && tries < TRIES && pinfold_unpin((pid_t)thread); tries++) {
        errno = before;
        result = pinfold_next_call(SYS_sched_setattr, thread, attributes, flags);
    }
    uint32_t policy = 0;
    if (result == 0) /* The kernel has read it, so it is readable. */
        memcpy(&policy, (const char *)attributes + sizeof policy, sizeof policy);
    if (is_real_time((int)policy))
        pinfold_unpin((pid_t)thread);
    return result;
}

long pinfold_set_scheduler(long thread, long policy, long parameters)
{
    if (is_real_time((int)policy))
        pinfold_unpin((pid_t)thread);
    return pinfold_next_call(SYS_sched_setscheduler, thread, policy, parameters);
}

EXPORT int sched_setattr(pid_t thread, struct sched_attr *attributes, unsigned flags)
{
    return (int)pinfold_set_attributes(thread, (long)attributes, flags);
}

EXPORT int sched_setscheduler(pid_t thread, int policy, const struct sched_param *parameters)
{
    if (!real_setscheduler)
        begin();
    if (is_real_time(policy))
        pinfold_unpin(thread);
    return real_setscheduler(thread, policy, parameters);
}

EXPORT int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters)
{
    if (!real_setschedparam)
        begin();
    if (is_real_time(policy))
        pinfold_unpin_pthread(thread);
    return real_setschedparam(thread, policy, parameters);
}
