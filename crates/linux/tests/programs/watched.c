/*
 * watched FILE THREADS: the main thread sleeps and THREADS others work. Writes its number, and each thread's, to FILE.
 * SIGUSR1: the main thread starts another one. SIGUSR2: it forks a working child, whose number is also written.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE *file;

static void tell(void)
{
    fprintf(file, "%ld\n", syscall(SYS_gettid));
    fflush(file);
}

static void *work(void *argument)
{
    tell();
    for (;;)
        __asm__ volatile("");
    return argument;
}

static void begin(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
}

int main(int argc, char **argv)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* The test process may be killed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    file = fopen(argv[argc - 2], "a");
    tell();
    for (int i = atoi(argv[argc - 1]); i > 0; i--)
        begin();
    while (sigwait(&set, &signal) == 0) {
        if (signal == SIGUSR1)
            begin();
        else if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(NULL);
        }
    }
    return 1;
}
