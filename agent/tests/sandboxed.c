/* sandboxed: allows itself only a few system calls, and any other call kills it. Then it calls the heartbeat in two
   threads, queries the number of its PUs with each function, and has a parallel region. Prints the answers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* g++ defines it. */
#endif
#include "../pinfold.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int forbid_the_rest(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(sched_getaffinity),
        ALLOW(write),
        ALLOW(futex),
        ALLOW(exit),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

/* The steps of the two threads. Each waits for the other through memory alone. */
enum { BEGUN = 1, FORBIDDEN, BEATEN };
static int step;

static void await(int wanted)
{
    while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) < wanted)
        continue;
}

static void reach(int reached)
{
    __atomic_store_n(&step, reached, __ATOMIC_RELEASE);
}

static void *beat(void *nothing)
{
    reach(BEGUN);
    await(FORBIDDEN);
    pinfold_heartbeat();
    reach(BEATEN);
    await(BEATEN + 1);
    return nothing;
}

int main(void)
{
    const pid_t process = getpid();
    cpu_set_t by_zero, by_process, by_thread;
    char text[64];
    pthread_t thread;
    int regions = 0;
#pragma omp parallel num_threads(1)
    regions++; /* Its runtime starts before the sandbox. */
    if (pthread_create(&thread, NULL, beat, NULL) != 0)
        return 3;
    await(BEGUN);
    if (!forbid_the_rest())
        return 3;
    reach(FORBIDDEN);
    await(BEATEN);
    pinfold_heartbeat();
#pragma omp parallel num_threads(1)
    regions++;
    sched_getaffinity(0, sizeof by_zero, &by_zero);
    sched_getaffinity(process, sizeof by_process, &by_process);
    pthread_getaffinity_np(pthread_self(), sizeof by_thread, &by_thread);
    int length = snprintf(text, sizeof text, "%d regions, the same PUs: %d\n", regions,
                          CPU_EQUAL(&by_zero, &by_process) && CPU_EQUAL(&by_zero, &by_thread));
    _exit(write(1, text, (size_t)length) == length ? 0 : 3);
}
