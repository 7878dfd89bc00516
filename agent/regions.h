/*
 * The table of parallel regions: pinfold reads how often each region was executed and for how long, and writes how many
 * threads its team shall have and where they run.
 *
 * pinfold creates the table as a segment of shared memory and names it in the environment variable PINFOLD_REGIONS, only
 * for the policies `react` and `auto`. Neither side waits for the other: an execution that begins while pinfold writes may
 * mix the old and the new places, and the next one is right. A region is identified by the address of its code.
 *
 * crates/linux/src/regions.rs mirrors the structures; a test compares the two.
 */
#ifndef PINFOLD_REGIONS_H
#define PINFOLD_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#define PINFOLD_REGIONS_MAGIC UINT64_C(0x534e4752444c4650) /* "PFLDRGNS" in the memory of a little-endian machine */
#define PINFOLD_REGIONS_VERSION 1u
#define PINFOLD_REGIONS_MOST 256u
#define PINFOLD_REGION_PUS 1024u

/* Why a team does not have the wanted number of threads. */
enum pinfold_region_flag {
    PINFOLD_REGION_OWN_NUMBER = 1, /* the program names the number itself: num_threads, or an if clause */
    PINFOLD_REGION_TOO_MANY = 2,   /* more than omp_get_max_threads(), by which a program may have sized its arrays */
    PINFOLD_REGION_OWN_MASKS = 4,  /* the program sets affinity masks itself, so its threads are not moved */
    PINFOLD_REGION_NOT_PLACED = 8, /* its threads cannot be moved: a region with task reductions */
};

struct pinfold_region {
    uint64_t code;        /* 0: free. Set by the agent. */
    uint64_t executions;  /* that have ended */
    uint64_t nanoseconds; /* of these executions, from begin to end */
    uint32_t flags;       /* enum pinfold_region_flag */
    uint32_t threads;     /* wanted; 0: as the program says. Set by pinfold, as are the following. */
    uint32_t placed;      /* the number of PUs below; 0: unpinned */
    uint32_t ignored;     /* not 0: too short to be timed */
    uint16_t pus[PINFOLD_REGION_PUS]; /* of the threads of the team, in turn */
};

struct pinfold_regions {
    uint64_t magic;
    uint32_t version;
    uint32_t active; /* not 0 while the agent places threads; another number each time that pinfold has set something */
    struct pinfold_region regions[PINFOLD_REGIONS_MOST];
};

/* The region with this code; NULL without a table, when it is full, and for one that is ignored while no threads are placed. */
struct pinfold_region *pinfold_find_region(const void *code);

/* The number of threads of the next team. `asked` is the program's own number, 0 where the runtime chooses; `most` is
 * omp_get_max_threads(). */
unsigned pinfold_region_threads(struct pinfold_region *region, unsigned asked, unsigned most);

/* Whether threads of regions are placed at present. */
bool pinfold_places_in_regions(void);

/* The calling thread, number `index` of its team, goes to its PU. */
void pinfold_place_in_region(struct pinfold_region *region, unsigned index);

/* The time for `pinfold_region_ended`, in nanoseconds. */
uint64_t pinfold_region_clock(void);

/* An execution that began at `since` has ended. */
void pinfold_region_ended(struct pinfold_region *region, uint64_t since);

#endif
