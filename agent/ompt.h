/* The state of the OMPT tool in ompt.c for the interposer in gomp.c. */
#ifndef PINFOLD_OMPT_H
#define PINFOLD_OMPT_H

#include <stdbool.h>

/* Whether libomp has accepted the tool and reports to it. Read and written atomically. */
extern bool ompt_tool_in_force;

#endif
