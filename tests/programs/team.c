/* An OpenMP program that prints its masks: `before` any thread is created, then of each thread of its team. */
#include "mask.h"
#include <omp.h>

enum { MOST = 256 };

int main(void)
{
    cpu_set_t before = own_mask(), of_thread[MOST];
    int threads = 0;
#pragma omp parallel
    {
        int thread = omp_get_thread_num();
        if (thread < MOST)
            of_thread[thread] = own_mask();
#pragma omp single
        threads = omp_get_num_threads();
    }
    printf("before: ");
    print_mask(&before);
    for (int thread = 0; thread < threads && thread < MOST; thread++) {
        printf("%d: ", thread);
        print_mask(&of_thread[thread]);
    }
    return 0;
}
