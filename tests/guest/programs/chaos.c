/*
 * chaos ROUNDS SEED FILE: in each round starts pinfold four times, with `workers`, which outlive it, and the first
 * time with other prefetchers; kills each after a random time by SIGKILL, in three of four rounds together with its
 * guard; runs `pinfold reset`; and checks every mask and every register. Prints the differences, and at the end a
 * line of numbers.
 *
 * The random times are between zero and one and a half times the time that pinfold needs until its program works.
 * `workers` append to FILE, which shows whether each started program has ended without errors.
 */
#define _GNU_SOURCE
#include "proc.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CPUS = 8, REGISTER = 0x1a4, ALL = 0xff, OWN = 0xc0, AT_A_TIME = 4 };

static struct thread threads[MOST];

static void nap(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void registers(unsigned long *values)
{
    for (int cpu = 0; cpu < CPUS; cpu++) {
        char path[64];
        snprintf(path, sizeof path, "/dev/cpu/%d/msr", cpu);
        int device = open(path, O_RDONLY);
        if (device < 0 || pread(device, &values[cpu], 8, REGISTER) != 8) {
            perror(path);
            exit(1);
        }
        close(device);
    }
}

/* Starts a program with its output in a file. */
static pid_t start(char *const *command, const char *output)
{
    pid_t process = fork();
    if (process == 0) {
        int file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(file, 1);
        dup2(file, 2);
        execvp(command[0], command);
        _exit(127);
    }
    return process;
}

/* Sends a signal to each process with this name, or to those that are children of `parent`. Returns their number. */
static int tell(const char *name, int parent, int signal)
{
    int count = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    while ((entry = readdir(proc))) {
        char path[64], stat[LINE], state;
        int process = atoi(entry->d_name), its_parent;
        snprintf(path, sizeof path, "/proc/%d/stat", process);
        if (process <= 0)
            continue;
        first_line(path, stat, sizeof stat);
        char *begin = strchr(stat, '('), *end = strrchr(stat, ')');
        if (!begin || !end || sscanf(end + 1, " %c %d", &state, &its_parent) != 2 || state == 'Z')
            continue;
        *end = '\0';
        if (strcmp(begin + 1, name) != 0 || (parent && parent != its_parent))
            continue;
        kill(process, signal);
        count++;
    }
    closedir(proc);
    return count;
}

static void wait_for_the_end_of(const char *name)
{
    while (tell(name, 0, 0) > 0)
        nap(5000);
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* Counts and prints the differences. */
static int wrong(int round, const unsigned long *before)
{
    int count = threads_of("workers", threads), wrong = 0;
    for (int index = 0; index < count; index++) {
        const struct thread *thread = &threads[index];
        /* The thread that sets its own mask may not have done so yet. */
        int own = strcmp(thread->name, "own") == 0;
        if (thread->mask != ALL && !(own && thread->mask == OWN)) {
            printf("round %d: thread %d (%s) has mask %lx\n", round, thread->thread, thread->name, thread->mask);
            wrong++;
        }
    }
    unsigned long now[CPUS];
    registers(now);
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (now[cpu] != before[cpu]) {
            printf("round %d: the register of CPU %d is %lx, and was %lx\n", round, cpu, now[cpu], before[cpu]);
            wrong++;
        }
    }
    return wrong;
}

static int lines(const char *path, const char *text)
{
    char line[256];
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        count += strncmp(line, text, strlen(text)) == 0;
    if (file)
        fclose(file);
    return count;
}

static pid_t start_pinfold(char *file, int prefetchers)
{
    char *with[] = {"--prefetch", "1111"}, *without[] = {"--policy", "autopin"};
    char **chosen = prefetchers ? with : without;
    char *command[] = {"pinfold", "run",  "--outlive", chosen[0], chosen[1],    "-e",   "task-clock", "-t",    "30ms", "--warm-up",
                       "10ms",    "--initialise",   "30ms",      "--interval", "30ms",    "--quiet", "--",      "workers", file,  "4",
                       "lively",  NULL};
    return start(command, "/tmp/chaos.run");
}

/* Ends all programs by SIGTERM. */
static void end_workers(void)
{
    /* Before its exec a program is still pinfold's image, and ends by itself. */
    wait_for_the_end_of("pinfold");
    while (tell("workers", 0, SIGTERM) > 0)
        nap(5000);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    char *reset[] = {"pinfold", "reset", NULL};
    unsigned long before[CPUS];
    int rounds = atoi(argv[1]), bad = 0, undone = 0, failed = 0, status;
    srandom((unsigned)atoi(argv[2]));
    registers(before);

    /* The first run is a warm-up. */
    long begin = 0, longest = 0;
    for (int time = 1; time <= 2; time++) {
        begin = now();
        for (int index = 0; index < AT_A_TIME; index++)
            start_pinfold(argv[3], index == 0);
        while (lines(argv[3], "begin") < time * AT_A_TIME)
            nap(5000);
        longest = (now() - begin) * 3 / 2;
        while (tell("workers", 0, SIGTERM) > 0)
            nap(5000);
        end_workers();
    }

    for (int round = 0; round < rounds; round++) {
        pid_t pinfolds[AT_A_TIME];
        long times[AT_A_TIME];
        int with_guard = random() % 4 != 0;
        begin = now();
        for (int index = 0; index < AT_A_TIME; index++) {
            pinfolds[index] = start_pinfold(argv[3], index == 0);
            times[index] = begin + random() % longest;
        }
        for (int left = AT_A_TIME; left > 0; left--) {
            int next = 0;
            for (int index = 1; index < left; index++)
                if (times[index] < times[next])
                    next = index;
            if (times[next] > now())
                nap(times[next] - now());
            if (with_guard)
                tell("pinfold-guard", pinfolds[next], SIGKILL);
            kill(pinfolds[next], SIGKILL);
            waitpid(pinfolds[next], &status, 0);
            pinfolds[next] = pinfolds[left - 1];
            times[next] = times[left - 1];
        }
        wait_for_the_end_of("pinfold-guard");
        waitpid(start(reset, "/tmp/chaos.reset"), &status, 0);
        failed += status != 0;
        undone += lines("/tmp/chaos.reset", "nothing") == 0;
        bad += wrong(round, before);
        end_workers();
    }
    int begun = lines(argv[3], "begin"), ended = lines(argv[3], "end");
    printf("rounds %d, undone by reset %d, resets failed %d, wrong %d, begun %d, ended %d\n", rounds, undone, failed, bad,
           begun, ended);
    return bad != 0 || failed != 0 || begun != ended;
}
