/*
 * Two parallel regions that alternate and want different configurations, for tests of `--policy react` (the cases of
 * Sánchez Barrera et al., ICS 2020, section 6).
 *
 *   threads    The first region reads a large array, each thread its own block: it is faster on more nodes. In the second one
 *              all threads add to a few shared counters: it is faster on few threads of one node.
 *   conflict   Both regions read the same pages. In the first one each thread reads its own block. In the second one a
 *              thread reads a page of each block in turn, so that no placement is local to both.
 *
 * Usage: two_regions threads|conflict [ITERATIONS] [KIBIBYTES]
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64
#define PAGE 4096
#define COUNTERS 4

static unsigned char *data;
static size_t bytes;
static struct {
    _Alignas(LINE) volatile uint64_t count;
} counters[COUNTERS];

/* Each thread reads a byte of each line of its own block. */
__attribute__((noinline)) static uint64_t by_blocks(void)
{
    uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (size_t i = 0; i < bytes; i += LINE)
        sum += data[i];
    return sum;
}

/* The pages go to the threads in turn. */
__attribute__((noinline)) static uint64_t by_pages(void)
{
    uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static, 1)
    for (size_t page = 0; page < bytes; page += PAGE)
        for (size_t i = page; i < page + PAGE; i += LINE)
            sum += data[i];
    return sum;
}

/* All threads add to shared counters. */
__attribute__((noinline)) static void contended(size_t additions)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < additions; i++)
        __atomic_fetch_add(&counters[i % COUNTERS].count, 1, __ATOMIC_RELAXED);
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "threads";
    const int iterations = count > 2 ? atoi(arguments[2]) : 4;
    const int shares_counters = strcmp(mode, "threads") == 0;
    bytes = (count > 3 ? strtoul(arguments[3], NULL, 10) : 4096) * 1024 / PAGE * PAGE;
    if (!shares_counters && strcmp(mode, "conflict") != 0) {
        fprintf(stderr, "usage: two_regions threads|conflict [ITERATIONS] [KIBIBYTES]\n");
        return 2;
    }
    data = aligned_alloc(PAGE, bytes);
    if (data == NULL)
        return 1;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < bytes; i += LINE)
        data[i] = 1;
    const size_t additions = bytes / 1024;
    int wrong = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        wrong |= by_blocks() != bytes / LINE;
        if (shares_counters)
            contended(additions);
        else
            wrong |= by_pages() != bytes / LINE;
    }
    uint64_t total = 0;
    for (int i = 0; i < COUNTERS; i++)
        total += counters[i].count;
    wrong |= shares_counters && total != additions * (uint64_t)iterations;
    printf("%s\n", wrong ? "wrong" : "right");
    free(data);
    return wrong;
}
