/*
 * Counts the calls of MPI functions that stand for progress, as an interposer between a program and its MPI library.
 *
 * This is a library of its own. A program that has no MPI must not find MPI functions: a weak reference to one, or
 * dlsym(), would tell it that there is MPI. So pinfold preloads this library only into programs that need an MPI
 * library, or that an MPI launcher has started (crates/linux/src/launch/preload.rs).
 *
 * The entries are in mpi_entries.S. Each counts and jumps to the next definition of its function. Handles of MPI are
 * integers in MPICH and Intel MPI, and pointers in Open MPI. The entries know neither, nor the number of arguments.
 *
 * Which calls count. A call of the program counts once, whatever lies between the program and the MPI library:
 *
 *   1. MPI_X counts, unless the MPI library calls itself.
 *   2. PMPI_X counts if its caller is the executable itself, or the Fortran bindings, such as Open MPI's, whose
 *      mpi_send_ calls PMPI_Send (MPICH's calls MPI_Send).
 *   3. PMPI_X counts if a profiling tool has an MPI_X before the entry here. The program calls the tool then.
 *   4. Other calls of PMPI_X do not count. Parts of the MPI library make them, and profiling tools behind the entry,
 *      after the entry has counted the program's call. If such a tool ends in a tail call, PMPI_X has the call site of
 *      MPI_X.
 *
 * Where a call goes. As in gomp.c, the linker looks for a symbol first in the global scope, then among the caller's own
 * dependencies. An MPI library in the global scope serves all callers, and its functions are found before main().
 * Otherwise, such as for an extension module of Python, the caller's dependencies are searched.
 *
 * Known limits: calls through Fortran bindings inside the MPI library itself do not count. If a profiling tool behind
 * the entry has Fortran bindings that call PMPI_X, calls from Fortran do not count. Two private MPI libraries can be
 * confused if a caller of the first is unloaded and a caller of the second is loaded at its address.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "mpi_functions.h"
#include "objects.h"
#include "pinfold.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The entries in the order of mpi_entries.S: MPI_Send, PMPI_Send, and so on. */
#define NAME_OF_PMPI(name) "PMPI_" #name,
static const char *const functions[] = {MPI_FUNCTIONS(NAME_OF_PMPI)};
#define ENTRIES (2 * sizeof functions / sizeof *functions)

static bool is_pmpi(unsigned entry)
{
    return entry % 2 != 0;
}

static const char *name_of(unsigned entry)
{
    const char *pmpi = functions[entry / 2];
    return is_pmpi(entry) ? pmpi : pmpi + 1;
}

/* What the entries read. A target is the next definition in the global scope: NULL until it is known. A site is the
 * return address of a call of PMPI_X: the last one that counts, and the last one that does not. */
struct range {
    uintptr_t begin, size;
};
HIDDEN void *pinfold_mpi_targets[ENTRIES];
HIDDEN struct range pinfold_mpi_library;
HIDDEN uintptr_t pinfold_mpi_counted_sites[ENTRIES];
HIDDEN uintptr_t pinfold_mpi_silent_sites[ENTRIES];
HIDDEN __thread uint64_t *pinfold_mpi_counter;
HIDDEN __thread uintptr_t pinfold_mpi_site; /* of the thread's last call of an MPI_X */
extern HIDDEN char pinfold_mpi_entries_begin[], pinfold_mpi_entries_end[];
HIDDEN void *pinfold_mpi_enter(unsigned entry, uintptr_t site);

/* The count of a thread without a channel, which no one reads. */
static __thread uint64_t unread;

/* An object that has called an entry. Callers are never removed. */
struct caller {
    uintptr_t begin, end;
    bool is_library; /* the MPI library itself */
    bool is_program; /* the executable or Fortran bindings: its calls of PMPI_X are the program's */
    void *targets[ENTRIES]; /* the targets outside the global scope */
    struct caller *next;
};
static struct caller *callers;
static struct caller generated; /* code that lies in no object, because the program has generated it */

/* A definition behind the entries in the global scope. NULL if there is none. */
static void *find_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        dlerror(); /* The failure is the interposer's; the program should not see it. */
    return found;
}

static bool contains(uintptr_t begin, uintptr_t end, const void *address)
{
    return begin <= (uintptr_t)address && (uintptr_t)address < end;
}

static bool is_entry(const void *address)
{
    return contains((uintptr_t)pinfold_mpi_entries_begin, (uintptr_t)pinfold_mpi_entries_end, address);
}

/* Searches an object and its dependencies. NULL if they have no definition. */
static void *find_in(const struct object *object, const char *name)
{
    void *handle = dlopen(object->path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle != NULL ? dlsym(handle, name) : NULL;
    if (handle != NULL)
        dlclose(handle);
    if (found == NULL)
        dlerror();
    return found;
}

/* Whether an object itself defines a name. */
static bool defines(const struct object *object, const char *name)
{
    return contains(object->begin, object->end, find_in(object, name));
}

static bool is_executable(const struct object *object)
{
    return contains(object->begin, object->end, (const void *)getauxval(AT_PHDR));
}

/* Fortran compilers name an external procedure in one of these ways. The last two are of the bindings mpi_f08. */
static bool has_fortran_bindings(const struct object *object)
{
    static const char *const names[] = {"mpi_send_",  "mpi_send__",     "mpi_send",
                                        "MPI_SEND",   "mpi_send_f08_", "mpi_send_f08ts_"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (defines(object, names[i]))
            return true;
    return false;
}

/* Before main(): MPI in the global scope. From now on, no call means zero calls. */
__attribute__((constructor)) static void settle_global_scope(void)
{
    struct object library = {.address = (uintptr_t)find_next("PMPI_Init")};
    if (library.address == 0 || !pinfold_find_object(&library))
        return;
    pinfold_mpi_library = (struct range){library.begin, library.end - library.begin};
    for (unsigned entry = 0; entry < ENTRIES; entry++)
        pinfold_mpi_targets[entry] = find_next(name_of(entry));
    pinfold_get_channel(PINFOLD_SOURCE_MPI);
}

/* The caller with this call site. */
static struct caller *find_caller(uintptr_t site)
{
    for (struct caller *known = __atomic_load_n(&callers, __ATOMIC_ACQUIRE); known != NULL; known = known->next)
        if (known->begin <= site && site < known->end)
            return known;
    struct object object = {.address = site};
    struct caller *caller = pinfold_find_object(&object) ? calloc(1, sizeof *caller) : NULL;
    if (caller == NULL)
        return &generated;
    caller->begin = object.begin;
    caller->end = object.end;
    caller->is_library = defines(&object, "PMPI_Init");
    caller->is_program = is_executable(&object) || (has_fortran_bindings(&object) && !defines(&object, "MPI_Send"));
    caller->next = __atomic_load_n(&callers, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&callers, &caller->next, caller, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    return caller;
}

/* Searches outside the global scope: the caller's dependencies. If the caller has made a tail call, the call site is
 * its caller's, and the first loaded object with the function serves. */
static void *find_private(const struct caller *caller, const char *name)
{
    struct object object = {.address = caller->begin};
    void *found = caller != &generated && pinfold_find_object(&object) ? find_in(&object, name) : NULL;
    for (unsigned place = 0; found == NULL || is_entry(found); place++) {
        object = (struct object){.place = place};
        if (!pinfold_find_object(&object))
            return NULL;
        found = find_in(&object, name);
    }
    return found;
}

static void *find_target(unsigned entry, struct caller *caller)
{
    void *target = __atomic_load_n(&pinfold_mpi_targets[entry], __ATOMIC_ACQUIRE);
    if (target == NULL)
        target = __atomic_load_n(&caller->targets[entry], __ATOMIC_ACQUIRE);
    if (target != NULL)
        return target;
    target = find_next(name_of(entry));
    if (target != NULL) {
        __atomic_store_n(&pinfold_mpi_targets[entry], target, __ATOMIC_RELEASE);
        return target;
    }
    target = find_private(caller, name_of(entry));
    if (target == NULL) {
        fprintf(stderr, "pinfold: the program calls %s, and no loaded library defines it\n", name_of(entry));
        abort(); /* Without the interposer this call would have ended in the linker's "undefined symbol". */
    }
    __atomic_store_n(&caller->targets[entry], target, __ATOMIC_RELEASE);
    return target;
}

/* Whether a call counts: see the top of this file. */
static bool counts(unsigned entry, uintptr_t site, const struct caller *caller)
{
    if (!is_pmpi(entry))
        return !caller->is_library;
    if (caller->is_program)
        return site != pinfold_mpi_site;
    return !caller->is_library && !is_entry(dlsym(RTLD_DEFAULT, name_of(entry - 1)));
}

/* The slow path of an entry. Counts and returns the target. */
void *pinfold_mpi_enter(unsigned entry, uintptr_t site)
{
    const int saved_errno = errno;
    struct caller *caller = find_caller(site);
    void *target = find_target(entry, caller);
    if (pinfold_mpi_counter == NULL) {
        struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_MPI);
        pinfold_mpi_counter = slot != NULL ? &slot->mpi_calls : &unread;
    }
    const bool counted = counts(entry, site, caller);
    if (counted)
        __atomic_fetch_add(pinfold_mpi_counter, 1, __ATOMIC_RELAXED);
    if (!is_pmpi(entry))
        pinfold_mpi_site = site;
    else
        __atomic_store_n((counted ? pinfold_mpi_counted_sites : pinfold_mpi_silent_sites) + entry, site,
                         __ATOMIC_RELAXED);
    errno = saved_errno;
    return target;
}
