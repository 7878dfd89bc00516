/*
 * A library with a parallel region, to be linked with a private copy of libgomp. Prints how many threads took part.
 * A call that went to the other copy's runtime would find the wrong number of threads, or thread 0 in all of them.
 */
#include <omp.h>

int plugin_run(int threads);

int plugin_run(int threads)
{
    unsigned seen = 0;
    int team = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
#pragma omp parallel
    {
#pragma omp atomic
        seen |= 1u << omp_get_thread_num();
#pragma omp barrier
#pragma omp single
        team = omp_get_num_threads();
    }
    return seen == (1u << threads) - 1 ? team : -1;
}
