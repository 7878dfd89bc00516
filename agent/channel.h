/*
 * The channel between a program and pinfold: one shared-memory segment that pinfold creates and the program's
 * processes map. It holds nothing but totals that grow. The program writes, pinfold reads; neither ever waits.
 *
 * pinfold names it in the environment variable PINFOLD_CHANNEL, as a path that can be opened. A program that runs
 * without pinfold finds no such variable and does nothing.
 *
 * A thread adds to the slot `gettid() % PINFOLD_CHANNEL_SLOTS`. Two threads may meet in one slot, so additions are
 * atomic; they seldom do, so no cache line is fought over. A total is the sum over all slots.
 */
#ifndef PINFOLD_CHANNEL_H
#define PINFOLD_CHANNEL_H

#include <stdint.h>

#define PINFOLD_CHANNEL_MAGIC 0x31484344464e4950ull /* "PINFDCH1" in memory, little-endian */
#define PINFOLD_CHANNEL_VERSION 1u
#define PINFOLD_CHANNEL_SLOTS 4096u

/* One cache line. */
struct pinfold_slot {
    uint64_t heartbeats; /* calls of pinfold_heartbeat() */
    uint64_t regions;    /* parallel regions that have ended */
    uint64_t barriers;   /* barriers that a team has passed inside parallel regions, counted once a team */
    uint64_t reserved[5];
};

struct pinfold_channel {
    uint64_t magic;
    uint32_t version;
    uint32_t slots;
    uint64_t reserved[6];
    struct pinfold_slot slot[PINFOLD_CHANNEL_SLOTS];
};

#endif
