/*
 * Counts the parallel regions and barriers of programs that use GCC's libgomp, as an interposer between the two.
 *
 * Code compiled by `gcc -fopenmp` calls GOMP_parallel, GOMP_barrier and similar functions. The agent is preloaded, so
 * the dynamic linker binds these calls to the functions here; each calls the real one and counts when that has
 * returned. Names, parameters and meaning are those that GCC's code generator emits (GOMP ABI 1.0 to 5.1); calls of
 * other functions go to libgomp directly.
 *
 * The real function is not always the same. The linker looks for a symbol first in the global scope (the program and
 * the libraries that it is linked with), then among the caller's own dependencies; a Python process may have loaded
 * two copies of libgomp, each private to one extension module. Passing a call to the wrong copy would break the
 * program. So:
 *
 *   1. If the global scope has a libgomp, it serves all callers, as without the agent. This is decided before main(),
 *      so that ordinary programs never call the dynamic linker from here.
 *   2. Otherwise the caller is found by its return address, and its dependencies are searched. The result is stored for
 *      all addresses of that object. The first search is in a thread outside any region, for GOMP_parallel. The threads
 *      of its team find the result, so that none waits for the linker's lock while another holds it in dlopen().
 *   3. If that fails, the first loaded object with the symbols serves: the caller has made a tail call, and the return
 *      address is its caller's.
 *
 * LLVM's libomp has these entry points too, for programs that gcc compiled. Its regions are counted through OMPT
 * (ompt.c) and not here. Its barriers are counted here while the tool is active: OMPT reports the barriers of these
 * entry points among the internal ones of the runtime.
 *
 * Known limits: two private copies of libgomp can be confused in case 3 only, or when an object is unloaded and one
 * that uses another copy is loaded at its address.
 */
#define _GNU_SOURCE
#include "glibc.h"
#include "marks.h"
#include "objects.h"
#include "ompt.h"
#include "pinfold.h"
#include "regions.h"

#include <dlfcn.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*body)(void *);

/* The wrapped entry points: result, name after GOMP_, parameters. */
#define ENTRY_POINTS(X)                                                                                               \
    X(void, parallel, (body, void *, unsigned, unsigned))                                                             \
    X(unsigned, parallel_reductions, (body, void *, unsigned, unsigned))                                              \
    X(void, parallel_sections, (body, void *, unsigned, unsigned, unsigned))                                          \
    X(void, parallel_loop_static, (body, void *, unsigned, long, long, long, long, unsigned))                         \
    X(void, parallel_loop_dynamic, (body, void *, unsigned, long, long, long, long, unsigned))                        \
    X(void, parallel_loop_guided, (body, void *, unsigned, long, long, long, long, unsigned))                         \
    X(void, parallel_loop_nonmonotonic_dynamic, (body, void *, unsigned, long, long, long, long, unsigned))           \
    X(void, parallel_loop_nonmonotonic_guided, (body, void *, unsigned, long, long, long, long, unsigned))            \
    X(void, parallel_loop_runtime, (body, void *, unsigned, long, long, long, unsigned))                              \
    X(void, parallel_loop_nonmonotonic_runtime, (body, void *, unsigned, long, long, long, unsigned))                 \
    X(void, parallel_loop_maybe_nonmonotonic_runtime, (body, void *, unsigned, long, long, long, unsigned))           \
    X(void, parallel_end, (void))                                                                                     \
    X(void, barrier, (void))                                                                                          \
    X(bool, barrier_cancel, (void))                                                                                   \
    X(void, loop_end, (void))                                                                                         \
    X(bool, loop_end_cancel, (void))                                                                                  \
    X(void, sections_end, (void))                                                                                     \
    X(bool, sections_end_cancel, (void))

#define DECLARE(result, name, parameters) EXPORT result GOMP_##name parameters;
ENTRY_POINTS(DECLARE)

/* One OpenMP runtime's real entry points. A member is NULL if an older runtime lacks it. */
struct runtime {
#define MEMBER(result, name, parameters) result(*name) parameters;
    ENTRY_POINTS(MEMBER)
    int (*get_thread_num)(void);
    int (*get_level)(void);
    int (*get_max_threads)(void);
    bool is_libomp;
};

/* The runtime of the global scope, once it is known. */
static struct runtime global_runtime;
static bool global_runtime_known;

/* The addresses of one object whose calls go to a runtime outside the global scope. Entries are never removed. */
struct scope {
    uintptr_t begin, end;
    struct runtime runtime;
    struct scope *next;
};
static struct scope *private_scopes;

/* Sets `runtime` to the functions in `handle`. Returns whether there was a runtime. */
static bool find_runtime(void *handle, struct runtime *runtime)
{
    if (dlsym(handle, "GOMP_parallel") == NULL || dlsym(handle, "GOMP_parallel") == (void *)GOMP_parallel) {
        dlerror(); /* The failure is the agent's; the program should not see it. */
        return false;
    }
#define FIND(result, name, parameters) runtime->name = (result(*) parameters)dlsym(handle, "GOMP_" #name);
    ENTRY_POINTS(FIND)
    runtime->get_thread_num = (int (*)(void))dlsym(handle, "omp_get_thread_num");
    runtime->get_level = (int (*)(void))dlsym(handle, "omp_get_level");
    runtime->get_max_threads = (int (*)(void))dlsym(handle, "omp_get_max_threads");

    /* libomp defines __kmpc_fork_call in the object that defines GOMP_parallel. */
    Dl_info gomp, kmpc;
    void *fork_call = dlsym(handle, "__kmpc_fork_call");
    runtime->is_libomp = fork_call != NULL && dladdr((void *)runtime->parallel, &gomp) != 0 &&
                         dladdr(fork_call, &kmpc) != 0 && gomp.dli_fbase == kmpc.dli_fbase;
    dlerror();
    if (!runtime->is_libomp)
        pinfold_get_channel(PINFOLD_SOURCE_GOMP); /* From now on, no region means zero regions. */
    return true;
}

/* Searches the global scope, and stores a runtime that is there. */
static bool find_global_runtime(void)
{
    struct runtime found;
    if (!find_runtime(RTLD_NEXT, &found))
        return false;
    /* Two threads may be here at once, after a dlopen() with RTLD_GLOBAL. Both write the same value. */
    global_runtime = found;
    __atomic_store_n(&global_runtime_known, true, __ATOMIC_RELEASE);
    return true;
}

__attribute__((constructor)) static void settle_global_scope(void)
{
    find_global_runtime();
}

/* Searches an object's own dependencies. */
static bool find_private_runtime(const struct object *object, struct runtime *runtime)
{
    void *handle = dlopen(object->path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        dlerror();
        return false;
    }
    bool found = find_runtime(handle, runtime);
    dlclose(handle);
    return found;
}

/* The runtime for a new caller; cases 1, 2 and 3 above. */
static const struct runtime *find_runtime_for(uintptr_t call_site)
{
    if (find_global_runtime())
        return &global_runtime;

    struct scope *scope = malloc(sizeof *scope);
    struct object caller = {.address = call_site};
    bool found = false;
    if (scope != NULL && pinfold_find_object(&caller)) {
        found = find_private_runtime(&caller, &scope->runtime);
        for (unsigned place = 0; !found; place++) {
            struct object other = {.place = place};
            if (!pinfold_find_object(&other))
                break;
            found = find_private_runtime(&other, &scope->runtime);
        }
    }
    if (!found)
        abort(); /* Without the agent this call would have ended in the linker's "undefined symbol". */
    scope->begin = caller.begin;
    scope->end = caller.end;
    scope->next = __atomic_load_n(&private_scopes, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&private_scopes, &scope->next, scope, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    return &scope->runtime;
}

static const struct runtime *runtime_for(uintptr_t call_site)
{
    /* A caller keeps its runtime after another one has entered the global scope. */
    for (struct scope *scope = __atomic_load_n(&private_scopes, __ATOMIC_ACQUIRE); scope != NULL; scope = scope->next)
        if (scope->begin <= call_site && call_site < scope->end)
            return &scope->runtime;
    if (__atomic_load_n(&global_runtime_known, __ATOMIC_ACQUIRE))
        return &global_runtime;
    return find_runtime_for(call_site);
}
#define RUNTIME runtime_for((uintptr_t)__builtin_return_address(0))

/* A region has ended: all regions count, nested or not, with a team of any size. */
static void count_region(const struct runtime *runtime)
{
    if (runtime->is_libomp)
        return;
    struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_GOMP);
    if (slot != NULL)
        __atomic_fetch_add(&slot->regions, 1, __ATOMIC_RELAXED);
}

/* The calling thread has passed a barrier. Thread 0 counts for its team. Barriers outside any region do not count. */
static void count_barrier(const struct runtime *runtime)
{
    if (runtime->is_libomp && !__atomic_load_n(&ompt_tool_in_force, __ATOMIC_RELAXED))
        return;
    if (runtime->get_thread_num() != 0 || runtime->get_level() == 0)
        return;
    struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_GOMP);
    if (slot != NULL)
        __atomic_fetch_add(&slot->barriers, 1, __ATOMIC_RELAXED);
}

/* A region's body, with a mark at each end of every thread's share, and the region that places its threads. */
struct marked {
    body run;
    void *data;
    const struct runtime *runtime;
    struct pinfold_region *region; /* NULL if no threads are placed */
};

static void run_marked(void *argument)
{
    const struct marked *marked = argument;
    if (marked->region != NULL)
        pinfold_place_in_region(marked->region, (unsigned)marked->runtime->get_thread_num());
    pinfold_mark(PINFOLD_MARK_WORK_BEGIN, (const void *)marked->run, 0);
    marked->run(marked->data);
    pinfold_mark(PINFOLD_MARK_WORK_END, (const void *)marked->run, 0);
}

/* Whether this file makes the marks of this runtime's regions and barriers. The OMPT tool makes libomp's marks. */
static bool marks_here(const struct runtime *runtime)
{
    return pinfold_marks_wanted() && !(runtime->is_libomp && __atomic_load_n(&ompt_tool_in_force, __ATOMIC_RELAXED));
}

/* The region whose team is about to start, if pinfold times and places regions. Nested regions are ignored, and the
 * OMPT tool handles libomp's regions. */
static struct pinfold_region *region_of(const struct runtime *runtime, body run)
{
    struct pinfold_region *region = runtime->is_libomp ? NULL : pinfold_find_region((const void *)run);
    return region != NULL && runtime->get_level() == 0 ? region : NULL;
}

/* The number of threads of its team. */
static unsigned team_size(const struct runtime *runtime, struct pinfold_region *region, unsigned asked)
{
    return pinfold_region_threads(region, asked, (unsigned)runtime->get_max_threads());
}

/* Parallel regions. For marks or placement, the runtime runs `run_marked` in place of the program's function. */

#define BEGIN_REGION                                                                                                  \
    const struct runtime *runtime = RUNTIME;                                                                          \
    const struct marked marked = {run, data, runtime, region_of(runtime, run)};                                       \
    const bool marks = marks_here(runtime);                                                                           \
    if (marks)                                                                                                        \
        pinfold_mark(PINFOLD_MARK_REGION_BEGIN, (const void *)marked.run, threads);                                   \
    if (marks || marked.region != NULL) {                                                                             \
        run = run_marked;                                                                                             \
        data = (void *)&marked;                                                                                       \
    }                                                                                                                 \
    uint64_t since = 0;                                                                                               \
    if (marked.region != NULL) {                                                                                      \
        since = pinfold_region_clock();                                                                               \
        threads = team_size(runtime, marked.region, threads);                                                         \
    }
#define END_REGION                                                                                                    \
    if (marked.region != NULL)                                                                                        \
        pinfold_region_ended(marked.region, since);                                                                   \
    if (marks)                                                                                                        \
        pinfold_mark(PINFOLD_MARK_REGION_END, (const void *)marked.run, 0);                                           \
    count_region(runtime);

void GOMP_parallel(body run, void *data, unsigned threads, unsigned flags)
{
    BEGIN_REGION
    runtime->parallel(run, data, threads, flags);
    END_REGION
}

unsigned GOMP_parallel_reductions(body run, void *data, unsigned threads, unsigned flags)
{
    /* The runtime finds the reductions in the data, which must reach it unchanged. */
    const struct runtime *runtime = RUNTIME;
    const bool marks = marks_here(runtime);
    if (marks)
        pinfold_mark(PINFOLD_MARK_REGION_BEGIN, (const void *)run, threads);
    struct pinfold_region *region = region_of(runtime, run);
    const uint64_t since = region != NULL ? pinfold_region_clock() : 0;
    if (region != NULL) {
        threads = team_size(runtime, region, threads);
        __atomic_fetch_or(&region->flags, PINFOLD_REGION_NOT_PLACED, __ATOMIC_RELAXED);
    }
    unsigned team = runtime->parallel_reductions(run, data, threads, flags);
    if (region != NULL)
        pinfold_region_ended(region, since);
    if (marks)
        pinfold_mark(PINFOLD_MARK_REGION_END, (const void *)run, 0);
    count_region(runtime);
    return team;
}

void GOMP_parallel_sections(body run, void *data, unsigned threads, unsigned count, unsigned flags)
{
    BEGIN_REGION
    runtime->parallel_sections(run, data, threads, count, flags);
    END_REGION
}

#define LOOP_WITH_CHUNK(name)                                                                                         \
    void GOMP_##name(body run, void *data, unsigned threads, long start, long end, long step, long chunk,             \
                     unsigned flags)                                                                                  \
    {                                                                                                                 \
        BEGIN_REGION                                                                                                  \
        runtime->name(run, data, threads, start, end, step, chunk, flags);                                            \
        END_REGION                                                                                                    \
    }
LOOP_WITH_CHUNK(parallel_loop_static)
LOOP_WITH_CHUNK(parallel_loop_dynamic)
LOOP_WITH_CHUNK(parallel_loop_guided)
LOOP_WITH_CHUNK(parallel_loop_nonmonotonic_dynamic)
LOOP_WITH_CHUNK(parallel_loop_nonmonotonic_guided)

#define LOOP_OF_RUNTIME_SCHEDULE(name)                                                                                \
    void GOMP_##name(body run, void *data, unsigned threads, long start, long end, long step, unsigned flags)         \
    {                                                                                                                 \
        BEGIN_REGION                                                                                                  \
        runtime->name(run, data, threads, start, end, step, flags);                                                   \
        END_REGION                                                                                                    \
    }
LOOP_OF_RUNTIME_SCHEDULE(parallel_loop_runtime)
LOOP_OF_RUNTIME_SCHEDULE(parallel_loop_nonmonotonic_runtime)
LOOP_OF_RUNTIME_SCHEDULE(parallel_loop_maybe_nonmonotonic_runtime)

/* GCC before 4.9 emitted GOMP_parallel_start or a similar function, the body, and this. */
void GOMP_parallel_end(void)
{
    const struct runtime *runtime = RUNTIME;
    runtime->parallel_end();
    count_region(runtime);
}

/* Barriers. A cancelled one was not passed. */

static void mark_barrier(const struct runtime *runtime, enum pinfold_mark kind)
{
    if (marks_here(runtime))
        pinfold_mark(kind, NULL, 0);
}

#define BARRIER(name)                                                                                                 \
    void GOMP_##name(void)                                                                                            \
    {                                                                                                                 \
        const struct runtime *runtime = RUNTIME;                                                                      \
        mark_barrier(runtime, PINFOLD_MARK_BARRIER_BEGIN);                                                            \
        runtime->name();                                                                                              \
        mark_barrier(runtime, PINFOLD_MARK_BARRIER_END);                                                              \
        count_barrier(runtime);                                                                                       \
    }
BARRIER(barrier)
BARRIER(loop_end)
BARRIER(sections_end)

#define CANCELLABLE_BARRIER(name)                                                                                     \
    bool GOMP_##name(void)                                                                                            \
    {                                                                                                                 \
        const struct runtime *runtime = RUNTIME;                                                                      \
        mark_barrier(runtime, PINFOLD_MARK_BARRIER_BEGIN);                                                            \
        bool cancelled = runtime->name();                                                                             \
        mark_barrier(runtime, PINFOLD_MARK_BARRIER_END);                                                              \
        if (!cancelled)                                                                                               \
            count_barrier(runtime);                                                                                   \
        return cancelled;                                                                                             \
    }
CANCELLABLE_BARRIER(barrier_cancel)
CANCELLABLE_BARRIER(loop_end_cancel)
CANCELLABLE_BARRIER(sections_end_cancel)
