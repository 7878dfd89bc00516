/*
 * breeder THREADS CHILDREN SECONDS FILE: THREADS threads work until the program is killed. At SIGUSR1 they start
 * CHILDREN processes in all, in turn: `sleep SECONDS`, in the background of a shell that ends at once; the same by a
 * daemon's double fork; and `nproc`, which appends its output to FILE. Prints "begun" when all are started.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int threads, children;
static const char *seconds;
static char in_background[256], count_cpus[256];
static atomic_int next, begun;
static volatile sig_atomic_t wanted;

static void want(int signal)
{
    (void)signal;
    wanted = 1;
}

static void run(const char *command)
{
    if (system(command) != 0)
        abort();
}

static void become_a_daemon(void)
{
    pid_t middle = fork();
    if (middle < 0)
        abort();
    if (middle == 0) {
        setsid();
        if (fork() == 0) {
            execlp("sleep", "sleep", seconds, NULL);
            _exit(127);
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
}

static void beget(int child)
{
    if (child % 3 == 0)
        run(in_background);
    else if (child % 3 == 1)
        become_a_daemon();
    else
        run(count_cpus);
    if (++begun == children) {
        printf("begun\n");
        fflush(stdout);
    }
}

static void *work(void *nothing)
{
    for (;;) {
        for (volatile int step = 0; step < 1000000; step++)
            ;
        int child = wanted && next < children ? next++ : children;
        if (child < children)
            beget(child);
    }
    return nothing;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    threads = atoi(argv[1]);
    children = atoi(argv[2]);
    seconds = argv[3];
    snprintf(in_background, sizeof in_background, "sleep %s &", seconds);
    snprintf(count_cpus, sizeof count_cpus, "nproc >> %s", argv[4]);
    signal(SIGUSR1, want);
    pthread_t thread;
    for (int index = 1; index < threads; index++)
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            return 1;
    work(NULL);
    return 0;
}
