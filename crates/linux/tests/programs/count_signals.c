/* count_signals OUT: writes a line to OUT for each SIGUSR1 and SIGINT that it gets, and ends with status 9 on SIGTERM.
   The first line is its process number. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char line[32];
    sigset_t set;
    int signal, out = open(argv[argc - 1], O_CREAT | O_WRONLY | O_APPEND, 0600);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    snprintf(line, sizeof line, "%d\n", getpid());
    for (;;) {
        if (write(out, line, strlen(line)) < 0 || sigwait(&set, &signal) != 0)
            return 1;
        if (signal == SIGTERM)
            return 9;
        snprintf(line, sizeof line, "%s\n", signal == SIGINT ? "INT" : "USR1");
    }
}
