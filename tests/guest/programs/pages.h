/* The nodes of pages, as the kernel reports them. */
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, NODES = 8, LOOKED_AT = 16 };

static char *memory;
static long pages;

/* Maps and touches small pages, all on one node. */
static inline void map_pages_on(long mebibytes, unsigned node)
{
    pages = (mebibytes << 20) / PAGE;
    memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    madvise(memory, (size_t)pages * PAGE, MADV_NOHUGEPAGE);
    unsigned long nodes = 1UL << node;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 8 * sizeof nodes) != 0)
        exit(1);
    for (long page = 0; page < pages; page++)
        memory[page * PAGE] = 1;
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0) != 0)
        exit(1);
}

/* The same on the node on which the thread runs at the start: it may be moved meanwhile. */
static inline void map_pages(long mebibytes)
{
    unsigned node;
    if (syscall(SYS_getcpu, NULL, &node, NULL) != 0)
        exit(1);
    map_pages_on(mebibytes, node);
}

/* Counts `number` pages, evenly distributed over the memory, by their nodes. */
static inline void count_pages(long number, long *nodes)
{
    void **addresses = calloc((size_t)number, sizeof *addresses);
    int *status = calloc((size_t)number, sizeof *status);
    for (long page = 0; page < number; page++)
        addresses[page] = memory + page * (pages / number) * PAGE + (page % NODES) * (pages > number) * PAGE;
    memset(nodes, 0, NODES * sizeof *nodes);
    if (syscall(SYS_move_pages, 0, number, addresses, NULL, status, 0) != 0)
        exit(1);
    for (long page = 0; page < number; page++)
        if (status[page] >= 0 && status[page] < NODES)
            nodes[status[page]]++;
    free(addresses);
    free(status);
}

/* Whether the pages are on several nodes. */
static inline int is_spread(void)
{
    long nodes[NODES];
    int used = 0;
    count_pages(LOOKED_AT, nodes);
    for (int node = 0; node < NODES; node++)
        used += nodes[node] > 0;
    return used > 1;
}
