/* A library that a user preloads. Prints that it was loaded. */
#include <stdio.h>

__attribute__((constructor)) static void here(void)
{
    puts("user's preload");
    fflush(stdout);
}
