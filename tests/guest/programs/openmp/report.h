/* The end of a program that is placed: its report, and a child that it leaves behind. */
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Opens the report, and leaves a child behind, which sleeps and has no other mask than the program; NULL after a failure. */
static inline FILE *report_with_child(const char *name, pid_t *child)
{
    *child = fork();
    if (*child == 0)
        for (;;)
            pause();
    return *child < 0 ? NULL : fopen(name, "w");
}
