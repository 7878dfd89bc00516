/*
 * Breadth-first search, level by level, through a graph whose vertices have 16 neighbours each, at random positions.
 *
 * Load on the machine: for each vertex of the frontier, its list of neighbours is read, one line, and then the level
 * of each of them. The levels are anywhere in memory, and another thread may just have written them. An unset level
 * is claimed with an atomic operation. There is a barrier between levels. The first levels have few vertices and keep
 * few threads busy; the last but one has most vertices.
 *
 * Effect of placement: only latency matters, to memory or to other caches, as in `random_access`, but many of the
 * lines are dirty. Threads on one last-level cache share the levels, 4 bytes per vertex, even when the lists are much
 * larger than the cache. Threads on several packages transfer them between packages. The frontier is distributed
 * dynamically, so first touch does not show which thread will read a list, and interleaved pages are as good as any.
 *
 * Method: the neighbours of a vertex are the images of eight permutations (permutation.h) and of their inverses. So
 * the graph is undirected and looks random: the number of levels grows with the logarithm of its size. Each iteration
 * searches from another root.
 *
 * Limit: real graphs often have a few vertices with very many neighbours; this one has none.
 *
 * Check: levels are correct if and only if only the root has level 0, no edge spans more than one level or leads from
 * a reached vertex to an unreached one, and each other reached vertex has a neighbour one level below.
 */
#include "../workload.h"

#include "../permutation.h"

#include <stdatomic.h>

#define PERMUTATIONS 8
#define DEGREE (2 * PERMUTATIONS)
#define UNREACHED UINT32_MAX

struct vertex {
    uint32_t neighbour[DEGREE];
};

/* A vertex, its level, and its places in the two frontiers. */
#define VERTEX_BYTES (sizeof(struct vertex) + 3 * sizeof(uint32_t))

static const struct workload bfs = {
    .name = "bfs",
    .summary = "breadth-first search, bound by latency and by levels that all threads write",
    .size_unit = "bytes",
    .size_meaning = "the graph, the levels and the frontiers, rounded down to 76 times a power of two",
    .size = UINT64_C(40) << 20,
    .smallest_size = VERTEX_BYTES,
    .iterations = 100,
};

/* Vertices that a thread collects before it appends them to the next frontier. */
#define COLLECTED 64

struct frontier {
    uint32_t *vertex;
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t length;
};

static void append(struct frontier *frontier, const uint32_t *vertices, uint64_t count)
{
    const uint64_t first = atomic_fetch_add_explicit(&frontier->length, count, memory_order_relaxed);
    memcpy(frontier->vertex + first, vertices, count * sizeof *vertices);
}

/* Sets a level that is not set yet; returns whether this was the thread that did. */
static bool claim(_Atomic uint32_t *level, uint32_t depth)
{
    uint32_t unreached = UNREACHED;
    return atomic_load_explicit(level, memory_order_relaxed) == UNREACHED &&
           atomic_compare_exchange_strong_explicit(level, &unreached, depth, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Writes each vertex's level. All threads of the team call it. */
static void search(const struct vertex *graph, _Atomic uint32_t *level, struct frontier *frontiers, uint64_t vertices,
                   uint32_t root)
{
#pragma omp for schedule(static)
    for (uint64_t v = 0; v < vertices; v++)
        atomic_store_explicit(&level[v], UNREACHED, memory_order_relaxed);
#pragma omp single
    {
        level[root] = 0;
        frontiers[0].vertex[0] = root;
        frontiers[0].length = 1;
        frontiers[1].length = 0;
    }
    uint64_t length = 1;
    for (uint32_t depth = 1; length > 0; depth++) {
        const struct frontier *from = &frontiers[(depth + 1) % 2];
        struct frontier *to = &frontiers[depth % 2];
        uint32_t collected[COLLECTED];
        uint64_t count = 0;
#pragma omp for schedule(dynamic, 64) nowait
        for (uint64_t i = 0; i < length; i++) {
            const struct vertex *vertex = &graph[from->vertex[i]];
            for (int n = 0; n < DEGREE; n++) {
                const uint32_t neighbour = vertex->neighbour[n];
                if (!claim(&level[neighbour], depth))
                    continue;
                collected[count++] = neighbour;
                if (count == COLLECTED) {
                    append(to, collected, count);
                    count = 0;
                }
            }
        }
        append(to, collected, count);
#pragma omp barrier
        length = to->length;
#pragma omp single
        frontiers[(depth + 1) % 2].length = 0; /* the frontier just done is the next to be filled */
    }
}

/* Whether the level of `v` is one that its neighbours allow. */
static bool level_is_right(const struct vertex *graph, const _Atomic uint32_t *level, uint64_t v, uint32_t root)
{
    const uint32_t own = level[v];
    bool below = false; /* some neighbour is one level below */
    for (int n = 0; n < DEGREE; n++) {
        const uint32_t other = level[graph[v].neighbour[n]];
        if ((own == UNREACHED) != (other == UNREACHED) || (own != UNREACHED && (other > own + 1 || own > other + 1)))
            return false;
        below |= own != UNREACHED && other + 1 == own;
    }
    return v == root ? own == 0 : own != 0 && (own == UNREACHED || below);
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&bfs, argc, argv);
    const unsigned bits = permutation_bits(run.size / VERTEX_BYTES);
    if (bits >= 32)
        workload_usage_error(&bfs, "--size %" PRIu64 ": vertex numbers have 32 bits, so it must be below %" PRIu64,
                             run.size, VERTEX_BYTES << 32);
    const uint64_t vertices = UINT64_C(1) << bits;
    run.size = vertices * VERTEX_BYTES;
    struct vertex *graph = workload_allocate(&run, vertices * sizeof *graph);
    _Atomic uint32_t *level = workload_allocate(&run, vertices * sizeof *level);
    struct frontier *frontiers = workload_allocate(&run, 2 * sizeof *frontiers);
    for (int i = 0; i < 2; i++)
        frontiers[i].vertex = workload_allocate(&run, vertices * sizeof *frontiers[i].vertex);

    struct permutation permutations[PERMUTATIONS];
    for (int p = 0; p < PERMUTATIONS; p++)
        permutations[p] = permutation_make(bits, (uint64_t)p);
#pragma omp parallel for schedule(static)
    for (uint64_t v = 0; v < vertices; v++) {
        for (int p = 0; p < PERMUTATIONS; p++) {
            graph[v].neighbour[2 * p] = (uint32_t)permute(&permutations[p], v);
            graph[v].neighbour[2 * p + 1] = (uint32_t)unpermute(&permutations[p], v);
        }
        atomic_init(&level[v], 0);
        frontiers[0].vertex[v] = frontiers[1].vertex[v] = 0;
    }

    uint32_t root = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        root = (uint32_t)(number_at(PERMUTATIONS, run.iterations) % vertices);
#pragma omp parallel
        search(graph, level, frontiers, vertices, root);
    }

    level[root] ^= (uint32_t)run.corrupt;
    uint64_t first_wrong = vertices, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t v = 0; v < vertices; v++) {
        if (!level_is_right(graph, level, v, root) && v < first_wrong)
            first_wrong = v;
        sum += (level[v] + UINT64_C(1)) * (2 * v + 1);
    }
    if (first_wrong < vertices)
        workload_wrong(&run, "vertex %" PRIu64 " cannot have level %" PRIu32 " if its neighbours have theirs",
                       first_wrong, level[first_wrong]);
    workload_report(&run, 1e-6 * DEGREE * (double)vertices * (double)run.iterations, "million edges", sum);
    for (int i = 0; i < 2; i++)
        free(frontiers[i].vertex);
    free(frontiers);
    free(graph);
    free(level);
    return EXIT_SUCCESS;
}
