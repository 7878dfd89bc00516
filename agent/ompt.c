/*
 * Counts the parallel regions and barriers of programs that use LLVM's libomp, as an OMPT tool (OpenMP 5.0, chapter 4).
 *
 * libomp searches for a tool once. First it calls the ompt_start_tool in the address space, which is the agent's if the
 * agent was preloaded. Then it calls the ompt_start_tool of each library in OMP_TOOL_LIBRARIES, until one accepts. The
 * user's tool has priority: a tool that is linked into the program is found first. For tools in OMP_TOOL_LIBRARIES the
 * agent declines the first call. pinfold has appended it to that list, and it accepts the second call. With
 * OMP_TOOL=disabled libomp calls no tool.
 *
 * The few declarations are copied from the specification, because not all compilers have the header.
 */
#define _GNU_SOURCE
#include "affinity.h"
#include "glibc.h"
#include "marks.h"
#include "ompt.h"
#include "pinfold.h"
#include "regions.h"

#include <dlfcn.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

typedef union {
    uint64_t value;
    void *pointer;
} ompt_data;
typedef void (*ompt_interface)(void);
typedef ompt_interface (*ompt_function_lookup)(const char *name);
typedef int (*ompt_set_callback)(int event, ompt_interface callback);
typedef int (*ompt_get_task_info)(int ancestor_level, int *flags, ompt_data **task, void **frame,
                                  ompt_data **parallel, int *thread_num);
struct ompt_start_tool_result {
    int (*initialize)(ompt_function_lookup lookup, int initial_device_num, ompt_data *tool_data);
    void (*finalize)(ompt_data *tool_data);
    ompt_data tool_data;
};

enum { EVENT_PARALLEL_BEGIN = 3, EVENT_PARALLEL_END = 4, EVENT_IMPLICIT_TASK = 7, EVENT_SYNC_REGION = 23 };
enum { SCOPE_BEGIN = 1, SCOPE_END = 2 };
enum { INFO_AVAILABLE = 2 };
enum { TASK_INITIAL = 0x1 };
#define PARALLEL_TEAM 0x80000000u
/* The kinds of ompt_sync_region_t that are barriers of the program. Waits for tasks and internal barriers of the
 * runtime are excluded. */
enum { BARRIER = 1, BARRIER_IMPLICIT = 2, BARRIER_EXPLICIT = 3, BARRIER_IMPLICIT_WORKSHARE = 8 };

static ompt_get_task_info get_task_info;
bool ompt_tool_in_force;

/* libomp's own functions. NULL if no regions are placed. */
static int (*get_max_threads)(void);
static void (*set_num_threads)(int);

/* The outermost region that the calling thread has started, its start time, and the earlier omp_get_max_threads(); and
 * the number of shares of regions that the thread is in. */
static __thread struct {
    struct pinfold_region *region;
    uint64_t since;
    int max_threads;
    unsigned shares;
} outermost;

/* A region's team is about to start. libomp reads the number of threads after this callback, so it is set for the
 * encountering task, until the region has ended. */
static void begin_placed(const void *code, unsigned asked)
{
    struct pinfold_region *region = outermost.shares == 0 ? pinfold_find_region(code) : NULL;
    if (region == NULL || set_num_threads == NULL || outermost.region != NULL)
        return;
    outermost.region = region;
    outermost.max_threads = get_max_threads();
    const unsigned most = (unsigned)outermost.max_threads;
    const unsigned threads = pinfold_region_threads(region, asked == most ? 0 : asked, most);
    if (asked == most && threads != 0)
        set_num_threads((int)threads);
    outermost.since = pinfold_region_clock();
}

static void end_placed(void)
{
    if (outermost.region == NULL || outermost.shares != 0)
        return;
    pinfold_region_ended(outermost.region, outermost.since);
    outermost.region = NULL;
    if (get_max_threads() != outermost.max_threads)
        set_num_threads(outermost.max_threads);
}

/* A region starts. In marks, the address of its call identifies it. */
static void parallel_begin(ompt_data *encountering_task, const void *frame, ompt_data *parallel, unsigned threads,
                           int flags, const void *code)
{
    (void)encountering_task, (void)frame;
    parallel->pointer = (void *)code;
    if (((unsigned)flags & PARALLEL_TEAM) != 0)
        begin_placed(code, threads);
    if (((unsigned)flags & PARALLEL_TEAM) != 0)
        pinfold_mark(PINFOLD_MARK_REGION_BEGIN, code, threads);
}

/* A thread of the team starts or has ended its share. At its end the region does not exist any more. */
static void implicit_task(int endpoint, ompt_data *parallel, ompt_data *task, unsigned threads, unsigned index,
                          int flags)
{
    (void)threads;
    if ((flags & TASK_INITIAL) != 0)
        return;
    if (endpoint == SCOPE_BEGIN) {
        task->pointer = parallel->pointer;
        const bool is_outermost = outermost.shares++ == 0;
        struct pinfold_region *region =
            is_outermost && pinfold_places_in_regions() ? pinfold_find_region(parallel->pointer) : NULL;
        if (region != NULL)
            pinfold_place_in_region(region, index);
        pinfold_mark(PINFOLD_MARK_WORK_BEGIN, task->pointer, 0);
    } else {
        if (outermost.shares > 0)
            outermost.shares--;
        pinfold_mark(PINFOLD_MARK_WORK_END, task->pointer, 0);
    }
}

/* A region has ended. A league of teams is not a region, but the regions inside it are. */
static void parallel_end(ompt_data *parallel, ompt_data *encountering_task, int flags, const void *code)
{
    (void)parallel, (void)encountering_task;
    end_placed();
    if (((unsigned)flags & PARALLEL_TEAM) != 0)
        pinfold_mark(PINFOLD_MARK_REGION_END, code, 0);
    struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_OMPT);
    if (slot != NULL && ((unsigned)flags & PARALLEL_TEAM) != 0)
        __atomic_fetch_add(&slot->regions, 1, __ATOMIC_RELAXED);
}

/* A thread has reached a barrier or passed it. Thread 0 counts for its team. */
static void sync_region(int kind, int endpoint, ompt_data *parallel, ompt_data *task, const void *code)
{
    (void)task, (void)code;
    if (kind != BARRIER && kind != BARRIER_IMPLICIT && kind != BARRIER_EXPLICIT && kind != BARRIER_IMPLICIT_WORKSHARE)
        return;
    pinfold_mark(endpoint == SCOPE_BEGIN ? PINFOLD_MARK_BARRIER_BEGIN : PINFOLD_MARK_BARRIER_END, NULL, 0);
    /* The region does not exist any more when its final barrier is passed. */
    if (endpoint != SCOPE_END || parallel == NULL)
        return;
    int flags, thread_num;
    if (get_task_info(0, &flags, NULL, NULL, NULL, &thread_num) != INFO_AVAILABLE || thread_num != 0 ||
        (flags & TASK_INITIAL) != 0)
        return;
    struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_OMPT);
    if (slot != NULL)
        __atomic_fetch_add(&slot->barriers, 1, __ATOMIC_RELAXED);
}

/* Finds the functions for placing regions in the library that reports to the tool. Returns whether regions are
 * placed. */
static bool find_functions(void)
{
    Dl_info library;
    if (getenv("PINFOLD_REGIONS") == NULL || dladdr((void *)get_task_info, &library) == 0)
        return false;
    void *handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        dlerror(); /* The failure is the agent's; the program should not see it. */
        return false;
    }
    get_max_threads = (int (*)(void))dlsym(handle, "omp_get_max_threads");
    set_num_threads = (void (*)(int))dlsym(handle, "omp_set_num_threads");
    dlclose(handle);
    return get_max_threads != NULL && set_num_threads != NULL;
}

static int initialize(ompt_function_lookup lookup, int initial_device_num, ompt_data *tool_data)
{
    (void)initial_device_num, (void)tool_data;
    ompt_set_callback set_callback = (ompt_set_callback)lookup("ompt_set_callback");
    get_task_info = (ompt_get_task_info)lookup("ompt_get_task_info");
    if (set_callback == NULL || get_task_info == NULL)
        return 0;
    set_callback(EVENT_PARALLEL_END, (ompt_interface)parallel_end);
    const bool regions = find_functions();
    if (pinfold_marks_wanted() || regions) {
        set_callback(EVENT_PARALLEL_BEGIN, (ompt_interface)parallel_begin);
        set_callback(EVENT_IMPLICIT_TASK, (ompt_interface)implicit_task);
    }
    set_callback(EVENT_SYNC_REGION, (ompt_interface)sync_region);
    pinfold_get_channel(PINFOLD_SOURCE_OMPT); /* From now on, no region means zero regions. */
    __atomic_store_n(&ompt_tool_in_force, true, __ATOMIC_RELAXED);
    return 1;
}

static void finalize(ompt_data *tool_data)
{
    (void)tool_data;
    __atomic_store_n(&ompt_tool_in_force, false, __ATOMIC_RELAXED);
}

EXPORT struct ompt_start_tool_result *ompt_start_tool(unsigned omp_version, const char *runtime_version);

struct ompt_start_tool_result *ompt_start_tool(unsigned omp_version, const char *runtime_version)
{
    static struct ompt_start_tool_result tool = {.initialize = initialize, .finalize = finalize};
    static bool asked;
    const char *libraries = getenv("OMP_TOOL_LIBRARIES");
    bool first = !__atomic_exchange_n(&asked, true, __ATOMIC_RELAXED);
    (void)omp_version, (void)runtime_version;
    if (getenv("PINFOLD_CHANNEL") == NULL || (first && libraries != NULL && libraries[0] != '\0'))
        return NULL;
    /* libomp is about to read the affinity mask. */
    pinfold_unpin_this_thread();
    /* libomp's own tool, Archer, prevents false reports of ThreadSanitizer, and is used only without another tool. */
    if (dlsym(RTLD_DEFAULT, "__tsan_init") != NULL)
        return NULL;
    return &tool;
}
