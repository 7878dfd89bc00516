/*
 * pairs FILE: two parallel regions in turn, with teams of two threads. An execution of the region `near` takes 3 ms if both
 * threads are on one node, and one of `far` if they are on two; otherwise it takes 12 ms. So times in the emulated machine
 * have a meaning: one thread sleeps, and the other waits for it. Both placements of the whole program take as long as each
 * other, and are equally far from the best.
 *
 * When FILE.stop exists, it writes to FILE, as JSON, the nodes of both threads in the last execution of each region, and the
 * CPUs that a child may use, which it leaves behind.
 */
#define _GNU_SOURCE
#include "report.h"
#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

enum { THREADS = 2, GOOD = 3, BAD = 12 };

struct region {
    unsigned nodes[THREADS];
};

static struct region near, far;

/* The share of the calling thread. */
static void take_share(struct region *region, int likes_one_node)
{
    unsigned cpu = 0;
    syscall(SYS_getcpu, &cpu, &region->nodes[omp_get_thread_num() % THREADS], NULL);
#pragma omp barrier
    if (omp_get_thread_num() != 0)
        return;
    const int is_on_one = region->nodes[0] == region->nodes[1];
    struct timespec nap = {0, (is_on_one == likes_one_node ? GOOD : BAD) * 1000000L};
    nanosleep(&nap, NULL);
}

__attribute__((noinline)) static void run_near(void)
{
#pragma omp parallel num_threads(THREADS)
    take_share(&near, 1);
}

__attribute__((noinline)) static void run_far(void)
{
#pragma omp parallel num_threads(THREADS)
    take_share(&far, 0);
}

int main(int argc, char **argv)
{
    char stop[256];
    if (argc != 2)
        return 2;
    snprintf(stop, sizeof stop, "%s.stop", argv[1]);
    while (access(stop, F_OK) != 0) {
        run_near();
        run_far();
    }
    pid_t child;
    FILE *file = report_with_child(argv[1], &child);
    if (!file)
        return 1;
    fprintf(file, "{\"near\": [%u, %u], \"far\": [%u, %u], \"child\": %d}\n", near.nodes[0], near.nodes[1], far.nodes[0],
            far.nodes[1], child);
    return fclose(file) != 0;
}
