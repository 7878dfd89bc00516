/* The interface of step_aside.c for the rest of the agent. */
#ifndef PINFOLD_STEP_ASIDE_H
#define PINFOLD_STEP_ASIDE_H

#include <sys/types.h>

/* Call it before the system call ptrace. If that call starts to trace a process, pinfold lets go of the process
 * first. */
void pinfold_step_aside_for(long kind, pid_t thread);

#endif
