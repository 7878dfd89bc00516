/*
 * Leaves a child whose first thread has ended while another thread waits endlessly. Prints the number of the child,
 * which has no standard streams.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(void)
{
    char state = ' ';
    char name[64];
    pid_t heir = fork();
    if (heir == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        for (int stream = 0; stream < 3; stream++)
            dup2(nowhere, stream);
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        pthread_exit(NULL);
    }
    /* The first thread is a zombie, although the process lives. */
    snprintf(name, sizeof name, "/proc/%d/stat", heir);
    while (state != 'Z') {
        FILE *stat = fopen(name, "r");
        if (stat == NULL || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            return 1;
        fclose(stat);
    }
    printf("%d\n", heir);
    return fclose(stdout);
}
