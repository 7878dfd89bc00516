/*
 * Lets a pinned thread become a real-time thread as if pinfold had pinned nothing.
 *
 * The kernel makes a thread SCHED_DEADLINE only where it may run on all CPUs of its root domain: a pinned one gets
 * EPERM. A SCHED_FIFO or SCHED_RR thread that is pinned keeps the other threads from its CPU. So a thread of this
 * process gets the mask with which the process began before it becomes a real-time thread. pinfold sees the policy, and
 * leaves the thread alone from then on. Where the kernel refuses the policy, pinfold pins the thread again.
 *
 *   1. The policy of sched_setscheduler() and pthread_setschedparam() is an argument: the mask is restored first.
 *   2. That of sched_setattr() is in memory, which need not be readable. The call is made. If the kernel answers EPERM
 *      and the thread was pinned, the mask is restored and the call is made again.
 *   3. Before version 2.41 glibc has no sched_setattr(), and programs use syscall(). It is replaced by a few
 *      instructions that jump on to the C library's at once for all other calls: a call that creates a task must find
 *      the stack as its caller left it.
 *
 * Known limits: direct system calls, and calls for threads of other processes.
 */
#define _GNU_SOURCE
#include "affinity.h"
#include "glibc.h"
#include "scheduling.h"

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

/* pinfold may pin the thread again before the call: it has seen the mask, but not the policy yet. */
enum { TRIES = 3 };

struct sched_attr; /* linux/sched/types.h; glibc has it since 2.41. */

EXPORT int sched_setattr(pid_t thread, struct sched_attr *attributes, unsigned flags);

typedef long system_call(long, ...);

static int (*real_setscheduler)(pid_t, int, const struct sched_param *);
static int (*real_setschedparam)(pthread_t, int, const struct sched_param *);

/* Where syscall() continues; until the C library's is known, at instructions that do the same. */
extern system_call pinfold_direct_call __attribute__((visibility("hidden")));
system_call *pinfold_next_call __attribute__((visibility("hidden"))) = pinfold_direct_call;

__attribute__((constructor)) static void begin(void)
{
    real_setscheduler = (int (*)(pid_t, int, const struct sched_param *))dlsym(RTLD_NEXT, "sched_setscheduler");
    real_setschedparam =
        (int (*)(pthread_t, int, const struct sched_param *))dlsym(RTLD_NEXT, "pthread_setschedparam");
    system_call *next = (system_call *)dlsym(RTLD_NEXT, "syscall");
    if (next)
        pinfold_next_call = next;
}

static bool is_real_time(int policy)
{
    policy &= ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

bool pinfold_this_thread_is_real_time(void)
{
    /* The function of musl always fails. The call cannot fail for the calling thread. */
    return is_real_time((int)pinfold_next_call(SYS_sched_getscheduler, 0));
}

static long set_attributes(long thread, long attributes, long flags)
{
    int before = errno;
    long result = pinfold_next_call(SYS_sched_setattr, thread, attributes, flags);
    for (int tries = 1; result == -1 && errno == EPERM && tries < TRIES && pinfold_unpin((pid_t)thread); tries++) {
        errno = before;
        result = pinfold_next_call(SYS_sched_setattr, thread, attributes, flags);
    }
    uint32_t policy = 0;
    if (result == 0) /* The kernel has read it. */
        memcpy(&policy, (const char *)attributes + sizeof policy, sizeof policy);
    if (is_real_time((int)policy))
        pinfold_unpin((pid_t)thread);
    return result;
}

/* The calls at which syscall() does not jump on. */
__attribute__((visibility("hidden"), used)) long pinfold_scheduling_call(long, long, long, long);
long pinfold_scheduling_call(long number, long thread, long second, long third)
{
    if (number == SYS_sched_setattr)
        return set_attributes(thread, second, third);
    if (is_real_time((int)second))
        pinfold_unpin((pid_t)thread);
    return pinfold_next_call(number, thread, second, third);
}

EXPORT int sched_setattr(pid_t thread, struct sched_attr *attributes, unsigned flags)
{
    return (int)set_attributes(thread, (long)attributes, flags);
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

/* What the C library's syscall() does with the kernel's answer. */
__attribute__((visibility("hidden"), used)) long pinfold_failed_call(long answer);
long pinfold_failed_call(long answer)
{
    errno = (int)-answer;
    return -1;
}

#define TEXT_(value) #value
#define TEXT(value) TEXT_(value)

#if defined __x86_64__
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    endbr64\n"
        "    cmpq $" TEXT(SYS_sched_setattr) ", %rdi\n"
        "    je pinfold_scheduling_call\n"
        "    cmpq $" TEXT(SYS_sched_setscheduler) ", %rdi\n"
        "    je pinfold_scheduling_call\n"
        "    jmp *pinfold_next_call(%rip)\n"
        ".size syscall, . - syscall\n"
        ".hidden pinfold_direct_call\n"
        ".globl pinfold_direct_call\n"
        ".type pinfold_direct_call, @function\n"
        "pinfold_direct_call:\n"
        "    endbr64\n"
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    movq %rdx, %rsi\n"
        "    movq %rcx, %rdx\n"
        "    movq %r8, %r10\n"
        "    movq %r9, %r8\n"
        "    movq 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmpq $-4095, %rax\n"
        "    movq %rax, %rdi\n"
        "    jae pinfold_failed_call\n"
        "    ret\n"
        ".size pinfold_direct_call, . - pinfold_direct_call\n");
#elif defined __aarch64__
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "    hint #34\n" /* bti c */
        "    cmp x0, #" TEXT(SYS_sched_setattr) "\n"
        "    b.eq 1f\n"
        "    cmp x0, #" TEXT(SYS_sched_setscheduler) "\n"
        "    b.eq 1f\n"
        "    adrp x16, pinfold_next_call\n"
        "    ldr x16, [x16, :lo12:pinfold_next_call]\n"
        "    br x16\n"
        "1:  b pinfold_scheduling_call\n"
        ".size syscall, . - syscall\n"
        ".hidden pinfold_direct_call\n"
        ".globl pinfold_direct_call\n"
        ".type pinfold_direct_call, %function\n"
        "pinfold_direct_call:\n"
        "    hint #34\n"
        "    mov x8, x0\n"
        "    mov x0, x1\n"
        "    mov x1, x2\n"
        "    mov x2, x3\n"
        "    mov x3, x4\n"
        "    mov x4, x5\n"
        "    mov x5, x6\n"
        "    svc #0\n"
        "    cmn x0, #4095\n"
        "    b.cs 1f\n"
        "    ret\n"
        "1:  b pinfold_failed_call\n"
        ".size pinfold_direct_call, . - pinfold_direct_call\n");
#endif
