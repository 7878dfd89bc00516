/*
 * burst threads|processes NUMBER: starts NUMBER threads or processes that end at once, a few at a time, and checks
 * that each has run. Prints what remains when all have ended: its tasks and children, and how many more files and
 * children its parent has than at the start.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 40 };

static int entries(int process, const char *what)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, what);
    DIR *folder = opendir(path);
    int number = 0;
    while (folder && readdir(folder))
        number++;
    if (folder)
        closedir(folder);
    return number - 2; /* . and .. */
}

/* The number of this parent's children, including zombies. */
static int children(int parent)
{
    int number = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300];
        int its_parent;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        if (fscanf(file, "%*d (%*[^)]) %*c %d", &its_parent) == 1 && its_parent == parent)
            number++;
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return number;
}

static void *run(void *ran)
{
    __atomic_fetch_add((int *)ran, 1, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int processes = strcmp(argv[1], "processes") == 0, number = atoi(argv[2]), parent = getppid();
    int files = entries(parent, "fd"), siblings = children(parent);
    int *ran = mmap(NULL, sizeof *ran, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int begun = 0; begun < number;) {
        pthread_t threads[AT_ONCE];
        int some = number - begun < AT_ONCE ? number - begun : AT_ONCE;
        for (int one = 0; one < some; one++) {
            if (!processes) {
                if (pthread_create(&threads[one], NULL, run, ran) != 0)
                    return 1;
            } else if (fork() == 0) {
                run(ran);
                _exit(0);
            }
        }
        for (int one = 0; one < some; one++) {
            if (!processes)
                pthread_join(threads[one], NULL);
            else if (wait(NULL) < 0)
                return 1;
        }
        begun += some;
    }
    /* A joined thread disappears a moment later, when its tracer has noticed its end. */
    for (int looks = 0; entries(getpid(), "task") > 1 && looks < 10000; looks++)
        usleep(1000);
    printf("ran %d, tasks %d, children %d, more files %d, more siblings %d\n", *ran, entries(getpid(), "task"),
           children(getpid()), entries(parent, "fd") - files, children(parent) - siblings);
    return *ran != number;
}
