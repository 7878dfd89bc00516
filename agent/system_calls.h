/* The interface of system_calls.c for the rest of the agent. */
#ifndef PINFOLD_SYSTEM_CALLS_H
#define PINFOLD_SYSTEM_CALLS_H

typedef long system_call(long, ...);

/* The C library's syscall(), bypassing the agent's. */
extern system_call *pinfold_next_call __attribute__((visibility("hidden")));

#endif
