/* crowd KIND COUNT: starts COUNT short threads (KIND t) or processes (KIND p), up to 50 at a time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_A_TIME = 50 };

static void *end(void *argument)
{
    return argument;
}

int main(int argc, char **argv)
{
    int count = atoi(argv[argc - 1]), threads = argv[1][0] == 't';
    pthread_t handles[AT_A_TIME];
    for (int begun = 0; begun < count; begun += AT_A_TIME) {
        for (int i = 0; i < AT_A_TIME; i++) {
            if (threads) {
                if (pthread_create(&handles[i], NULL, end, NULL) != 0)
                    return 1;
            } else if (fork() == 0) {
                _exit(0);
            }
        }
        for (int i = 0; i < AT_A_TIME; i++) {
            if (threads)
                pthread_join(handles[i], NULL);
            else if (wait(NULL) < 0)
                return 1;
        }
    }
    return 0;
}
