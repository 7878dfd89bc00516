/* Threads of programs, from /proc and the scheduler. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, NAME = 16, LINE = 256 };

struct thread {
    int process, thread;
    char name[NAME];
    unsigned long mask; /* Bit n is CPU n, of the first 64. */
};

/* The first line of a file of /proc without its end; empty where it cannot be read. */
static inline void first_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    line[0] = '\0';
    if (file && fgets(line, size, file))
        line[strcspn(line, "\n")] = '\0';
    if (file)
        fclose(file);
}

/* The first word of a process's command line, without its directories: threads can change their names, but not this word. */
static inline void program_of(int process, char program[LINE])
{
    char path[64], line[LINE];
    snprintf(path, sizeof path, "/proc/%d/cmdline", process);
    first_line(path, line, sizeof line);
    const char *slash = strrchr(line, '/');
    snprintf(program, LINE, "%s", slash ? slash + 1 : line);
}

/* The threads of the processes whose program is `program`; their number. A thread that ends during the search is left out. */
static inline int threads_of(const char *program, struct thread *threads)
{
    int count = 0;
    struct dirent *entry, *task;
    DIR *proc = opendir("/proc");
    while ((entry = readdir(proc))) {
        int process = atoi(entry->d_name);
        char name[LINE], path[64];
        if (process <= 0)
            continue;
        program_of(process, name);
        if (strcmp(name, program) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/%d/task", process);
        DIR *tasks = opendir(path);
        while (tasks && (task = readdir(tasks)) && count < MOST) {
            struct thread *thread = &threads[count];
            cpu_set_t mask;
            thread->process = process;
            thread->thread = atoi(task->d_name);
            snprintf(path, sizeof path, "/proc/%d/task/%d/comm", process, thread->thread);
            first_line(path, thread->name, NAME);
            if (thread->thread <= 0 || !thread->name[0] || sched_getaffinity(thread->thread, sizeof mask, &mask) != 0)
                continue;
            thread->mask = 0;
            for (int cpu = 0; cpu < 64; cpu++)
                if (CPU_ISSET(cpu, &mask))
                    thread->mask |= 1ul << cpu;
            count++;
        }
        if (tasks)
            closedir(tasks);
    }
    closedir(proc);
    return count;
}
