/*
 * Marks. The agent uses them to report parallel regions and barriers to the recording plugin.
 *
 * A recorded program runs under QEMU, where the plugin (crates/plugin) sees system calls. A mark is a system call with
 * a number that no kernel has: the plugin reads its arguments, and then the call fails and changes nothing. Marks are
 * made only if the environment has PINFOLD_MARKS, which `pinfold record` sets.
 *
 * crates/trace/src/shared.rs has the same numbers.
 */
#ifndef PINFOLD_MARKS_H
#define PINFOLD_MARKS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define PINFOLD_MARK_SYSCALL 0x70696e66
#define PINFOLD_MARK_MAGIC 0x0070696e666f6c64L

enum pinfold_mark {
    PINFOLD_MARK_REGION_BEGIN = 1, /* region, requested threads (0: the runtime chooses): in the encountering thread */
    PINFOLD_MARK_REGION_END = 2,   /* region */
    PINFOLD_MARK_BARRIER_BEGIN = 3,
    PINFOLD_MARK_BARRIER_END = 4,
    PINFOLD_MARK_WORK_BEGIN = 5, /* region: a thread of the team starts its share */
    PINFOLD_MARK_WORK_END = 6,   /* region */
};

/* Whether the program is recorded. */
static inline bool pinfold_marks_wanted(void)
{
    static int wanted; /* 0 before it is known */
    int known = __atomic_load_n(&wanted, __ATOMIC_RELAXED);
    if (known == 0) {
        known = getenv("PINFOLD_MARKS") != NULL ? 1 : -1;
        __atomic_store_n(&wanted, known, __ATOMIC_RELAXED);
    }
    return known > 0;
}

static inline void pinfold_mark(enum pinfold_mark kind, const void *region, unsigned threads)
{
    if (!pinfold_marks_wanted())
        return;
    int saved_errno = errno;
    syscall(PINFOLD_MARK_SYSCALL, PINFOLD_MARK_MAGIC, (long)kind, (long)(uintptr_t)region, (long)threads);
    errno = saved_errno;
}

#endif
