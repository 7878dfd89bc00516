/*
 * tracer: traces in each way that there is: a child that asks for it, a child that runs already, and that child's thread.
 * Prints a line for each. With -DBY_SYSCALL it calls syscall(SYS_ptrace, ...) in place of ptrace().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long trace(int request, pid_t thread)
{
#ifdef BY_SYSCALL
    return syscall(SYS_ptrace, request, thread, NULL, NULL);
#else
    return ptrace(request, thread, NULL, NULL);
#endif
}

static void check(const char *what, long result)
{
    printf("%s: %s\n", what, result == 0 ? "traced" : strerror(errno));
    fflush(stdout);
}

static void child_that_asks(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        long result = trace(PTRACE_TRACEME, 0);
        raise(SIGSTOP);
        _exit(result == 0 ? 7 : 8);
    }
    long result = waitpid(child, &status, 0) == child && WIFSTOPPED(status) ? trace(PTRACE_CONT, child) : -1;
    waitpid(child, &status, 0);
    check("asks", WIFEXITED(status) && WEXITSTATUS(status) == 7 ? result : -1);
}

static void child_that_runs(int request, const char *what)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    check(what, trace(request, child));
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        continue;
}

int main(void)
{
    child_that_asks();
    child_that_runs(PTRACE_ATTACH, "attach");
    child_that_runs(PTRACE_SEIZE, "seize");
    return 0;
}
