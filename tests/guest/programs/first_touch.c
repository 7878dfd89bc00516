/*
 * first_touch FILE MIB THREADS [huge|shared|own|idle]...: THREADS threads, including the first one, map MIB MiB each
 * and touch them. When all have, FILE has a line with the process's number and one for each thread with its number
 * and the address of its memory. Then the threads continue to touch, until the program is killed.
 *
 * huge: in huge pages, otherwise in small ones. shared: the memory is shared, and a child process has also mapped and
 * touched it. own: the first thread's memory has its own memory policy, bound to node 1. idle: sleep instead.
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HUGE = 2 << 20 };

static pthread_barrier_t all_here;
static size_t size;
static int huge, shared, own, idle;
static volatile char **memory;
static int *numbers;

/* The memory is a separate area with inaccessible surroundings, and it begins where a huge page can begin. */
static char *map(void)
{
    int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE);
    char *around = mmap(NULL, size + 3 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *begin = (char *)(((uintptr_t)around + 2 * HUGE - 1) / HUGE * HUGE);
    char *mapped = mmap(begin, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
    if (around == MAP_FAILED || mapped == MAP_FAILED)
        exit(1);
    madvise(mapped, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return mapped;
}

/* Writes and does not read: a huge page that is read first is the zero page, which the kernel splits when it is written. */
static void touch(int thread)
{
    for (size_t byte = 0; byte < size; byte += 4096)
        memory[thread][byte] = 1;
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    numbers[thread] = gettid();
    pthread_barrier_wait(&all_here);
    memory[thread] = map();
    touch(thread);
    pthread_barrier_wait(&all_here);
    for (;;)
        if (idle)
            pause();
        else
            touch(thread);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    size = (size_t)atol(argv[2]) << 20;
    int threads = atoi(argv[3]);
    for (int word = 4; word < argc; word++) {
        own |= strcmp(argv[word], "own") == 0;
        huge |= strcmp(argv[word], "huge") == 0;
        shared |= strcmp(argv[word], "shared") == 0;
        idle |= strcmp(argv[word], "idle") == 0;
    }
    memory = calloc((size_t)threads, sizeof *memory);
    numbers = calloc((size_t)threads, sizeof *numbers);
    pthread_barrier_init(&all_here, NULL, (unsigned)threads);
    for (int thread = 1; thread < threads; thread++) {
        pthread_t other;
        if (pthread_create(&other, NULL, work, (void *)(intptr_t)thread) != 0)
            return 1;
    }
    numbers[0] = getpid();
    pthread_barrier_wait(&all_here);
    memory[0] = map();
    unsigned long node_1 = 1 << 1;
    if (own && syscall(SYS_mbind, memory[0], size, MPOL_BIND, &node_1, 64, 0) != 0)
        return 1;
    touch(0);
    pthread_barrier_wait(&all_here);
    if (shared && fork() == 0) {
        for (int thread = 0; thread < threads; thread++)
            touch(thread);
        for (;;)
            pause();
    }
    char name[4096];
    snprintf(name, sizeof name, "%s.new", argv[1]);
    FILE *file = fopen(name, "w");
    if (!file)
        return 1;
    fprintf(file, "%d\n", getpid());
    for (int thread = 0; thread < threads; thread++)
        fprintf(file, "%d %lx\n", numbers[thread], (unsigned long)memory[thread]);
    if (fclose(file) != 0 || rename(name, argv[1]) != 0)
        return 1;
    for (;;)
        if (idle)
            pause();
        else
            touch(0);
}
