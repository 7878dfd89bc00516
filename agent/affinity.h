/* The interface of affinity.c for the rest of the agent. */
#ifndef PINFOLD_AFFINITY_H
#define PINFOLD_AFFINITY_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* Sets the calling thread's mask to the one with which the process began, if pinfold has pinned it to one PU. */
void pinfold_unpin_this_thread(void);

/* The same for a thread of this process (0: the calling one). Returns whether it had been pinned. */
bool pinfold_unpin(pid_t thread);
void pinfold_unpin_pthread(pthread_t thread);

/* Whether the process has set a mask itself: then its threads are its own business. */
bool pinfold_process_sets_masks(void);

/* Sets the calling thread's mask to one PU, if that is in the mask with which the process began, and if the thread has
 * neither a deadline nor real-time priority; or to that mask. Returns whether that succeeded. */
bool pinfold_pin_this_thread(unsigned pu);
bool pinfold_give_original_mask(void);

#endif
