/* own_mask OUT PU...: a second thread restricts itself to these PUs. Then the process number is written to OUT, and
   both threads wait forever. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static cpu_set_t own;

static void *choose(void *argument)
{
    FILE *out = argument;
    sched_setaffinity(0, sizeof own, &own);
    fprintf(out, "%d\n", getpid());
    fclose(out);
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    for (int i = 2; i < argc; i++)
        CPU_SET(atoi(argv[i]), &own);
    pthread_create(&thread, NULL, choose, fopen(argv[1], "w"));
    pthread_join(thread, NULL);
}
