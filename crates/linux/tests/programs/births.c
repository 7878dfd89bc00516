/* births OUT THREADS: each thread first records the PUs that it may run on. Writes one line each, in the order of
   creation: the first thread before it creates any, the others, and the first thread again when all live. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct birth {
    int thread;
    cpu_set_t pus;
};

static pthread_barrier_t all_live;

static void *be_born(void *argument)
{
    struct birth *birth = argument;
    sched_getaffinity(0, sizeof birth->pus, &birth->pus);
    birth->thread = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&all_live);
    return NULL;
}

static void print(FILE *out, const struct birth *birth)
{
    fprintf(out, "%d", birth->thread);
    for (int pu = 0; pu < CPU_SETSIZE; pu++)
        if (CPU_ISSET(pu, &birth->pus))
            fprintf(out, " %d", pu);
    fprintf(out, "\n");
}

int main(int argc, char **argv)
{
    int threads = atoi(argv[argc - 1]);
    struct birth *births = calloc(threads + 2, sizeof *births);
    pthread_t *handles = calloc(threads, sizeof *handles);
    FILE *out = fopen(argv[1], "w");

    births[0].thread = births[threads + 1].thread = getpid();
    sched_getaffinity(0, sizeof births[0].pus, &births[0].pus);
    pthread_barrier_init(&all_live, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        pthread_create(&handles[i], NULL, be_born, &births[i + 1]);
    sched_getaffinity(0, sizeof births[0].pus, &births[threads + 1].pus);
    pthread_barrier_wait(&all_live);
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (int i = 0; i < threads + 2; i++)
        print(out, &births[i]);
    return fclose(out);
}
