/* linger OUT THREADS [leave]: creates threads that wait forever, then writes its number to OUT. With `leave` it does
   so in a child process, and ends with status 5 when the child has written. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    int written[2];
    char byte;
    char name[4096];
    if (pipe(written) != 0)
        return 1;
    if (argc == 4 && fork() != 0) {
        close(written[1]);
        return read(written[0], &byte, 1) == 1 ? 5 : 1;
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, NULL);
    }
    /* The file is renamed when it is complete, so that a reader never sees a part of it. */
    snprintf(name, sizeof name, "%s.part", argv[1]);
    FILE *out = fopen(name, "w");
    fprintf(out, "%d\n", getpid());
    fclose(out);
    rename(name, argv[1]);
    if (write(written[1], "!", 1) != 1)
        return 1;
    wait_for_ever(NULL);
}
