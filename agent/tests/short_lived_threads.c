/* Starts 3000 threads, one after the other, each of which calls the heartbeat ten times: more threads than slots. */
#include "../pinfold.h"

#include <pthread.h>

static void *beat(void *nothing)
{
    for (int i = 0; i < 10; i++)
        pinfold_heartbeat();
    return nothing;
}

int main(void)
{
    for (int i = 0; i < 3000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, beat, NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 3;
    }
    return 0;
}
