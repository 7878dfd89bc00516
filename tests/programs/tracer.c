/*
 * tracer: traces in each way that there is: a child that asks for it, a child that runs already, and that child's thread.
 * Prints a line for each.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

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
        long result = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(result == 0 ? 7 : 8);
    }
    long result = waitpid(child, &status, 0) == child && WIFSTOPPED(status) ? ptrace(PTRACE_CONT, child, NULL, NULL) : -1;
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
    check(what, ptrace(request, child, NULL, NULL));
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
