/* asks: pins itself to its first PU as pinfold would, by a bare system call. Then it queries the number of its PUs
   with each function of the C library, and once in a child, and prints the answers. With `sets` it first sets its
   mask through the library. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    cpu_set_t all, one, answer;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int pu = 0; pu < CPU_SETSIZE; pu++) {
        if (CPU_ISSET(pu, &all)) {
            CPU_SET(pu, &one);
            break;
        }
    }
    if (argc > 1 && strcmp(argv[1], "sets") == 0)
        sched_setaffinity(0, sizeof one, &one);
    else
        syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
    sched_getaffinity(0, sizeof answer, &answer);
    printf("%d %d", CPU_COUNT(&all), CPU_COUNT(&answer));
    sched_getaffinity((int)syscall(SYS_gettid), sizeof answer, &answer);
    printf(" %d", CPU_COUNT(&answer));
    pthread_getaffinity_np(pthread_self(), sizeof answer, &answer);
    printf(" %d", CPU_COUNT(&answer));
    fflush(stdout);
    if (fork() == 0) {
        sched_getaffinity(getpid(), sizeof answer, &answer);
        printf(" %d\n", CPU_COUNT(&answer));
        return 0;
    }
    wait(NULL);
    return 0;
}
