/*
 * Waiting for another thread without sleeping.
 *
 * A waiting thread yields the PU at intervals, so that programs whose threads wait for each other make progress on
 * fewer PUs than threads.
 */
#ifndef WORKLOAD_SPIN_H
#define WORKLOAD_SPIN_H

#include <sched.h>

/* How often a thread checks before it yields its PU. */
#define SPIN_PATIENCE 1000

/* Call it after each unsuccessful check; `looks` starts at 0. */
static inline void spin_pause(unsigned *looks)
{
    if (++*looks % SPIN_PATIENCE == 0)
        sched_yield();
}

#endif
