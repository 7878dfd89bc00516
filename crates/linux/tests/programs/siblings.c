/*
 * siblings COUNT FILE: waits for SIGUSR1, and then starts COUNT children, in turn by fork, by vfork and exec, and by a
 * double fork. Each first reads the number of CPUs that it may run on, and appends that number to FILE, as a line.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *path)
{
    cpu_set_t mask;
    char line[16];
    sched_getaffinity(0, sizeof mask, &mask);
    int length = snprintf(line, sizeof line, "%d\n", CPU_COUNT(&mask));
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (write(file, line, (size_t)length) != length)
        abort();
    _exit(0);
}

int main(int argc, char **argv)
{
    sigset_t set;
    int signal;
    if (argc == 2)
        tell(argv[1]);
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigwait(&set, &signal);
    for (int child = 0; child < atoi(argv[1]); child++) {
        pid_t process = child % 3 == 1 ? vfork() : fork();
        if (process == 0 && child % 3 == 0)
            tell(argv[2]);
        if (process == 0 && child % 3 == 1) {
            execl("/proc/self/exe", "siblings", argv[2], NULL);
            _exit(1);
        }
        if (process == 0) {
            if (fork() == 0)
                tell(argv[2]);
            _exit(0);
        }
        for (volatile int step = 0; step < 100000; step++)
            ;
        waitpid(process, NULL, 0);
    }
    pause();
    return 0;
}
