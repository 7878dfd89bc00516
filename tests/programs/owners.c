/*
 * owners LAPS THREADS [FILE]: each of THREADS threads besides the first one writes to its own memory, page by page,
 * LAPS times (0: until it is killed). The memory is of each kind that a process has: zeroed data of the program,
 * initialised data, heap, and mappings of different lengths, all touched by the first thread at the start.
 *
 * FILE gets a line for each thread and kind when all memory exists: the thread's position, the kind, and the address.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16, MOST = 8, SIZE = PAGES * PAGE };

static char zeroed[MOST][SIZE] __attribute__((aligned(PAGE)));
static char initialised[MOST][SIZE] __attribute__((aligned(PAGE))) = { "data" };
static char *heap[MOST], *mapped[MOST];
static long laps;

/* The mapping of the thread at position n is n + 1 times as long as the rest. */
static size_t length(int thread)
{
    return (size_t)SIZE * ((size_t)thread + 1);
}

static void touch(char *memory, size_t length)
{
    for (size_t at = 0; at < length; at += 64)
        ++*(volatile char *)(memory + at);
}

static void touch_all(int thread)
{
    touch(zeroed[thread], SIZE);
    touch(initialised[thread], SIZE);
    touch(heap[thread], SIZE);
    touch(mapped[thread], length(thread));
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    for (long lap = 0; laps == 0 || lap < laps; lap++)
        touch_all(thread);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    if (threads < 1 || threads > MOST)
        return 2;
    laps = atol(argv[1]);
    for (int thread = 0; thread < threads; thread++) {
        /* brk(2) itself, because the source of malloc's memory depends on the library. */
        char *end = sbrk(0);
        heap[thread] = sbrk(-(intptr_t)end & (PAGE - 1)) == (void *)-1 ? NULL : sbrk(SIZE);
        mapped[thread] = mmap(NULL, length(thread), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (heap[thread] == NULL || heap[thread] == (void *)-1 || mapped[thread] == MAP_FAILED)
            return 1;
        touch_all(thread);
    }
    if (argc > 3) {
        char name[4096];
        snprintf(name, sizeof name, "%s.new", argv[3]);
        FILE *file = fopen(name, "w");
        if (!file)
            return 1;
        for (int thread = 0; thread < threads; thread++)
            fprintf(file, "%d zeroed %lx\n%d initialised %lx\n%d heap %lx\n%d mapped %lx\n", thread,
                    (unsigned long)zeroed[thread], thread, (unsigned long)initialised[thread], thread,
                    (unsigned long)heap[thread], thread, (unsigned long)mapped[thread]);
        if (fclose(file) != 0 || rename(name, argv[3]) != 0)
            return 1;
    }
    pthread_t others[MOST];
    for (int thread = 0; thread < threads; thread++)
        if (pthread_create(&others[thread], NULL, work, (void *)(intptr_t)thread) != 0)
            return 1;
    for (int thread = 0; thread < threads; thread++)
        pthread_join(others[thread], NULL);
    return 0;
}
