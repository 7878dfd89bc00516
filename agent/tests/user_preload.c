/* A library that a user preloads: says that it is there. */
#include <stdio.h>

__attribute__((constructor)) static void here(void)
{
    puts("user's preload");
    fflush(stdout);
}
