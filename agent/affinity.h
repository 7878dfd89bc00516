/* The interface of affinity.c for the rest of the agent. */
#ifndef PINFOLD_AFFINITY_H
#define PINFOLD_AFFINITY_H

/* Sets the calling thread's mask to the one with which the process began, if pinfold has pinned it to one PU. */
void pinfold_unpin_this_thread(void);

#endif
