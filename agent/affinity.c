/*
 * Answers a program that reads its affinity mask as if pinfold had pinned no thread.
 *
 * Runtimes size their thread pools by the affinity mask of the calling thread: OpenMP's omp_get_num_procs(), the JVM,
 * Python's os.sched_getaffinity(), Rust's available_parallelism(). A thread that pinfold has pinned to one PU would
 * read a mask of one PU, and the program would have one thread. So the agent stores the process's original mask, and
 * returns it for a thread that has exactly one PU of it.
 *
 *   1. The mask is read before main(), while pinfold has not pinned the process's first thread yet.
 *   2. The C library may also count PUs by the mask, with a direct system call (musl; glibc 2.34): sysconf() and
 *      get_nprocs() are answered from the original mask.
 *   3. If a process sets a mask itself, it reads the real masks from then on, because it manages its threads. A child
 *      of vfork() has its parent's memory until its exec: a mask that it sets counts only for the child.
 *   4. LLVM's OpenMP runtime reads the mask with syscall(), which returns the kernel's mask (system_calls.c). Before it
 *      starts (ompt_start_tool), its thread gets its original mask. pinfold pins the thread again when it next reads
 *      the masks, as after any runtime that has reset a mask.
 *
 * After main() has started, an answer makes no additional system call: a sandbox (seccomp) could kill the program for
 * it. So a thread of this process is recognised by memory alone. Setting a mask makes one additional call.
 *
 * Known limits: the kernel answers other direct system calls, and queries for another thread by its number.
 */
#define _GNU_SOURCE
#include "affinity.h"
#include "glibc.h"
#include "pinfold.h"
#include "scheduling.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* 65536 PUs, eight times the limit of Linux. */
#define MASK_BYTES 8192

/* The process's original mask, and its length in the kernel. The length is 0 if the mask could not be read. */
static unsigned char initial[MASK_BYTES];
static size_t initial_bytes;

static unsigned initial_pus;

/* Whether no one had set that mask, judged by pinfold: it has all PUs of the program. */
static bool initial_is_unset;

/* The process that this memory belongs to, and whether it has set a mask. */
static atomic_int owner;
static atomic_bool owner_sets_masks;

/* The last other process that has set a mask while it ran in this memory: a child of vfork(), or a child that was
 * forked by a direct system call. */
static atomic_int visitor_that_sets_masks;

/* The offset of a thread's own number from pthread_self(), in bytes. 0 if it is not known. */
static size_t number_at;

/* The end of the search for it: glibc has it after 720 bytes, musl after less than 64. */
#define LONGEST_THREAD 1024

static int (*real_get)(pid_t, size_t, cpu_set_t *);
static int (*real_set)(pid_t, size_t, const cpu_set_t *);
static int (*real_pthread_get)(pthread_t, size_t, cpu_set_t *);
static int (*real_pthread_set)(pthread_t, size_t, const cpu_set_t *);
static int (*real_attribute_set)(pthread_attr_t *, size_t, const cpu_set_t *);
static int (*real_get_nprocs)(void);
static int (*real_get_nprocs_conf)(void);

static unsigned count(size_t size, const unsigned char *bytes)
{
    unsigned pus = 0;
    for (size_t i = 0; i < size; i++)
        pus += (unsigned)__builtin_popcount(bytes[i]);
    return pus;
}

/* The calling thread's number, from the C library's memory. 0 if its offset is not known. */
static pid_t own_number(void)
{
    return number_at == 0 ? 0 : *(const pid_t *)((const char *)pthread_self() + number_at);
}

/* Finds the C library's copy of a thread's number. In glibc and musl it is in the structure that pthread_self() points
 * to. A new thread and a child of fork() have the right number there before they run. */
static void find_number(void)
{
    const pid_t own = (pid_t)syscall(SYS_gettid);
    for (size_t at = sizeof own; at < LONGEST_THREAD; at += sizeof own) {
        if (*(const pid_t *)((const char *)pthread_self() + at) == own) {
            number_at = at;
            return;
        }
    }
}

static void this_process_owns_the_memory(void)
{
    /* The only thread of a child of fork() has the number of the process. */
    const pid_t number = own_number();
    atomic_store_explicit(&owner, number != 0 ? number : getpid(), memory_order_relaxed);
}

__attribute__((constructor)) static void begin(void)
{
    real_get = (int (*)(pid_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "sched_getaffinity");
    real_set = (int (*)(pid_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "sched_setaffinity");
    real_pthread_get = (int (*)(pthread_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "pthread_getaffinity_np");
    real_pthread_set = (int (*)(pthread_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    real_attribute_set =
        (int (*)(pthread_attr_t *, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "pthread_attr_setaffinity_np");
    real_get_nprocs = (int (*)(void))dlsym(RTLD_NEXT, "get_nprocs");
    real_get_nprocs_conf = (int (*)(void))dlsym(RTLD_NEXT, "get_nprocs_conf");
    long length = syscall(SYS_sched_getaffinity, 0, sizeof initial, initial);
    initial_bytes = length > 0 ? (size_t)length : 0;
    initial_pus = count(initial_bytes, initial);
    /* The channel is mapped early, because a program may later forbid itself to open files. */
    const struct pinfold_channel *channel = pinfold_mapped();
    initial_is_unset = channel != NULL && channel->unset_pus != 0 && initial_pus >= channel->unset_pus;
}

/* glibc has pthread_atfork() in the static part of its library only, which calls this. musl does not have it. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));

__attribute__((constructor)) static void watch_forks(void)
{
    atomic_store_explicit(&owner, getpid(), memory_order_relaxed);
    find_number();
    int (*atfork)(void (*)(void), void (*)(void), void (*)(void)) = NULL;
    if (__register_atfork != NULL)
        __register_atfork(NULL, NULL, this_process_owns_the_memory, NULL);
    else if ((atfork = (int (*)(void (*)(void), void (*)(void), void (*)(void)))dlsym(RTLD_NEXT, "pthread_atfork")) != NULL)
        atfork(NULL, NULL, this_process_owns_the_memory);
}

/* Records that the calling process has set a mask. */
static void note_own_mask(void)
{
    const int process = getpid();
    if (process == atomic_load_explicit(&owner, memory_order_relaxed))
        atomic_store_explicit(&owner_sets_masks, true, memory_order_relaxed);
    else
        atomic_store_explicit(&visitor_that_sets_masks, process, memory_order_relaxed);
}

bool pinfold_process_sets_masks(void)
{
    const int visitor = atomic_load_explicit(&visitor_that_sets_masks, memory_order_relaxed);
    return atomic_load_explicit(&owner_sets_masks, memory_order_relaxed) || (visitor != 0 && visitor == getpid());
}

static unsigned char initial_byte(size_t index)
{
    return index < initial_bytes ? initial[index] : 0;
}

/* Replaces a mask of exactly one PU of the process's original mask by the original mask. Returns whether it did. */
static bool widen(size_t size, cpu_set_t *mask)
{
    unsigned char *bytes = (unsigned char *)mask;
    if (pinfold_process_sets_masks() || initial_bytes == 0)
        return false;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] & ~initial_byte(i))
            return false;
    if (count(size, bytes) != 1)
        return false;
    for (size_t i = size; i < initial_bytes; i++)
        if (initial[i])
            return false; /* The caller's buffer is too short; glibc would have refused it. */
    for (size_t i = 0; i < size; i++)
        bytes[i] = initial_byte(i);
    return true;
}

/* Whether `thread` is known to belong to this process: it is 0, the calling thread, or the first thread. */
static bool is_ours(pid_t thread)
{
    return thread == 0 || thread == own_number() || thread == atomic_load_explicit(&owner, memory_order_relaxed);
}

/* Whether `thread` is another thread of this process. Queries the kernel. */
static bool is_our_other_thread(pid_t thread)
{
    int before = errno;
    bool ours = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
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
    if (is_ours(thread) || is_our_other_thread(thread))
        note_own_mask();
    return real_set(thread, size, mask);
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    if (!real_pthread_set)
        begin();
    /* This also holds in a child of vfork(): the C library knows only the threads of its parent. */
    atomic_store_explicit(&owner_sets_masks, true, memory_order_relaxed);
    return real_pthread_set(thread, size, mask);
}

EXPORT int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *mask)
{
    if (!real_attribute_set)
        begin();
    atomic_store_explicit(&owner_sets_masks, true, memory_order_relaxed);
    return real_attribute_set(attributes, size, mask);
}

/* The C library's number of PUs, as if pinfold had pinned no thread. A number that comes from the mask is 1 in a pinned
 * thread. */
static long unpinned(long counted)
{
    /* 8192 PUs, the limit of Linux. The array is small because signal handlers may have small stacks. */
    unsigned char now[1024];
    if (counted != 1 || initial_pus < 2)
        return counted;
    int before = errno;
    long length = syscall(SYS_sched_getaffinity, 0, sizeof now, now);
    errno = before;
    if (length <= 0)
        return counted;
    widen((size_t)length, (cpu_set_t *)now);
    return (long)count((size_t)length, now);
}

/* glibc's internal name of sysconf(). Allocators call it before dlsym() can be called. musl lacks it. */
extern long __sysconf(int name) __attribute__((weak));

EXPORT long sysconf(int name)
{
    static long (*real)(int);
    if (real == NULL)
        real = __sysconf != NULL ? __sysconf : (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    const long value = real(name);
    return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? unpinned(value) : value;
}

EXPORT int get_nprocs(void)
{
    if (!real_get_nprocs)
        begin();
    return (int)unpinned(real_get_nprocs());
}

EXPORT int get_nprocs_conf(void)
{
    if (!real_get_nprocs_conf)
        begin();
    return (int)unpinned(real_get_nprocs_conf());
}

/* The original mask that a thread gets back, of `initial_bytes`. If no one had set the process's mask, it has all PUs:
 * the kernel removes PUs that the cpuset does not allow, and adds PUs that the cpuset gains. */
static const cpu_set_t *original_mask(void)
{
    static unsigned char all[MASK_BYTES];
    if (!initial_is_unset)
        return (const cpu_set_t *)initial;
    memset(all, 0xff, sizeof all);
    return (const cpu_set_t *)all;
}

bool pinfold_unpin(pid_t thread)
{
    unsigned char mask[MASK_BYTES];
    int before = errno;
    bool done = false;
    if (is_ours(thread) || is_our_other_thread(thread)) {
        long length = syscall(SYS_sched_getaffinity, thread, sizeof mask, mask);
        done = length > 0 && widen((size_t)length, (cpu_set_t *)mask) &&
               syscall(SYS_sched_setaffinity, thread, initial_bytes, original_mask()) == 0;
    }
    errno = before;
    return done;
}

void pinfold_unpin_pthread(pthread_t thread)
{
    unsigned char mask[MASK_BYTES];
    if (!real_pthread_get || !real_pthread_set)
        begin();
    if (initial_bytes != 0 && real_pthread_get(thread, initial_bytes, (cpu_set_t *)mask) == 0 &&
        widen(initial_bytes, (cpu_set_t *)mask))
        real_pthread_set(thread, initial_bytes, original_mask());
}

void pinfold_unpin_this_thread(void)
{
    pinfold_unpin(0);
}

/* Makes the system call, bypassing the functions above. */
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
    if (pu >= 8 * sizeof mask || (initial_byte(pu / 8) & (1u << pu % 8)) == 0 || pinfold_this_thread_is_real_time())
        return false;
    mask[pu / (8 * sizeof *mask)] = 1ul << pu % (8 * sizeof *mask);
    return set_mask(sizeof mask, mask);
}

bool pinfold_give_original_mask(void)
{
    return set_mask(initial_bytes, original_mask());
}
