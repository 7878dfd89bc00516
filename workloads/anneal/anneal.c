/*
 * Simulated annealing of a chip's layout: elements of a netlist are at places of a grid, and pairs of them, drawn at
 * random, swap their places if the wires become shorter, or not much longer. How much longer becomes less with each
 * iteration. The pairs are divided into equal blocks among the threads.
 *
 * Load on the machine: for each element of a pair its six neighbours in the netlist are read, and the place of each.
 * These are anywhere, and so are the elements of the pair. So there are some seven misses for an element, several of
 * them at once, and few operations. The new places are written, anywhere too, where all threads read them in the next
 * iteration.
 *
 * Effect of placement: an iteration takes as long as its misses. A netlist that fits a last-level cache is read from
 * there if all threads are at one; from other caches, in part, if they are not, as other threads have written the
 * places. A larger netlist has its pages on all nodes (first touch places the pages), so threads on few nodes have
 * shorter distances, and threads on all nodes more memory controllers.
 *
 * Method: in an iteration each element is in exactly one pair, by another permutation (permutation.h) in each
 * iteration. All pairs decide by the places from before the iteration, and write to another array. So the result does
 * not depend on the threads.
 *
 * Check: each place must have one element. The last iteration's decisions are made again, from the lengths of all wires
 * of a pair before and after the swap, by neighbours that are computed and not read.
 */
#include "../workload.h"

#include "../permutation.h"

#define WIRES UINT64_C(6)

/* An element's neighbours, and its place before and after an iteration. */
#define ELEMENT_BYTES (WIRES * sizeof(uint32_t) + 2 * sizeof(struct place))

/* In the first iterations a swap may make wires longer by this part of the side of the grid, and after each COOLING
 * iterations by half of it. */
#define WARMTH 4
#define COOLING 4

struct place {
    int32_t x, y;
};

static const struct workload anneal = {
    .name = "anneal",
    .summary = "random swaps of a netlist's elements, bound by the latency of scattered reads",
    .size_unit = "bytes",
    .size_meaning = "the netlist, whose number of elements is rounded down to a power of two, and both sets of places",
    .size = UINT64_C(40) << 20,
    .smallest_size = 2 * ELEMENT_BYTES,
    .iterations = 50,
};

/* The neighbour of an element along a wire: mostly anywhere, else among the next elements. */
static uint32_t neighbour_of(uint64_t element, uint64_t wire, uint64_t mask)
{
    const uint64_t number = number_at(wire, element);
    return (uint32_t)((wire < 2 ? element + 1 + number % 64 : number) & mask);
}

/* The length of a wire between two places, along the grid's axes. */
static inline int64_t length(struct place a, struct place b)
{
    return labs((long)a.x - b.x) + labs((long)a.y - b.y);
}

/* By how much a swap may make wires longer. */
static int64_t allowed_in(uint64_t iteration, uint64_t side)
{
    const uint64_t halvings = (iteration - 1) / COOLING;
    return halvings < 32 ? (int64_t)(side / WARMTH >> halvings) : 0;
}

/* By how much the wires of an element become longer if it goes to a place, with all others where they are. */
static inline int64_t longer(const struct place *place, const uint32_t *neighbours, struct place from, struct place to)
{
    int64_t sum = 0;
    for (uint64_t wire = 0; wire < WIRES; wire++) {
        const struct place other = place[neighbours[wire]];
        sum += length(to, other) - length(from, other);
    }
    return sum;
}

/* The length of all wires of an element at a place. */
static int64_t total_length(const struct place *place, uint64_t element, struct place at, uint64_t mask)
{
    int64_t sum = 0;
    for (uint64_t wire = 0; wire < WIRES; wire++)
        sum += length(at, place[neighbour_of(element, wire, mask)]);
    return sum;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&anneal, argc, argv);
    const unsigned bits = permutation_bits(run.size / ELEMENT_BYTES);
    if (bits > 30)
        workload_usage_error(&anneal, "--size %" PRIu64 ": numbers of elements have 32 bits, so choose a smaller one",
                             run.size);
    const uint64_t elements = UINT64_C(1) << bits, mask = elements - 1, side = UINT64_C(1) << (bits + 1) / 2;
    run.size = elements * ELEMENT_BYTES;
    uint32_t *neighbours = workload_allocate(&run, elements * WIRES * sizeof *neighbours);
    struct place *before = workload_allocate(&run, elements * sizeof *before);
    struct place *after = workload_allocate(&run, elements * sizeof *after);

#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < elements; i++) {
        for (uint64_t wire = 0; wire < WIRES; wire++)
            neighbours[i * WIRES + wire] = neighbour_of(i, wire, mask);
        before[i] = after[i] = (struct place){(int32_t)(i % side), (int32_t)(i / side)};
    }

    workload_start(&run);
    while (workload_next(&run)) {
        const struct permutation order = permutation_make(bits, run.iterations);
        const int64_t allowed = allowed_in(run.iterations, side);
#pragma omp parallel for schedule(static)
        for (uint64_t pair = 0; pair < elements / 2; pair++) {
            const uint64_t a = permute(&order, 2 * pair), b = permute(&order, 2 * pair + 1);
            const struct place at_a = before[a], at_b = before[b];
            const bool swap = longer(before, neighbours + a * WIRES, at_a, at_b) +
                                  longer(before, neighbours + b * WIRES, at_b, at_a) <=
                              allowed;
            after[a] = swap ? at_b : at_a;
            after[b] = swap ? at_a : at_b;
        }
        struct place *swapped = before;
        before = after;
        after = swapped;
    }

    /* The last iteration's places before it are in `after` now. */
    before[elements / 2].x ^= (int32_t)run.corrupt;
    const struct permutation order = permutation_make(bits, run.iterations);
    uint64_t first_wrong = elements, sum = 0;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : sum)
    for (uint64_t i = 0; i < elements; i++) {
        const uint64_t partner = permute(&order, unpermute(&order, i) ^ 1);
        const struct place own = after[i], other = after[partner];
        const int64_t kept = total_length(after, i, own, mask) + total_length(after, partner, other, mask);
        const int64_t swapped = total_length(after, i, other, mask) + total_length(after, partner, own, mask);
        const struct place expected = swapped - kept <= allowed_in(run.iterations, side) ? other : own;
        if ((before[i].x != expected.x || before[i].y != expected.y) && i < first_wrong)
            first_wrong = i;
        sum += ((uint64_t)before[i].y * side + (uint64_t)before[i].x) * (2 * i + 1);
    }
    if (first_wrong < elements)
        workload_wrong(&run, "element %" PRIu64 " is at (%" PRId32 ", %" PRId32 ")", first_wrong, before[first_wrong].x,
                       before[first_wrong].y);
    bool *taken = workload_allocate(&run, elements * sizeof *taken);
    memset(taken, 0, elements * sizeof *taken);
    for (uint64_t i = 0; i < elements; i++) {
        const uint64_t at = (uint64_t)before[i].y * side + (uint64_t)before[i].x;
        if (at >= elements || taken[at])
            workload_wrong(&run, "element %" PRIu64 " is not alone at its place", i);
        taken[at] = true;
    }
    workload_report(&run, 1e-6 * (double)elements * (double)run.iterations, "million elements", sum);
    free(neighbours);
    free(before);
    free(after);
    free(taken);
    return EXIT_SUCCESS;
}
