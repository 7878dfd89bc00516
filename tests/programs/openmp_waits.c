/* Prints the process id in a team of two threads of OpenMP, which then sleep. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
#pragma omp master
        {
            printf("%d\n", getpid());
            fflush(stdout);
        }
        for (;;)
            pause();
    }
    return 0;
}
