/* Leaves a child behind whose first thread has ended while another waits for ever; prints the child's number, which has no standard streams. */
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
    /* Its first thread is a zombie when its state says so, although the process lives. */
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
