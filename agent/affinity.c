/*
 * Answers a program that reads its affinity mask as if pinfold had pinned nothing.
 *
 * Runtimes size their thread pools by the affinity mask of the calling thread: OpenMP's omp_get_num_procs(), the JVM,
 * Python's os.sched_getaffinity(), Rust's available_parallelism(). A thread that pinfold has pinned to one PU would
 * read a mask of one PU, and the program would have one thread. So the agent stores the mask with which the process
 * began, and returns it for a thread that has exactly one PU of it.
 *
 *   1. The mask is read before main(), when pinfold has not pinned the process's first thread yet.
 *   2. A process that sets a mask itself reads the real masks from then on: it manages its own threads.
 *   3. LLVM's OpenMP runtime reads the mask by a direct system call, which a library cannot intercept. Before it begins
 *      (ompt_start_tool), its thread gets its original mask. pinfold pins the thread again when it next reads the
 *      masks, as after any runtime that has reset a mask.
 *
 * Known limit: the kernel answers other direct system calls.
 */
#define _GNU_SOURCE
#include "affinity.h"
#include "glibc.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* 65536 PUs, eight times the limit of Linux. */
#define MASK_BYTES 8192

/* The mask with which the process began, and its length in the kernel; 0 when it could not be read. */
static unsigned char initial[MASK_BYTES];
static size_t initial_bytes;

/* Whether the process has set a mask. */
static atomic_bool sets_masks;

static int (*real_get)(pid_t, size_t, cpu_set_t *);
static int (*real_set)(pid_t, size_t, const cpu_set_t *);
static int (*real_pthread_get)(pthread_t, size_t, cpu_set_t *);
static int (*real_pthread_set)(pthread_t, size_t, const cpu_set_t *);
static int (*real_attribute_set)(pthread_attr_t *, size_t, const cpu_set_t *);

__attribute__((constructor)) static void begin(void)
{
    real_get = (int (*)(pid_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "sched_getaffinity");
    real_set = (int (*)(pid_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "sched_setaffinity");
    real_pthread_get = (int (*)(pthread_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "pthread_getaffinity_np");
    real_pthread_set = (int (*)(pthread_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    real_attribute_set =
        (int (*)(pthread_attr_t *, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "pthread_attr_setaffinity_np");
    long length = syscall(SYS_sched_getaffinity, 0, sizeof initial, initial);
    initial_bytes = length > 0 ? (size_t)length : 0;
}

static unsigned char initial_byte(size_t index)
{
    return index < initial_bytes ? initial[index] : 0;
}

/* Replaces a mask of exactly one PU, which is in the mask with which the process began, by that mask. */
static void widen(size_t size, cpu_set_t *mask)
{
    unsigned char *bytes = (unsigned char *)mask;
    unsigned pus = 0;
    if (atomic_load_explicit(&sets_masks, memory_order_relaxed) || initial_bytes == 0)
        return;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] & ~initial_byte(i))
            return;
        pus += (unsigned)__builtin_popcount(bytes[i]);
    }
    if (pus != 1)
        return;
    for (size_t i = size; i < initial_bytes; i++)
        if (initial[i])
            return; /* The caller's buffer is too short; glibc would have refused it. */
    for (size_t i = 0; i < size; i++)
        bytes[i] = initial_byte(i);
}

/* Whether `thread` is a thread of this process; 0 means the calling one. */
static bool is_ours(pid_t thread)
{
    int before = errno;
    bool ours = thread == 0 || syscall(SYS_tgkill, getpid(), thread, 0) == 0;
    errno = before;
    return ours;
}

EXPORT int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *mask)
{
    if (!real_get)
        begin();
    int result = real_get(thread, size, mask);
    if (result == 0 && is_ours(thread))
        widen(size, mask);
    return result;
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *mask)
{
    if (!real_pthread_get)
        begin();
    int result = real_pthread_get(thread, size, mask);
    if (result == 0)
        widen(size, mask);
    return result;
}

EXPORT int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *mask)
{
    if (!real_set)
        begin();
    if (is_ours(thread))
        atomic_store_explicit(&sets_masks, true, memory_order_relaxed);
    return real_set(thread, size, mask);
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    if (!real_pthread_set)
        begin();
    atomic_store_explicit(&sets_masks, true, memory_order_relaxed);
    return real_pthread_set(thread, size, mask);
}

EXPORT int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *mask)
{
    if (!real_attribute_set)
        begin();
    atomic_store_explicit(&sets_masks, true, memory_order_relaxed);
    return real_attribute_set(attributes, size, mask);
}

void pinfold_unpin_this_thread(void)
{
    unsigned char now[MASK_BYTES];
    int before = errno;
    if (!atomic_load_explicit(&sets_masks, memory_order_relaxed) && initial_bytes != 0) {
        long length = syscall(SYS_sched_getaffinity, 0, sizeof now, now);
        if (length > 0) {
            widen((size_t)length, (cpu_set_t *)now);
            syscall(SYS_sched_setaffinity, 0, (size_t)length, now);
        }
    }
    errno = before;
}

bool pinfold_process_sets_masks(void)
{
    return atomic_load_explicit(&sets_masks, memory_order_relaxed);
}

/* The system call, past the functions above. */
static bool set_mask(size_t bytes, const void *mask)
{
    int before = errno;
    bool done = bytes != 0 && syscall(SYS_sched_setaffinity, 0, bytes, mask) == 0;
    errno = before;
    return done;
}

bool pinfold_pin_this_thread(unsigned pu)
{
    /* Whole words, as the kernel reads them; 1024 PUs, as many as regions.h has. */
    unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {0};
    if (pu >= 8 * sizeof mask || (initial_byte(pu / 8) & (1u << pu % 8)) == 0)
        return false;
    mask[pu / (8 * sizeof *mask)] = 1ul << pu % (8 * sizeof *mask);
    return set_mask(sizeof mask, mask);
}

bool pinfold_give_original_mask(void)
{
    return set_mask(initial_bytes, initial);
}
