/* The interface of scheduling.c for the rest of the agent. */
#ifndef PINFOLD_SCHEDULING_H
#define PINFOLD_SCHEDULING_H

#include <stdbool.h>

/* Whether the calling thread has a deadline or real-time priority, so that it is not to be pinned. */
bool pinfold_this_thread_is_real_time(void);

#endif
