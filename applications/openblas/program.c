// Linear algebra with OpenBLAS: program KIND THREADS.

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

// LAPACK, which OpenBLAS contains.
void dgetrf_(const int *rows, const int *columns, double *matrix, const int *stride, int *pivots, int *info);

enum { SIZE = 400, TIMES = 40 };

static double a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    openblas_set_num_threads(atoi(words[2]));
    srand(1);
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = rand() / (double)RAND_MAX;
        b[i] = rand() / (double)RAND_MAX;
    }
    for (int time = 0; time < TIMES; time++) {
        if (strcmp(words[1], "product") == 0) {
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, SIZE, SIZE, SIZE, 1, a, SIZE, b, SIZE, 0, c, SIZE);
        } else if (strcmp(words[1], "vector") == 0) {
            for (int i = 0; i < 20; i++)
                cblas_dgemv(CblasColMajor, CblasNoTrans, SIZE, SIZE, 1, a, SIZE, b, 1, 0, c, 1);
        } else {
            int size = SIZE, info, pivots[SIZE];
            memcpy(c, a, sizeof a);
            dgetrf_(&size, &size, c, &size, pivots, &info);
        }
    }
    return 0;
}
