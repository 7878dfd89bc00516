/* Loaded objects: the executable and the shared libraries of this process. */
#ifndef PINFOLD_OBJECTS_H
#define PINFOLD_OBJECTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded object: searched by an address inside it, or by its position in the list of loaded objects. */
struct object {
    uintptr_t address; /* 0: searched by position */
    unsigned place;
    uintptr_t begin, end;
    char path[PATH_MAX];
};

/* Fills in the addresses and the path. Returns whether there is such an object. */
bool pinfold_find_object(struct object *object);

#endif
