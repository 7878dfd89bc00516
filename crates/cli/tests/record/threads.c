/* Three threads that write and read memory at addresses that are known.
 * Usage: threads [crash | fork | many | crowd] */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 4096 };
static volatile uint64_t *const memory = (volatile uint64_t *)0x100000000000;

static void *work(void *argument)
{
    uintptr_t thread = (uintptr_t)argument;
    for (int i = 0; i < WORDS; i++)
        memory[thread * WORDS + i] = i;
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

static pthread_barrier_t all_there;

static void *meet(void *argument)
{
    pthread_barrier_wait(&all_there);
    return work(argument);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t threads[2];
    mmap((void *)memory, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (strcmp(how, "many") == 0) {
        for (int i = 0; i < 300; i++) {
            pthread_create(&threads[0], NULL, nothing, NULL);
            pthread_create(&threads[1], NULL, nothing, NULL);
            pthread_join(threads[0], NULL);
            pthread_join(threads[1], NULL);
        }
        return 0;
    }
    if (strcmp(how, "crowd") == 0) {
        pthread_t crowd[11];
        pthread_barrier_init(&all_there, NULL, 12);
        for (uintptr_t i = 0; i < 11; i++)
            pthread_create(&crowd[i], NULL, meet, (void *)(i + 1));
        meet(0);
        for (int i = 0; i < 11; i++)
            pthread_join(crowd[i], NULL);
        return 0;
    }
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    work(0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (strcmp(how, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            work(0);
            _exit(3);
        }
        int status;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    uint64_t sum = 0;
    for (int i = 0; i < 3 * WORDS; i++)
        sum += memory[i];
    if (strcmp(how, "crash") == 0)
        kill(getpid(), SIGSEGV);
    return sum == 3ull * WORDS * (WORDS - 1) / 2 ? 7 : 1;
}
