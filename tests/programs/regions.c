/* regions SECONDS: parallel regions of two threads, with four barriers each, for SECONDS. */
#include <omp.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    double end = omp_get_wtime() + (argc > 1 ? atof(argv[1]) : 0);
    while (omp_get_wtime() < end) {
#pragma omp parallel num_threads(2)
        for (int barrier = 0; barrier < 4; barrier++) {
#pragma omp barrier
        }
    }
    return 0;
}
