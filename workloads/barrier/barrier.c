/*
 * Barriers in a tight loop: between two of them each thread reads one number of its neighbour and writes one of its
 * own.
 *
 * Load on the machine: the cache lines of the barrier and of the numbers move between the cores all the time. There
 * is no other load; the memory is idle.
 *
 * Effect of placement: large. A barrier takes as long as a few transfers between the cores that are farthest apart.
 * So threads should be as close together as possible: on one last-level cache, even on SMT siblings. This is the
 * opposite of the triad. Two threads on one PU are very slow, because the barrier then waits for the scheduler. A
 * spinning thread retires many instructions, so retired instructions do not show the progress of this program;
 * barriers and ended regions do.
 *
 * Check: the numbers start as 0, 1, 2 ... and each step takes the neighbour's number and adds one, so they turn
 * around the ring. After n steps the number of thread t is (t + n) mod T + n. A single step out of order changes a
 * number.
 */
#include "../workload.h"

static const struct workload barrier = {
    .name = "barrier",
    .summary = "barriers in a tight loop, bound by the route between cores",
    .size_unit = "barriers",
    .size_meaning = "barriers in an iteration",
    .size = 1000,
    .smallest_size = 1,
    .iterations = 1000,
};

/* A thread's number after the even and after the odd steps, on a line of its own. */
struct slot {
    _Alignas(WORKLOAD_LINE) uint64_t number[2];
};

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&barrier, argc, argv);
    const uint64_t threads = (uint64_t)run.threads;
    struct slot *slots = workload_allocate(&run, threads * sizeof *slots);
    for (uint64_t thread = 0; thread < threads; thread++)
        slots[thread].number[0] = thread;

    workload_start(&run);
    while (workload_next(&run)) {
        const uint64_t first = (run.iterations - 1) * run.size, last = run.iterations * run.size;
#pragma omp parallel
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num();
            struct slot *mine = &slots[thread];
            const struct slot *neighbour = &slots[(thread + 1) % threads];
            for (uint64_t step = first; step < last; step++) {
                mine->number[(step + 1) % 2] = neighbour->number[step % 2] + 1;
#pragma omp barrier
            }
        }
    }

    const uint64_t steps = run.iterations * run.size;
    slots[threads / 2].number[steps % 2] ^= run.corrupt;
    uint64_t sum = 0;
    for (uint64_t thread = 0; thread < threads; thread++) {
        const uint64_t number = slots[thread].number[steps % 2], expected = (thread + steps) % threads + steps;
        if (number != expected)
            workload_wrong(&run, "the number of thread %" PRIu64 " is %" PRIu64 " and must be %" PRIu64, thread, number,
                           expected);
        sum += number;
    }
    workload_report(&run, 1e-6 * (double)steps, "million barriers", sum);
    free(slots);
    return EXIT_SUCCESS;
}
