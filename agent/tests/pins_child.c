/* pins_child WHO: a process sets its mask to its first PU. Then its parent pins itself there as pinfold would, by a
   bare system call, and prints the number of PUs that each reads. WHO is a child of `vfork` or `fork`, or `both`:
   then the parent has set its mask before. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static cpu_set_t one;

static int read_pus(void)
{
    cpu_set_t answer;
    sched_getaffinity(0, sizeof answer, &answer);
    return CPU_COUNT(&answer);
}

static int set_and_read(void)
{
    sched_setaffinity(0, sizeof one, &one);
    return read_pus();
}

int main(int argc, char **argv)
{
    const char *who = argc > 1 ? argv[1] : "vfork";
    sched_getaffinity(0, sizeof one, &one);
    static int all;
    all = CPU_COUNT(&one);
    for (int pu = CPU_SETSIZE, left = all; left > 1; pu--) {
        if (CPU_ISSET(pu - 1, &one)) {
            CPU_CLR(pu - 1, &one);
            left--;
        }
    }
    if (strcmp(who, "both") == 0)
        set_and_read();
    int status = 0;
    const pid_t child = strcmp(who, "fork") == 0 ? fork() : vfork();
    if (child == 0)
        _exit(set_and_read());
    waitpid(child, &status, 0);
    syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
    printf("%d %d %d\n", all, WEXITSTATUS(status), read_pus());
    return 0;
}
