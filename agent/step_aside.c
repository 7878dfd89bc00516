/*
 * Asks pinfold to step aside for a program that traces itself, or another process that pinfold follows.
 *
 * Linux permits one tracer per thread, and pinfold is this tracer. So strace and gdb would fail under pinfold. The leak
 * detection of AddressSanitizer and LeakSanitizer would also fail, because it traces its own process. The program has
 * priority: pinfold lets go of the process, and follows it by other means (crates/linux/src/launch/stepping_aside.rs).
 *
 *   1. A request is the signal SIGURG, which a thread sends to itself. As the tracer, pinfold sees the signal, lets go,
 *      removes the signal and resumes the thread. So the request is fulfilled when the call has returned. Without
 *      pinfold the signal has no effect, unless the program handles it.
 *   2. ptrace() and syscall() are replaced (system_calls.c): a request precedes each call that starts to trace.
 *   3. A process with a leak sanitizer makes a request before main(). A later request is not possible: the sanitizer
 *      searches for leaks at the end, or on the program's call, and its tracer makes direct system calls.
 *
 * Known limits: ptrace calls that bypass the C library are not seen. pinfold itself examines static programs.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "step_aside.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The upper half of the signal's value. The lower half names the process that pinfold has to let go of: by one of its
 * threads, or, for the calling process, by a number below. launch/trace.rs has the same numbers. */
#define REQUEST UINT64_C(0x70666c64)
enum { TRACED_BY_PARENT = 0, TRACED_BY_ITSELF = -1 };

static long (*real_ptrace)(enum __ptrace_request, ...);

static void request(pid_t thread)
{
    const int saved_errno = errno;
    const pid_t process = (pid_t)syscall(SYS_getpid); /* The process may have been created by vfork(). */
    const uint64_t value = REQUEST << 32 | (uint32_t)thread;
    siginfo_t information;
    sigset_t urgent, before;
    memset(&information, 0, sizeof information);
    information.si_signo = SIGURG;
    information.si_code = SI_QUEUE;
    information.si_pid = process;
    memcpy(&information.si_value, &value, sizeof value);
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    sigprocmask(SIG_UNBLOCK, &urgent, &before);
    syscall(SYS_rt_tgsigqueueinfo, process, (pid_t)syscall(SYS_gettid), SIGURG, &information);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
}

/* Whether the user has disabled leak detection in the options of a sanitizer. */
static bool is_turned_off(void)
{
    const char *names[] = {"ASAN_OPTIONS", "LSAN_OPTIONS"};
    bool off = false;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const char *options = getenv(names[i]);
        if (options == NULL)
            continue;
        if (strstr(options, "detect_leaks=1") != NULL || strstr(options, "detect_leaks=true") != NULL)
            return false;
        off |= strstr(options, "detect_leaks=0") != NULL || strstr(options, "detect_leaks=false") != NULL;
    }
    return off;
}

__attribute__((constructor)) static void begin(void)
{
    real_ptrace = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    if (dlsym(RTLD_DEFAULT, "__lsan_do_leak_check") != NULL && getenv("PINFOLD_CHANNEL") != NULL && !is_turned_off())
        request(TRACED_BY_ITSELF);
    dlerror(); /* A failure is the agent's; the program should not see it. */
}

void pinfold_step_aside_for(long kind, pid_t thread)
{
    if (kind == PTRACE_TRACEME)
        request(TRACED_BY_PARENT);
    else if (kind == PTRACE_ATTACH || kind == PTRACE_SEIZE)
        request(thread);
}

EXPORT long ptrace(enum __ptrace_request kind, ...)
{
    va_list arguments;
    va_start(arguments, kind);
    const pid_t thread = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    if (!real_ptrace)
        begin();
    pinfold_step_aside_for(kind, thread);
    return real_ptrace(kind, thread, address, data);
}
