/*
 * real_time_team LIMIT: parallel regions of two threads, one of which has real-time priority. Ends when the other one
 * was pinned in twenty regions, or after LIMIT seconds, and prints in how many each was pinned:
 * `pinned: 20, real-time: 0`.
 */
#include "mask.h"
#include <omp.h>
#include <stdlib.h>

static int pinned[2];

int main(int count, char **arguments)
{
    const double until = omp_get_wtime() + (count > 1 ? atof(arguments[1]) : 0);
    const struct sched_param lowest = { .sched_priority = 1 };
    int refused = 0;
    while (omp_get_wtime() < until && pinned[0] < 20 && !refused) {
#pragma omp parallel
        {
            const int thread = omp_get_thread_num();
            const cpu_set_t mask = own_mask();
            if (thread == 1 && sched_getscheduler(0) != SCHED_RR && sched_setscheduler(0, SCHED_RR, &lowest) != 0)
                refused = 1;
            if (thread < 2 && CPU_COUNT(&mask) == 1)
                pinned[thread]++;
            volatile double sum = 0;
            for (int i = 0; i < 200000; i++)
                sum += i;
        }
    }
    printf(refused ? "no real-time priority here\n" : "pinned: %d, real-time: %d\n", pinned[0], pinned[1]);
    return 0;
}
