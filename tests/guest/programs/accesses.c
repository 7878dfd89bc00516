/*
 * accesses FILE PAGES THREADS [read]: THREADS threads besides the first one write their own PAGES pages repeatedly,
 * or with `read` only read them after the first write. In each eight rounds over its memory a thread accesses page n
 * in 1, 2, 4 or 8 rounds, evenly spread: 2 to the power of n modulo 4. After each eight rounds it checks its memory,
 * and lets the kernel write to a page of it and read from it.
 *
 * FILE has a line with the process's number as soon as all memory exists, and one for each thread with its number and
 * the address of its memory. At SIGUSR1 the program writes FILE.report: a line `laps` with the number of eight rounds
 * that the slowest thread has done, a line `failures` with the number of errors, and a line for each node with its
 * number and the accesses of eight rounds to pages on it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 8, NODES = 64, MOST = 64, PAUSE = 4000 };

static long pages;
static int threads, zeros, only_read;
static char *memory[MOST];
static int numbers[MOST];
static atomic_long laps[MOST], failures;
static pthread_barrier_t all_here;

static int weight(long page)
{
    return 1 << page % 4;
}

static volatile long *counter(int thread, long page)
{
    return (volatile long *)(memory[thread] + page * PAGE);
}

/* The kernel reads and writes the page after the others. */
static void call(int thread)
{
    char *page = memory[thread] + pages * PAGE;
    int ends[2];
    memset(page, 1, PAGE);
    if (read(zeros, page, PAGE) != PAGE || page[0] != 0 || page[PAGE - 1] != 0)
        failures++;
    if (pipe(ends) != 0 || write(ends[1], page, PAGE) != PAGE || read(ends[0], page, PAGE) != PAGE)
        failures++;
    close(ends[0]);
    close(ends[1]);
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    numbers[thread] = gettid();
    size_t size = (size_t)(pages + 1) * PAGE;
    /* The memory is a separate area: its surroundings are not accessible. */
    char *around = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[thread] = mmap(around + PAGE, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (around == MAP_FAILED || memory[thread] == MAP_FAILED)
        exit(1);
    madvise(memory[thread], size, MADV_NOHUGEPAGE);
    memset(memory[thread], 0, size);
    pthread_barrier_wait(&all_here);
    for (long lap = 1;; lap++) {
        for (int round = 0; round < ROUNDS; round++)
            for (long page = 0; page < pages; page++)
                if (round % (ROUNDS / weight(page)) == 0) {
                    if (only_read)
                        (void)*counter(thread, page);
                    else
                        ++*counter(thread, page);
                    /* In a register: otherwise the stack would be the most accessed page. */
                    for (int pause = 0; pause < PAUSE; pause++)
                        __asm__ volatile("");
                }
        for (long page = 0; page < pages; page++)
            if (*counter(thread, page) != (only_read ? 0 : lap * weight(page)))
                failures++;
        call(thread);
        laps[thread] = lap;
    }
}

/* Adds the writes to a thread's pages to the pages' nodes. */
static void add_nodes(int thread, long *accesses)
{
    void **addresses = calloc((size_t)pages, sizeof *addresses);
    int *status = calloc((size_t)pages, sizeof *status);
    for (long page = 0; page < pages; page++)
        addresses[page] = (void *)counter(thread, page);
    if (syscall(SYS_move_pages, 0, pages, addresses, NULL, status, 0) != 0)
        exit(1);
    for (long page = 0; page < pages; page++)
        if (status[page] >= 0 && status[page] < NODES)
            accesses[status[page]] += weight(page);
    free(addresses);
    free(status);
}

/* A file gets its name when it is complete. */
static FILE *begin(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.new", path);
    FILE *file = fopen(name, "w");
    if (!file)
        exit(1);
    return file;
}

static void finish(FILE *file, const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.new", path);
    if (fclose(file) != 0 || rename(name, path) != 0)
        exit(1);
}

static void report(const char *path)
{
    long accesses[NODES] = { 0 }, least = laps[0];
    for (int thread = 0; thread < threads; thread++) {
        add_nodes(thread, accesses);
        least = laps[thread] < least ? laps[thread] : least;
    }
    FILE *file = begin(path);
    fprintf(file, "laps %ld\nfailures %ld\n", least, (long)failures);
    for (int node = 0; node < NODES; node++)
        if (accesses[node] > 0)
            fprintf(file, "%d %ld\n", node, accesses[node]);
    finish(file, path);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    only_read = argc > 4 && strcmp(argv[4], "read") == 0;
    pages = atol(argv[2]);
    threads = atoi(argv[3]);
    zeros = open("/dev/zero", O_RDONLY);
    if (pages < 1 || threads < 1 || threads > MOST || zeros < 0)
        return 2;
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    pthread_barrier_init(&all_here, NULL, (unsigned)threads + 1);
    for (int thread = 0; thread < threads; thread++) {
        pthread_t other;
        if (pthread_create(&other, NULL, work, (void *)(intptr_t)thread) != 0)
            return 1;
    }
    pthread_barrier_wait(&all_here);
    FILE *file = begin(argv[1]);
    fprintf(file, "%d\n", getpid());
    for (int thread = 0; thread < threads; thread++)
        fprintf(file, "%d %lx\n", numbers[thread], (unsigned long)memory[thread]);
    finish(file, argv[1]);
    char name[4096];
    snprintf(name, sizeof name, "%s.report", argv[1]);
    for (int signal; sigwait(&wanted, &signal) == 0;)
        report(name);
    return 1;
}
