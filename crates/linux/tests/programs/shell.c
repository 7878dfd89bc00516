/* shell COMMAND...: acts like an interactive shell with one foreground job on a separate terminal. It writes a line
   `stopped` or `ended STATUS` when the job stops or ends. It types a line that it reads into the terminal if the line
   starts with `^` (^C, ^Z). Any other line continues the job. */
#define _GNU_SOURCE
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int master;
static pid_t job;

static void *obey(void *unused)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (line[0] == '^') {
            char key = line[1] & 0x1f;
            if (write(master, &key, 1) != 1)
                abort();
        } else {
            kill(-job, SIGCONT);
        }
    }
    return unused;
}

int main(int argc, char **argv)
{
    int terminal, status;
    pthread_t thread;
    (void)argc;
    setsid();
    if (openpty(&master, &terminal, NULL, NULL, NULL) != 0 || ioctl(terminal, TIOCSCTTY, 0) != 0)
        return 1;
    signal(SIGTTOU, SIG_IGN);
    job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(terminal, getpid());
        signal(SIGTTOU, SIG_DFL);
        dup2(terminal, 0);
        close(master);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    pthread_create(&thread, NULL, obey, NULL);
    while (waitpid(job, &status, WUNTRACED) == job) {
        if (WIFSTOPPED(status))
            printf("stopped\n");
        else
            printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        fflush(stdout);
        if (!WIFSTOPPED(status))
            return 0;
    }
    return 1;
}
