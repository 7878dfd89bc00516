/*
 * Pointer chasing: walkers move through a linked graph, from each node along a pointer in it.
 *
 * Load on the machine: a step reads one cache line, 64 bytes with six pointers, anywhere in the graph. The next step
 * cannot begin before the line arrives. So there is one miss at a time, and no other work. With `--mode update` each
 * visit is also counted in the node, so the line is written and is dirty in the cache of its last visitor.
 *
 * Effect of placement: a step takes as long as the access to its line. Nodes beyond the caches are in pages that
 * first touch has spread over the threads' nodes. Threads on few nodes, with the pages there, have shorter distances.
 * A graph of the size of the last-level caches depends on the mode: for reading, each cache gets its own copy; in
 * update mode a line is in one cache only, and threads in several packages take it from each other. SMT siblings do
 * not slow each other down. The differences to `random_access --mode dependent` are these writes, and nodes of one
 * line each, where eight entries of that table share a line.
 *
 * Method: node v is at position permute(v) (permutation.h), and its six pointers lead to the nodes v + d modulo n for
 * six distances d. The walkers, the same for any number of threads, use the pointers in turn.
 *
 * Check: each walker must end at the node that is the sum of its distances. In update mode the sum of the visits is
 * the number of steps.
 */
#include "../workload.h"

#include "../permutation.h"

#include <stdatomic.h>

enum mode { READ, UPDATE };
static const char *const modes[] = {[READ] = "read", [UPDATE] = "update", NULL};

#define POINTERS UINT64_C(6)

struct node {
    _Alignas(64) const struct node *next[POINTERS];
    uint64_t number;
    _Atomic uint64_t visits;
};

static const struct workload graph_chase = {
    .name = "graph_chase",
    .summary = "pointer chasing over a graph, bound by latency",
    .size_unit = "bytes",
    .size_meaning = "the nodes, rounded down to a power of two",
    .size = UINT64_C(64) << 20,
    .smallest_size = sizeof(struct node),
    .iterations = 200,
    .modes = modes,
};

#define WALKERS UINT64_C(1024)
/* Of each walker in an iteration; a multiple of POINTERS, so that each iteration begins with the first. */
#define STEPS UINT64_C(252)

static uint64_t distance(uint64_t pointer)
{
    return number_at(1, pointer) | 1;
}

static const struct node *walk(const struct node *node)
{
    for (uint64_t step = 0; step < STEPS; step += POINTERS)
        for (uint64_t pointer = 0; pointer < POINTERS; pointer++)
            node = node->next[pointer];
    return node;
}

static const struct node *walk_and_count(const struct node *node)
{
    for (uint64_t step = 0; step < STEPS; step += POINTERS) {
        for (uint64_t pointer = 0; pointer < POINTERS; pointer++) {
            node = node->next[pointer];
            /* The nodes are ours; only the pointers to them say `const`. */
            atomic_fetch_add_explicit((_Atomic uint64_t *)(uintptr_t)&node->visits, 1, memory_order_relaxed);
        }
    }
    return node;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&graph_chase, argc, argv);
    const unsigned bits = permutation_bits(run.size / sizeof(struct node));
    const uint64_t nodes = UINT64_C(1) << bits;
    const struct permutation place = permutation_make(bits, 0);
    run.size = nodes * sizeof(struct node);
    struct node *graph = workload_allocate(&run, run.size);
    const struct node **walker = workload_allocate(&run, WALKERS * sizeof *walker);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < nodes; i++) {
        graph[i].number = unpermute(&place, i);
        atomic_init(&graph[i].visits, 0);
        for (uint64_t pointer = 0; pointer < POINTERS; pointer++)
            graph[i].next[pointer] = &graph[permute(&place, graph[i].number + distance(pointer))];
    }
    for (uint64_t w = 0; w < WALKERS; w++)
        walker[w] = &graph[permute(&place, number_at(2, w))];

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t w = 0; w < WALKERS; w++)
            walker[w] = run.mode == UPDATE ? walk_and_count(walker[w]) : walk(walker[w]);
    }

    if (run.mode == UPDATE) {
        graph[nodes / 2].visits ^= run.corrupt;
        uint64_t visits = 0;
#pragma omp parallel for schedule(static) reduction(+ : visits)
        for (uint64_t i = 0; i < nodes; i++)
            visits += graph[i].visits;
        if (visits != WALKERS * STEPS * run.iterations)
            workload_wrong(&run, "the nodes count %" PRIu64 " visits and must count %" PRIu64, visits,
                           WALKERS * STEPS * run.iterations);
    }
    uint64_t way = 0, sum = 0;
    for (uint64_t pointer = 0; pointer < POINTERS; pointer++)
        way += STEPS / POINTERS * run.iterations * distance(pointer);
    for (uint64_t w = 0; w < WALKERS; w++) {
        const uint64_t end = walker[w]->number ^ (w == 0 ? run.corrupt : 0);
        const uint64_t expected = (number_at(2, w) + way) & place.mask;
        if (end != expected)
            workload_wrong(&run, "walker %" PRIu64 " is at node %" PRIu64 " and must be at node %" PRIu64, w, end,
                           expected);
        sum += end * (2 * w + 1);
    }
    workload_report(&run, 1e-6 * (double)(WALKERS * STEPS) * (double)run.iterations, "million steps", sum);
    free(graph);
    free(walker);
    return EXIT_SUCCESS;
}
