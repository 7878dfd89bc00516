// Transforms of a cubic grid with FFTW: program EDGE THREADS.

#include <fftw3.h>
#include <stdlib.h>

enum { TIMES = 40 };

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    int edge = atoi(words[1]), points = edge * edge * edge;
    fftw_init_threads();
    fftw_plan_with_nthreads(atoi(words[2]));
    fftw_complex *in = fftw_alloc_complex(points), *out = fftw_alloc_complex(points);
    fftw_plan plan = fftw_plan_dft_3d(edge, edge, edge, in, out, FFTW_FORWARD, FFTW_ESTIMATE);
    srand(1);
    for (int i = 0; i < points; i++)
        in[i][0] = in[i][1] = rand() / (double)RAND_MAX;
    for (int time = 0; time < TIMES; time++)
        fftw_execute(plan);
    return 0;
}
