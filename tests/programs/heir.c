/*
 * Leaves a process of two threads running when it ends, at the end of its standard input. Prints the id of that
 * process, which has no standard streams.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *rest(void *nothing)
{
    while (pause() != 0)
        ;
    return nothing;
}

int main(void)
{
    int ready[2];
    if (pipe(ready) != 0)
        return 1;
    pid_t heir = fork();
    if (heir == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        for (int stream = 0; stream < 3; stream++)
            dup2(nowhere, stream);
        pthread_t thread;
        if (pthread_create(&thread, NULL, rest, NULL) != 0 || write(ready[1], "!", 1) != 1)
            _exit(1);
        rest(NULL);
    }
    char byte;
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    printf("%d\n", heir);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
