/*
 * Times parallel regions, and gives their teams the requested number of threads and PUs (regions.h).
 *
 * A thread that changes its PU makes one system call, and a thread that stays makes none. Threads are pinned when they
 * start their share of a region, and stay until a region requests another PU.
 *
 * Known limits: if a region gets fewer threads, a thread without a share keeps its PU and sleeps there.
 */
#define _GNU_SOURCE
#include "regions.h"
#include "affinity.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Maps the table that the environment names. */
static struct pinfold_regions *map_table(void)
{
    const char *path = getauxval(AT_SECURE) ? NULL : getenv("PINFOLD_REGIONS");
    struct pinfold_regions *table = MAP_FAILED;
    int saved_errno = errno;
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (lseek(file, 0, SEEK_END) >= (off_t)sizeof *table)
            table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    if (table != MAP_FAILED && (table->magic != PINFOLD_REGIONS_MAGIC || table->version != PINFOLD_REGIONS_VERSION)) {
        munmap(table, sizeof *table);
        table = MAP_FAILED;
    }
    errno = saved_errno;
    return table;
}

/* The table, mapped once. NULL without a table. */
static struct pinfold_regions *table(void)
{
    static struct pinfold_regions *mapped; /* NULL before the first attempt, MAP_FAILED after a failure */
    struct pinfold_regions *known = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);
    if (known == NULL) {
        struct pinfold_regions *fresh = map_table();
        if (__atomic_compare_exchange_n(&mapped, &known, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            known = fresh;
        else if (fresh != MAP_FAILED)
            munmap(fresh, sizeof *fresh);
    }
    return known == MAP_FAILED ? NULL : known;
}

/* The table is mapped early, because the program may later forbid itself to open files. */
__attribute__((constructor)) static void map_at_load(void)
{
    (void)table();
}

struct pinfold_region *pinfold_find_region(const void *code)
{
    struct pinfold_regions *all = table();
    if (all == NULL || code == NULL)
        return NULL;
    const uint64_t wanted = (uint64_t)(uintptr_t)code;
    /* Functions are aligned to 16 bytes. The multiplication spreads the other bits (Knuth, volume 3, section 6.4). */
    const uint64_t first = (wanted * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    for (unsigned step = 0; step < PINFOLD_REGIONS_MOST; step++) {
        struct pinfold_region *region = &all->regions[(first + step) % PINFOLD_REGIONS_MOST];
        uint64_t present = __atomic_load_n(&region->code, __ATOMIC_ACQUIRE);
        if (present == 0 &&
            __atomic_compare_exchange_n(&region->code, &present, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return region;
        if (present == wanted) {
            const uint32_t ignored = __atomic_load_n(&region->ignored, __ATOMIC_RELAXED);
            return ignored != 0 && __atomic_load_n(&all->active, __ATOMIC_ACQUIRE) == 0 ? NULL : region;
        }
    }
    return NULL;
}

static void flag(struct pinfold_region *region, enum pinfold_region_flag flag)
{
    if ((__atomic_load_n(&region->flags, __ATOMIC_RELAXED) & (unsigned)flag) == 0)
        __atomic_fetch_or(&region->flags, (unsigned)flag, __ATOMIC_RELAXED);
}

unsigned pinfold_region_threads(struct pinfold_region *region, unsigned asked, unsigned most)
{
    const unsigned wanted = __atomic_load_n(&region->threads, __ATOMIC_ACQUIRE);
    if (wanted == 0 || wanted == asked)
        return asked;
    if (asked != 0) {
        flag(region, PINFOLD_REGION_OWN_NUMBER);
        return asked;
    }
    if (wanted > most) {
        flag(region, PINFOLD_REGION_TOO_MANY);
        return asked;
    }
    return wanted;
}

bool pinfold_places_in_regions(void)
{
    struct pinfold_regions *all = table();
    return all != NULL && __atomic_load_n(&all->active, __ATOMIC_ACQUIRE) != 0;
}

void pinfold_place_in_region(struct pinfold_region *region, unsigned index)
{
    /* The calling thread's place: a PU, its original mask, or unknown. */
    enum { ORIGINAL = -1, UNKNOWN = -2 };
    static __thread int place = UNKNOWN;
    static __thread uint32_t since;

    const uint32_t active = __atomic_load_n(&table()->active, __ATOMIC_ACQUIRE);
    if (active == 0)
        return;
    /* pinfold may have placed the thread itself meanwhile. */
    if (active != since)
        place = UNKNOWN;
    since = active;
    const unsigned placed = __atomic_load_n(&region->placed, __ATOMIC_ACQUIRE);
    const int wanted = placed == 0
                           ? ORIGINAL
                           : __atomic_load_n(&region->pus[index % placed % PINFOLD_REGION_PUS], __ATOMIC_RELAXED);
    if (wanted == place)
        return;
    if (pinfold_process_sets_masks()) {
        flag(region, PINFOLD_REGION_OWN_MASKS);
        return;
    }
    if (wanted == ORIGINAL ? pinfold_give_original_mask() : pinfold_pin_this_thread((unsigned)wanted))
        place = wanted;
}

uint64_t pinfold_region_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pinfold_region_ended(struct pinfold_region *region, uint64_t since)
{
    __atomic_fetch_add(&region->nanoseconds, pinfold_region_clock() - since, __ATOMIC_RELAXED);
    __atomic_fetch_add(&region->executions, 1, __ATOMIC_RELEASE);
}
