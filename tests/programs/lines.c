/*
 * lines MIB: the main thread writes an array of MIB MiB, and then all threads of OpenMP read one number of each cache
 * line, each in a part of its own, three times. So all pages are on the node of the main thread, and its memory carries
 * everything.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, TIMES = 3 };

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const size_t bytes = (size_t)atol(argv[1]) << 20;
    char *memory = aligned_alloc(4096, bytes);
    if (!memory)
        return 1;
    memset(memory, 1, bytes);
    uint64_t sum = 0;
    for (int time = 0; time < TIMES; time++) {
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (size_t at = 0; at < bytes; at += LINE)
            sum += *(volatile uint64_t *)(memory + at);
    }
    printf("%016llx\n", (unsigned long long)sum);
    free(memory);
    return sum == 0;
}
