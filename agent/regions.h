/*
 * The table of parallel regions. pinfold reads the number and the duration of each region's executions, and writes the
 * number of threads and the PUs for its team.
 *
 * pinfold creates the table as a segment of shared memory and names it in the environment variable PINFOLD_REGIONS,
 * only for the policies `react` and `auto`. Neither side waits for the other: an execution that starts while pinfold
 * writes may mix the old and the new places, and the next one is right. A region is identified by the address of its
 * code.
 *
 * crates/linux/src/regions.rs mirrors the structures, and a test compares the two.
 */
#ifndef PINFOLD_REGIONS_H
#define PINFOLD_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#define PINFOLD_REGIONS_MAGIC UINT64_C(0x534e4752444c4650) /* "PFLDRGNS" in the memory of a little-endian machine */
#define PINFOLD_REGIONS_VERSION 1u
#define PINFOLD_REGIONS_MOST 256u
#define PINFOLD_REGION_PUS 1024u

/* Why a team does not have the requested threads or PUs. */
enum pinfold_region_flag {
    PINFOLD_REGION_OWN_NUMBER = 1, /* the program sets the number itself: num_threads, or an if clause */
    PINFOLD_REGION_TOO_MANY = 2,   /* more than omp_get_max_threads(): a program may have sized its arrays by it */
    PINFOLD_REGION_OWN_MASKS = 4,  /* the program sets affinity masks itself, so its threads are not moved */
    PINFOLD_REGION_NOT_PLACED = 8, /* its threads cannot be moved: a region with task reductions */
};

struct pinfold_region {
    uint64_t code;        /* 0: free. Set by the agent. */
    uint64_t executions;  /* ended executions */
    uint64_t nanoseconds; /* the time of these executions */
    uint32_t flags;       /* enum pinfold_region_flag */
    uint32_t threads;     /* requested; 0: the program decides. pinfold sets this and all below. */
    uint32_t placed;      /* the number of PUs below; 0: unpinned */
    uint32_t ignored;     /* not 0: too short to be timed */
    uint16_t pus[PINFOLD_REGION_PUS]; /* for the threads of the team in turn */
};

struct pinfold_regions {
    uint64_t magic;
    uint32_t version;
    uint32_t active; /* not 0 while the agent places threads; it changes each time that pinfold has set something */
    struct pinfold_region regions[PINFOLD_REGIONS_MOST];
};

/* The region with this code. NULL without a table, if the table is full, or if the region is ignored and no threads are
 * placed. */
struct pinfold_region *pinfold_find_region(const void *code);

/* The number of threads of the next team. `asked` is the program's number, or 0 if the runtime chooses. `most` is
 * omp_get_max_threads(). */
unsigned pinfold_region_threads(struct pinfold_region *region, unsigned asked, unsigned most);

/* Whether threads of regions are currently placed. */
bool pinfold_places_in_regions(void);

/* Pins the calling thread, number `index` of its team, to its PU. */
void pinfold_place_in_region(struct pinfold_region *region, unsigned index);

/* The current time for `pinfold_region_ended`, in nanoseconds. */
uint64_t pinfold_region_clock(void);

/* Records an execution that started at `since` and has ended. */
void pinfold_region_ended(struct pinfold_region *region, uint64_t since);

#endif
