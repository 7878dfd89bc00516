/*
 * Replaces syscall(), because the agent has to act before some system calls.
 *
 * A few instructions compare the number of the call. For all other calls they jump to the C library's syscall(): a call
 * that creates a task must find the stack as its caller left it.
 *
 *   1. sched_setattr and sched_setscheduler: a pinned thread may request a deadline or real-time priority
 *      (scheduling.c).
 *   2. ptrace: pinfold has to let go of the process that the program traces (step_aside.c).
 *
 * Known limits: calls that bypass the C library, such as Go's. sched_getaffinity and sched_setaffinity are passed to
 * the kernel unchanged, because LLVM's OpenMP runtime makes them with syscall() when it explores the machine: it binds
 * its thread to one PU after the other, and reads the masks back.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "scheduling.h"
#include "step_aside.h"
#include "system_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>

/* The target of syscall()'s jump. Until the C library's function is known, equivalent instructions. */
extern system_call pinfold_direct_call __attribute__((visibility("hidden")));
system_call *pinfold_next_call __attribute__((visibility("hidden"))) = pinfold_direct_call;

__attribute__((constructor)) static void begin(void)
{
    system_call *next = (system_call *)dlsym(RTLD_NEXT, "syscall");
    if (next)
        pinfold_next_call = next;
}

/* The calls that syscall() does not pass to the C library. */
__attribute__((visibility("hidden"), used)) long pinfold_observed_call(long, long, long, long, long);
long pinfold_observed_call(long number, long first, long second, long third, long fourth)
{
    switch (number) {
    case SYS_sched_setattr:
        return pinfold_set_attributes(first, second, third);
    case SYS_sched_setscheduler:
        return pinfold_set_scheduler(first, second, third);
    default: /* ptrace */
        pinfold_step_aside_for(first, (pid_t)second);
        return pinfold_next_call(number, first, second, third, fourth);
    }
}

/* Converts the kernel's result like the C library's syscall(). */
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
        "    je pinfold_observed_call\n"
        "    cmpq $" TEXT(SYS_sched_setscheduler) ", %rdi\n"
        "    je pinfold_observed_call\n"
        "    cmpq $" TEXT(SYS_ptrace) ", %rdi\n"
        "    je pinfold_observed_call\n"
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
        "    cmp x0, #" TEXT(SYS_ptrace) "\n"
        "    b.eq 1f\n"
        "    adrp x16, pinfold_next_call\n"
        "    ldr x16, [x16, :lo12:pinfold_next_call]\n"
        "    br x16\n"
        "1:  b pinfold_observed_call\n"
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
