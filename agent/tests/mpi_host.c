/* mpi_host LIBRARY: loads a library privately, as Python loads extension modules, and calls its function run(). */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words)
{
    void *library = count == 2 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*run)(void) = library != NULL ? (void (*)(void))dlsym(library, "run") : NULL;
    if (run == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    run();
    return 0;
}
