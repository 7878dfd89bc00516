/* first_leaves OUT: two threads wait forever, and the first thread ends before them. OUT gets the process
   number. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *wait_for_ever(void *unused)
{
    pause();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    FILE *out = fopen(argv[argc - 1], "w");
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, wait_for_ever, NULL);
    fprintf(out, "%d\n", getpid());
    fclose(out);
    pthread_exit(NULL);
}
