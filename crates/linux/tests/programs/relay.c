/* relay exec|spawn PROGRAM [ARGUMENT]...: creates a second thread, so that its first is not alone, and then executes
   the program, itself or in a child process that it waits for. Its status is 9 if its first thread was not on one
   PU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    cpu_set_t pus;
    int status;
    if (argc < 3)
        return 2;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    sched_getaffinity(0, sizeof pus, &pus);
    if (CPU_COUNT(&pus) != 1)
        return 9;
    if (strcmp(argv[1], "exec") == 0 || fork() == 0) {
        execv(argv[2], argv + 2);
        _exit(1);
    }
    return wait(&status) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
