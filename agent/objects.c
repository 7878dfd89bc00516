/* The search for loaded objects. The agent and the interposer of MPI have a copy each. */
#define _GNU_SOURCE
#include "objects.h"

#include <link.h>
#include <stdio.h>

static int match_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct object *object = argument;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t segment_begin = info->dlpi_addr + segment->p_vaddr;
        uintptr_t segment_end = segment_begin + segment->p_memsz;
        begin = segment_begin < begin ? segment_begin : begin;
        end = segment_end > end ? segment_end : end;
    }
    bool wanted = object->address != 0 ? begin <= object->address && object->address < end : object->place-- == 0;
    if (!wanted)
        return 0;
    object->begin = begin;
    object->end = end;
    snprintf(object->path, sizeof object->path, "%s", info->dlpi_name);
    return 1;
}

bool pinfold_find_object(struct object *object)
{
    return dl_iterate_phdr(match_object, object) != 0;
}
