/* begets OUT: starts a process by each of fork, vfork, posix_spawn and clone, and writes a line for each: the call, the
   process number, and the exit status. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char stack[65536] __attribute__((aligned(16)));

static int cloned(void *argument)
{
    (void)argument;
    return 4;
}

static void await(FILE *out, const char *how, pid_t process)
{
    int status = -1;
    waitpid(process, &status, __WALL);
    fprintf(out, "%s %d %d\n", how, process, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv)
{
    char *command[] = {"sh", "-c", "exit 3", NULL};
    FILE *out = fopen(argv[argc - 1], "w");
    pid_t process = fork();
    if (process == 0)
        _exit(1);
    await(out, "fork", process);
    process = vfork();
    if (process == 0)
        _exit(2);
    await(out, "vfork", process);
    if (posix_spawn(&process, "/bin/sh", NULL, NULL, command, environ) != 0)
        return 1;
    await(out, "posix_spawn", process);
    /* Without an exit signal the kernel reports a clone, which could also be a thread. */
    process = clone(cloned, stack + sizeof stack, 0, NULL);
    await(out, "clone", process);
    return fclose(out);
}
