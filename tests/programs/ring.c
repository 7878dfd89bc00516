/*
 * ring: creates tasks that ptrace does not report, as the lines of its input ask for it. Prints its process id and the
 * thread id of its worker, and for each line the ids of the tasks that this has created. The worker does the work:
 *
 *   ring       an io_uring ring, which a thread of the kernel polls
 *   own CPU    the same, and the thread runs on CPU
 *   untraced   a thread and a process in CLONE_UNTRACED mode
 *   leave      a ring; then the worker ends, and the first thread does what follows
 *   heir       a process, which outlives this one; its second thread makes a ring when it is pinned
 *   end        ends the program
 *
 * Without io_uring it prints why. `ring inherits` has status 0 where the thread of a ring has its creator's CPUs.
 */
#include "mask.h"
#include <dirent.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static char line[64];

/* A task that waits for its end. */
static int idle(void *nothing)
{
    (void)nothing;
    while (pause() != 0)
        ;
    return 0;
}

static int idle_until_the_parent_ends(void *nothing)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return idle(nothing);
}

/* The newest thread of this process. The kernel names the thread of a ring by its number in the first PID namespace. */
static int newest_thread(void)
{
    int newest = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (atoi(entry->d_name) > newest)
            newest = atoi(entry->d_name);
    closedir(tasks);
    return newest;
}

static void made(int ring)
{
    if (ring < 0)
        printf("no ring: %s\n", strerror(errno));
    else
        printf("%d\n", newest_thread());
    fflush(stdout);
}

static int ring_on(unsigned flags, unsigned cpu)
{
    struct io_uring_params parameters = {
        .flags = IORING_SETUP_SQPOLL | flags,
        .sq_thread_cpu = cpu,
        .sq_thread_idle = 1,
    };
    return (int)syscall(SYS_io_uring_setup, 4, &parameters);
}

static void *wait_and_make_a_ring(void *nothing)
{
    for (cpu_set_t mask = own_mask(); CPU_COUNT(&mask) != 1; mask = own_mask())
        usleep(1000);
    printf("%d ", getpid());
    made(ring_on(0, 0));
    idle(nothing);
    return nothing;
}

static void untraced(void)
{
    enum { STACK = 1 << 16 };
    char *stacks = malloc(2 * STACK);
    int thread = clone(idle, stacks + STACK,
                       CLONE_UNTRACED | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL);
    int process = clone(idle_until_the_parent_ends, stacks + 2 * STACK, CLONE_UNTRACED | CLONE_VM | SIGCHLD, NULL);
    printf("%d %d\n", thread, process);
    fflush(stdout);
}

/* Does what one line asks for; returns whether to go on. */
static int obey(void)
{
    if (strcmp(line, "ring\n") == 0 || strcmp(line, "leave\n") == 0)
        made(ring_on(0, 0));
    else if (strncmp(line, "own ", 4) == 0)
        made(ring_on(IORING_SETUP_SQ_AFF, (unsigned)atoi(line + 4)));
    else if (strcmp(line, "untraced\n") == 0)
        untraced();
    else if (strcmp(line, "heir\n") == 0 && fork() == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, wait_and_make_a_ring, NULL);
        idle(NULL);
    }
    return strcmp(line, "leave\n") != 0;
}

static void *work(void *nothing)
{
    printf("%d %ld\n", getpid(), syscall(SYS_gettid));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0)
        if (!obey())
            return nothing;
    exit(0);
}

static int inherits(void)
{
    cpu_set_t mask = own_mask(), of_ring = mask;
    for (int cpu = 0; CPU_COUNT(&mask) > 1; cpu++)
        CPU_CLR(cpu, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
    if (ring_on(0, 0) < 0) {
        printf("no io_uring here: %s\n", strerror(errno));
        return 1;
    }
    syscall(SYS_sched_getaffinity, newest_thread(), sizeof of_ring, &of_ring);
    if (CPU_COUNT(&of_ring) == 1)
        return 0;
    printf("the thread of a ring does not inherit its creator's CPUs on this kernel\n");
    return 1;
}

int main(int argc, char **argv)
{
    pthread_t worker;
    if (argc == 2 && strcmp(argv[1], "inherits") == 0)
        return inherits();
    if (pthread_create(&worker, NULL, work, NULL) != 0)
        return 1;
    pthread_join(worker, NULL);
    work(NULL);
    return 0;
}
