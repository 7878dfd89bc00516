/*
 * teams FILE LIKES: two parallel regions in turn. With LIKES `different`, an execution of the region `few` takes 20 ms in
 * a team of at most two threads, and one of `many` takes 20 ms in a team of at most four while the pages are on several
 * nodes. With `all`, both take 20 ms in a larger team than that. Otherwise an execution takes 80 ms. So times in the
 * emulated machine have a meaning: one thread of a team sleeps, and the others wait for it. A change of the team's size
 * takes up to some ten milliseconds on a busy host.
 *
 * When it begins, FILE.begun has the process's number and the address of its memory. When FILE.stop exists, it writes to
 * FILE, as JSON, the sizes that the team of each region had one after the other, and the CPU of each thread in the last
 * execution, -1 for one that may use several. It leaves a child behind, which sleeps and has no other mask than it.
 */
#define _GNU_SOURCE
#include "../pages.h"
#include "report.h"
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

enum { MIB = 4, THREADS = 64, SIZES = 64, GOOD = 20, BAD = 80 };

struct region {
    int sizes[SIZES];
    int changes;
    int cpus[THREADS];
};

static struct region few, many;

/* The only CPU that the calling thread may use. The C library's function would answer what the agent has it answer. */
static int only_cpu(void)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (syscall(SYS_sched_getaffinity, 0, sizeof mask, &mask) < 0 || CPU_COUNT(&mask) != 1)
        return -1;
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mask))
        cpu++;
    return cpu;
}

static int is_large(void)
{
    return omp_get_num_threads() > 4;
}

/* The share of the calling thread. */
static void take_share(struct region *region, int good)
{
    const int size = omp_get_num_threads();
    region->cpus[omp_get_thread_num() % THREADS] = only_cpu();
    if (omp_get_thread_num() != 0)
        return;
    if (region->changes < SIZES && (region->changes == 0 || region->sizes[region->changes - 1] != size))
        region->sizes[region->changes++] = size;
    struct timespec nap = {0, (good ? GOOD : BAD) * 1000000L};
    nanosleep(&nap, NULL);
}

__attribute__((noinline)) static void run_few(int likes_all)
{
#pragma omp parallel
    take_share(&few, likes_all ? is_large() : omp_get_num_threads() <= 2);
}

__attribute__((noinline)) static void run_many(int likes_all)
{
#pragma omp parallel
    take_share(&many, likes_all ? is_large() : omp_get_num_threads() > 2 && !is_large() && is_spread());
}

static void write_list(FILE *file, const char *name, const int *list, int length)
{
    fprintf(file, "\"%s\": [", name);
    for (int i = 0; i < length; i++)
        fprintf(file, i == 0 ? "%d" : ", %d", list[i]);
    fprintf(file, "]");
}

static void write_region(FILE *file, const char *name, const struct region *region)
{
    fprintf(file, "\"%s\": {", name);
    write_list(file, "sizes", region->sizes, region->changes);
    fprintf(file, ", ");
    write_list(file, "cpus", region->cpus, region->sizes[region->changes - 1]);
    fprintf(file, "}, ");
}

int main(int argc, char **argv)
{
    char name[256];
    if (argc != 3)
        return 2;
    const int likes_all = strcmp(argv[2], "all") == 0;
    map_pages(MIB);
    snprintf(name, sizeof name, "%s.begun", argv[1]);
    FILE *begun = fopen(name, "w");
    if (!begun || fprintf(begun, "%d %lx\n", getpid(), (unsigned long)memory) < 0 || fclose(begun) != 0)
        return 1;
    snprintf(name, sizeof name, "%s.stop", argv[1]);
    while (access(name, F_OK) != 0) {
        run_few(likes_all);
        run_many(likes_all);
    }
    pid_t child;
    FILE *file = report_with_child(argv[1], &child);
    if (!file)
        return 1;
    fprintf(file, "{");
    write_region(file, "few", &few);
    write_region(file, "many", &many);
    fprintf(file, "\"child\": %d}\n", child);
    return fclose(file) != 0;
}
