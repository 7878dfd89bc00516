/* Prints its process id and then the number of each received signal; it ends at SIGUSR2. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGTSTP);
    sigprocmask(SIG_BLOCK, &all, NULL);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (int number; sigwait(&all, &number) == 0;) {
        printf("signal %d\n", number);
        fflush(stdout);
        if (number == SIGUSR2)
            return 0;
    }
    return 1;
}
