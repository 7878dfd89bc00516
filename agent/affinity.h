/* What the rest of the agent needs of affinity.c. */
#ifndef PINFOLD_AFFINITY_H
#define PINFOLD_AFFINITY_H

/* Gives the calling thread the mask that the process began with, if pinfold has pinned it to one PU. */
void pinfold_unpin_this_thread(void);

#endif
