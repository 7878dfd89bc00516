/* exec_from_thread OUT: a thread other than the first executes this program again, which writes its number to OUT and
   ends with status 7. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static char **arguments;

static void *execute(void *unused)
{
    char *again[] = {arguments[0], arguments[1], "again", NULL};
    execv(arguments[0], again);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc == 3) {
        FILE *out = fopen(argv[1], "w");
        fprintf(out, "%d\n", getpid());
        fclose(out);
        return 7;
    }
    arguments = argv;
    pthread_create(&thread, NULL, execute, NULL);
    pause();
    return 1;
}
