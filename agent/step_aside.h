/* The interface of step_aside.c for the rest of the agent. */
#ifndef PINFOLD_STEP_ASIDE_H
#define PINFOLD_STEP_ASIDE_H

#include <sys/types.h>

/* To be called before the system call ptrace. Where it begins to trace, pinfold lets go of that process first. */
void pinfold_step_aside_for(long kind, pid_t thread);

#endif
