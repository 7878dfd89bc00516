/* Calls the heartbeat once, forks, and calls it 1000 times in parent and child each. errno must stay as it was. */
#include "../pinfold.h"

#include <sys/wait.h>

int main(void)
{
    errno = ERANGE;
    pinfold_heartbeat();
    if (errno != ERANGE)
        return 3;
    pid_t child = fork();
    for (int i = 0; i < 1000; i++)
        pinfold_heartbeat();
    if (child == 0)
        return 0;
    int status = 1;
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 4;
}
