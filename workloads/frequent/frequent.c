/*
 * Mining of frequent pairs of items in a prefix tree: each node of the tree is an item after those on its way to the
 * root, and counts the purchases that begin so. For each node, its count is added to the pairs of its item with all
 * items on the way. The nodes are in chains, which are divided into equal blocks among the threads.
 *
 * Load on the machine: a thread follows its chains from node to node, and from each the pointers towards the root.
 * Nodes are anywhere in memory, a line of 64 bytes each, so most nodes far from the root are misses, one at a time;
 * those near the root are shared by all ways and stay in the caches. The tree is only read. Each thread counts in a
 * table of its own, of 8 KiB.
 *
 * Effect of placement: a step takes as long as the access to its node. A tree of the size of a last-level cache is
 * copied to each cache that is used. A larger one has its pages on all nodes of the machine (first touch places the
 * pages); threads on few nodes, with the pages there, have shorter distances.
 *
 * Method: the tree has all sets of items. The number of a node has a bit for each item of its set. The highest bit is
 * its own item; its parent is the node without this bit. Node v is at position permute(v) (permutation.h).
 *
 * Check: the count of each pair, from the numbers of the nodes alone, times the number of iterations.
 */
#include "../workload.h"

#include "../permutation.h"

/* More items than any tree that fits a memory has. */
#define ITEMS 32

/* The chains, the same for any number of threads; a multiple of many numbers of cores. */
#define CHAINS UINT64_C(1536)

struct node {
    _Alignas(64) const struct node *parent; /* NULL: the root */
    const struct node *next;                /* in its chain */
    uint64_t count;
    uint64_t item;
};

static const struct workload frequent = {
    .name = "frequent",
    .summary = "mining of frequent pairs of items in a shared prefix tree, bound by latency",
    .size_unit = "bytes",
    .size_meaning = "the nodes, rounded down to a power of two",
    .size = UINT64_C(32) << 20,
    .smallest_size = 4 * sizeof(struct node),
    .iterations = 50,
};

/* The purchases that begin with this set. */
static uint64_t count_of(uint64_t set)
{
    return number_at(1, set) % 1000;
}

/* Adds what the nodes of a chain count for pairs. */
static void mine(const struct node *node, uint64_t *pairs)
{
    for (; node; node = node->next) {
        const uint64_t count = node->count;
        uint64_t *with_item = pairs + node->item * ITEMS;
        for (const struct node *before = node->parent; before && before->parent; before = before->parent)
            with_item[before->item] += count;
    }
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&frequent, argc, argv);
    const unsigned items = permutation_bits(run.size / sizeof(struct node));
    if (items > ITEMS)
        workload_usage_error(&frequent, "--size %" PRIu64 ": there are at most %d items", run.size, ITEMS);
    const uint64_t nodes = UINT64_C(1) << items, chains = nodes < CHAINS ? nodes : CHAINS;
    const struct permutation place = permutation_make(items, 0);
    run.size = nodes * sizeof(struct node);
    struct node *tree = workload_allocate(&run, run.size);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < nodes; i++) {
        const uint64_t set = unpermute(&place, i);
        const unsigned item = set > 0 ? permutation_bits(set) : 0;
        tree[i] = (struct node){
            .parent = set > 0 ? &tree[permute(&place, set ^ UINT64_C(1) << item)] : NULL,
            .next = set + chains < nodes ? &tree[permute(&place, set + chains)] : NULL,
            .count = count_of(set),
            .item = item,
        };
    }

    uint64_t pairs[ITEMS * ITEMS] = {0};
    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel for schedule(static) reduction(+ : pairs)
        for (uint64_t chain = 0; chain < chains; chain++)
            mine(&tree[permute(&place, chain)], pairs);
    }

    pairs[(items - 1) * ITEMS] ^= run.corrupt;
    uint64_t expected[ITEMS * ITEMS] = {0};
#pragma omp parallel for schedule(static) reduction(+ : expected)
    for (uint64_t set = 1; set < nodes; set++) {
        const unsigned item = permutation_bits(set);
        for (unsigned other = 0; other < item; other++)
            expected[item * ITEMS + other] += set >> other & 1 ? count_of(set) : 0;
    }
    uint64_t sum = 0;
    for (uint64_t pair = 0; pair < ITEMS * ITEMS; pair++) {
        if (pairs[pair] != expected[pair] * run.iterations)
            workload_wrong(&run, "items %" PRIu64 " and %" PRIu64 " come %" PRIu64 " times and must come %" PRIu64,
                           pair / ITEMS, pair % ITEMS, pairs[pair], expected[pair] * run.iterations);
        sum += pairs[pair] * (2 * pair + 1);
    }
    workload_report(&run, 1e-6 * (double)nodes * (double)run.iterations, "million nodes", sum);
    free(tree);
    return EXIT_SUCCESS;
}
