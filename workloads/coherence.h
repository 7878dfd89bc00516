/*
 * Two threads that share data under a lock: the microbenchmark of SAM (Srikanthan, Dwarkadas and Shen, USENIX ATC
 * 2015, section 2.1). HuBench and LuBench are two settings of it.
 *
 * Threads 2k and 2k + 1 are a pair. In a loop, each takes the pair's lock, changes the pair's data, releases the lock,
 * and computes for a while in registers. The length of the computation sets the rate of coherence events. Lock and
 * data are on separate lines, and so are the locks and data of different pairs: nothing is falsely shared. The lock is
 * a ticket lock, which passes to the waiting thread: two threads that want it take turns, and each turn moves both
 * lines.
 */
#ifndef WORKLOAD_COHERENCE_H
#define WORKLOAD_COHERENCE_H

#include "workload.h"

#include "chain.h"
#include "spin.h"

#include <stdatomic.h>

struct coherence_pair {
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t next_ticket;
    _Atomic uint64_t served;
    _Alignas(WORKLOAD_LINE) uint64_t accesses;
    uint64_t sum;
};

/* One access to what a pair shares: adds `value`. */
static inline void coherence_access(struct coherence_pair *pair, uint64_t value)
{
    const uint64_t ticket = atomic_fetch_add_explicit(&pair->next_ticket, 1, memory_order_relaxed);
    unsigned looks = 0;
    while (atomic_load_explicit(&pair->served, memory_order_acquire) != ticket)
        spin_pause(&looks);
    pair->accesses++;
    pair->sum += value;
    atomic_store_explicit(&pair->served, ticket + 1, memory_order_release);
}

/*
 * The whole run: in each iteration `accesses` accesses of all threads together, with `steps` steps of a chain (chain.h)
 * before each. Checks the sum of what was added to all pairs' data, and reports.
 */
static inline void coherence_run(struct workload_run *run, uint64_t accesses, uint64_t steps)
{
    const uint64_t pairs = ((uint64_t)run->threads + 1) / 2;
    struct coherence_pair *pair = workload_allocate(run, pairs * sizeof *pair);
    for (uint64_t i = 0; i < pairs; i++)
        pair[i] = (struct coherence_pair){0};

    workload_start(run);
    while (workload_next(run)) {
#pragma omp parallel for schedule(static)
        for (uint64_t i = 0; i < accesses; i++)
            coherence_access(&pair[omp_get_thread_num() / 2], chain_run(i, steps));
    }

    pair[pairs / 2].sum ^= run->corrupt;
    uint64_t count = 0, sum = 0, expected = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        count += pair[i].accesses;
        sum += pair[i].sum;
    }
    for (uint64_t i = 0; i < accesses; i++)
        expected += run->iterations * chain_expected(i, steps);
    if (count != accesses * run->iterations)
        workload_wrong(run, "%" PRIu64 " accesses were made and %" PRIu64 " must be", count,
                       accesses * run->iterations);
    if (sum != expected)
        workload_wrong(run, "the sum of the pairs' data is %" PRIu64 " and must be %" PRIu64, sum, expected);
    workload_report(run, 1e-6 * (double)count, "million accesses", sum);
    free(pair);
}

#endif
