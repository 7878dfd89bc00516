/*
 * workers FILE THREADS [lively]: starts THREADS threads, appends "begin" to FILE, works until SIGTERM arrives, and
 * appends "end" if there was no error. The threads work a little and mostly sleep.
 *
 * With `lively` the first thread sets its own mask to CPUs 6 and 7 at its begin, and is named "own"; the main thread
 * continuously starts threads that end at once; and it starts three processes by a double fork, as daemons do, which
 * live until SIGTERM arrives.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int count;
static atomic_int ready;
static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

static void nap(long milliseconds)
{
    struct timespec time = {0, milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static void *work(void *own)
{
    if (own) {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        CPU_SET(6, &mask);
        CPU_SET(7, &mask);
        prctl(PR_SET_NAME, "own");
        if (sched_setaffinity(0, sizeof mask, &mask) != 0)
            abort();
    }
    ready++;
    while (!over) {
        for (volatile int step = 0; step < 1000; step++)
            ;
        nap(count < 20 ? 20 : count < 999 ? count : 999);
    }
    return NULL;
}

static void *end_at_once(void *nothing)
{
    return nothing;
}

static void begin_a_daemon(void)
{
    pid_t middle = fork();
    if (middle < 0)
        abort();
    if (middle == 0) {
        if (fork() == 0)
            while (!over)
                nap(20);
        _exit(0);
    }
    waitpid(middle, NULL, 0);
}

static void say(const char *file, const char *line)
{
    int log = open(file, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (log < 0 || write(log, line, strlen(line)) != (ssize_t)strlen(line))
        abort();
    close(log);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int lively = argc > 3;
    signal(SIGTERM, end);
    count = atoi(argv[2]);
    pthread_t *threads = calloc((size_t)count, sizeof *threads), brief;
    for (int thread = 0; thread < count; thread++)
        if (pthread_create(&threads[thread], NULL, work, lively && thread == 0 ? threads : NULL) != 0)
            return 1;
    while (ready < count)
        nap(1);
    say(argv[1], "begin\n");
    for (int left = lively ? 3 : 0; !over; left -= left > 0) {
        if (left > 0)
            begin_a_daemon();
        if (lively && (pthread_create(&brief, NULL, end_at_once, NULL) != 0 || pthread_join(brief, NULL) != 0))
            return 1;
        nap(20);
    }
    for (int thread = 0; thread < count; thread++)
        if (pthread_join(threads[thread], NULL) != 0)
            return 1;
    say(argv[1], "end\n");
    return 0;
}
