/*
 * many_threads N alive|short: creates N threads, all of which live until the last one was created, or one after the other.
 * Prints how many there were, and how long that took.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_live = PTHREAD_COND_INITIALIZER;
static int ended;

static void *live(void *nothing)
{
    pthread_mutex_lock(&lock);
    while (!ended)
        pthread_cond_wait(&all_live, &lock);
    pthread_mutex_unlock(&lock);
    return nothing;
}

static void *end(void *nothing)
{
    return nothing;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int words, char **word)
{
    const size_t threads = words == 3 ? strtoul(word[1], NULL, 10) : 0;
    const int are_short = threads > 0 && strcmp(word[2], "short") == 0;
    pthread_t *thread = calloc(threads, sizeof *thread);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    const double begin = now();
    for (size_t i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], &small, are_short ? end : live, NULL) != 0)
            return 3;
        if (are_short)
            pthread_join(thread[i], NULL);
    }
    const double created = now();
    pthread_mutex_lock(&lock);
    ended = 1;
    pthread_cond_broadcast(&all_live);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < threads && !are_short; i++)
        pthread_join(thread[i], NULL);
    printf("%zu threads, time %.4f s,\n", threads, created - begin);
    free(thread);
    return 0;
}
