/* The interface of scheduling.c for the rest of the agent. */
#ifndef PINFOLD_SCHEDULING_H
#define PINFOLD_SCHEDULING_H

#include <stdbool.h>

/* Whether the calling thread has a deadline or real-time priority, so that it must not be pinned. */
bool pinfold_this_thread_is_real_time(void);

/* The system calls sched_setattr and sched_setscheduler for syscall(). On failure they return -1 and set errno. */
long pinfold_set_attributes(long thread, long attributes, long flags);
long pinfold_set_scheduler(long thread, long policy, long parameters);

#endif
