/* The interface of affinity.c for the rest of the agent. */
#ifndef PINFOLD_AFFINITY_H
#define PINFOLD_AFFINITY_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* Restores the process's original mask for the calling thread, if pinfold has pinned the thread to one PU. */
void pinfold_unpin_this_thread(void);

/* Like pinfold_unpin_this_thread(), for a thread of this process (0: the calling thread). Returns whether it was
 * pinned. */
bool pinfold_unpin(pid_t thread);
void pinfold_unpin_pthread(pthread_t thread);

/* Whether the process has set a mask itself. Then the agent leaves its threads alone. */
bool pinfold_process_sets_masks(void);

/* Pins the calling thread to one PU. Fails if the PU is not in the process's original mask, or if the thread has a
 * deadline or real-time priority. pinfold_give_original_mask() restores the original mask. Both return whether they
 * succeeded. */
bool pinfold_pin_this_thread(unsigned pu);
bool pinfold_give_original_mask(void);

#endif
