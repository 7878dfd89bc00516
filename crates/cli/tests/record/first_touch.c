/*
 * Who touches pages first, before a region uses them. The first thread fills `serial`; both threads fill a half of
 * `parallel`; the kernel fills `file` for the first thread; `again` is discarded and filled by the second thread; `moved`
 * grows, for which it must move: there is no room between the arrays. In the last region the threads exchange the halves of all of them.
 *
 * Usage: first_touch. Prints the addresses of the arrays.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, HALF = 32 * PAGE, BYTES = 2 * HALF };

static char *map(void)
{
    return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void fill(char *from, int bytes)
{
    for (int i = 0; i < bytes; i += 64)
        from[i] = 1;
}

int main(void)
{
    char *serial = map(), *parallel = map(), *file = map(), *again = map(), *moved = map();
    fill(serial, BYTES);
    fill(again, BYTES);
    fill(moved, BYTES);
    madvise(again, BYTES, MADV_DONTNEED);
#pragma omp parallel num_threads(2)
    {
        int self = omp_get_thread_num();
        fill(parallel + self * HALF, HALF);
        if (self == 1)
            fill(again, BYTES);
    }
    int zero = open("/dev/zero", O_RDONLY);
    if (read(zero, file, BYTES) != BYTES)
        return 1;
    moved = mremap(moved, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    char *arrays[] = {serial, parallel, file, again, moved};
    printf("%lx %lx %lx %lx %lx\n", (long)serial, (long)parallel, (long)file, (long)again, (long)moved);
    fflush(stdout);
#pragma omp parallel num_threads(2)
    {
        int other = 1 - omp_get_thread_num();
        for (int i = 0; i < 5; i++)
            fill(arrays[i] + other * HALF, HALF);
    }
    return 0;
}
