/* idle THREADS: THREADS threads sleep. Prints the process id when all of them exist. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *sleeps(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

int main(int argc, char **argv)
{
    int threads = argc == 2 ? atoi(argv[1]) : 0;
    pthread_t other;
    for (int thread = 1; thread < threads; thread++)
        if (pthread_create(&other, NULL, sleeps, NULL) != 0)
            return 1;
    printf("%d\n", getpid());
    fflush(stdout);
    sleeps(NULL);
    return 0;
}
