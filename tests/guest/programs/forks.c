/*
 * forks FILE: starts processes, four at a time, until SIGTERM arrives. Then it waits for all of them, and appends
 * "end" to FILE when each has ended with 0. Each process starts a thread and another process, and lives ten
 * milliseconds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

static void *nap(void *nothing)
{
    struct timespec time = {0, 10000000};
    nanosleep(&time, NULL);
    return nothing;
}

/* The work of a process. Returns its exit status. */
static int live(int generation)
{
    pthread_t thread;
    int status = 0;
    pid_t child = 0;
    if (pthread_create(&thread, NULL, nap, NULL) != 0)
        return 1;
    if (generation > 0 && (child = fork()) == 0)
        _exit(live(generation - 1));
    if (pthread_join(thread, NULL) != 0 || child < 0)
        return 1;
    return child > 0 && (waitpid(child, &status, 0) != child || status != 0);
}

int main(int argc, char **argv)
{
    enum { AT_A_TIME = 4 };
    int alive = 0, status;
    if (argc != 2)
        return 2;
    signal(SIGTERM, end);
    while (!over || alive > 0) {
        if (!over && alive < AT_A_TIME) {
            pid_t child = fork();
            if (child < 0)
                return 1;
            if (child == 0)
                _exit(live(2));
            alive++;
        } else {
            pid_t child = wait(&status);
            if (child > 0 && status != 0)
                return 1;
            if (child > 0)
                alive--;
        }
    }
    int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
    return log < 0 || write(log, "end\n", 4) != 4;
}
