/* team OUT: an OpenMP program. Each thread works until it may run on only one PU, or for a minute, and then writes the
   number of threads and its PUs. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *out = fopen(argv[argc - 1], "w");
#pragma omp parallel
    {
        double begin = omp_get_wtime();
        cpu_set_t pus;
        do
            sched_getaffinity(0, sizeof pus, &pus);
        while (CPU_COUNT(&pus) > 1 && omp_get_wtime() - begin < 60);
#pragma omp critical
        {
            fprintf(out, "%d", omp_get_num_threads());
            for (int pu = 0; pu < CPU_SETSIZE; pu++)
                if (CPU_ISSET(pu, &pus))
                    fprintf(out, " %d", pu);
            fprintf(out, "\n");
        }
    }
    return fclose(out);
}
