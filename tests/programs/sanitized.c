/*
 * sanitized [leak] [check] [wait]: an ordinary program, to be built with a leak sanitizer. It prints a line, which stays in
 * the buffer of a pipe until the end. With `leak` it loses memory, with `check` it searches for leaks itself before the
 * end, and with `wait` it begins two threads, prints its number and runs until its standard input ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

static int ended;

static void *work(void *nothing)
{
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
        continue;
    return nothing;
}

/* A register may still have the address of the last block. */
static void lose(void)
{
    for (int i = 0; i < 100; i++)
        *(volatile char *)malloc(10) = 1;
}

static int has(int words, char **word, const char *wanted)
{
    while (words-- > 1)
        if (strcmp(word[words], wanted) == 0)
            return 1;
    return 0;
}

int main(int words, char **word)
{
    char *memory = malloc(10);
    memory[0] = 41;
    printf("result %d\n", memory[0] + 1);
    if (has(words, word, "wait")) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, work, NULL) != 0)
                return 3;
        printf("%d\n", getpid());
        fflush(stdout);
        while (getchar() != EOF)
            continue;
        __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
    if (has(words, word, "leak"))
        lose();
    free(memory);
    if (has(words, word, "check") && __lsan_do_recoverable_leak_check != NULL)
        printf("leaks %d\n", __lsan_do_recoverable_leak_check());
    return 0;
}
