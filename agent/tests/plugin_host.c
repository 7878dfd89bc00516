/* plugin_host FIRST SECOND: loads two libraries privately, as Python loads extension modules, and runs both in turn. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int (*run[2])(int);
    if (argc != 3)
        return 2;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL);
        run[i] = library ? (int (*)(int))dlsym(library, "plugin_run") : NULL;
        if (run[i] == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
    }
    for (int round = 0; round < 5; round++)
        if (run[0](2) != 2 || run[1](3) != 3)
            return 4;
    return 0;
}
