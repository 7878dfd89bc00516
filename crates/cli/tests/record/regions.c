/* Two parallel regions; the first is executed three times. Usage: regions */
#include <stdint.h>
#include <stdio.h>

static double a[1000], b[1000];

int main(void)
{
    for (int round = 0; round < 3; round++) {
#pragma omp parallel num_threads(2)
        {
#pragma omp for
            for (int i = 0; i < 1000; i++)
                a[i] += i;
#pragma omp barrier
        }
    }
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 1000; i++)
        b[i] = a[i];
    return b[999] == 2997 ? 0 : 1;
}
