/* counts: pins itself to its first PU as pinfold would, by a bare system call, and prints the C library's number of PUs
   before and after that, from sysconf() and get_nprocs(). With `sets` it sets the mask through the library. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static void print_counts(void)
{
    printf("%ld %ld %d %d\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF), get_nprocs(),
           get_nprocs_conf());
}

int main(int argc, char **argv)
{
    cpu_set_t one;
    sched_getaffinity(0, sizeof one, &one);
    int first = 0;
    while (!CPU_ISSET(first, &one))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    print_counts();
    if (argc > 1 && strcmp(argv[1], "sets") == 0)
        sched_setaffinity(0, sizeof one, &one);
    else
        syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
    print_counts();
    return 0;
}
