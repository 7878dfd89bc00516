/*
 * pinfold_heartbeat(): a program's report to pinfold that one unit of work is done.
 *
 * This header is complete: C99 or C++11, GCC or Clang, Linux, nothing to link. Call pinfold_heartbeat() once for each
 * unit of work that is done (a time step, a request, a tile), from any thread. Under pinfold a call costs one addition
 * to memory that only its own thread uses. Without pinfold it does nothing.
 *
 * How it works. pinfold creates one segment of shared memory, the channel, and names it in the environment variable
 * PINFOLD_CHANNEL as a path. A program maps it when it is loaded, before main(): later the program may have forbidden
 * itself to open files (seccomp), and a call makes no system call. The segment has only totals that grow: the program
 * adds, pinfold reads, and neither waits. Each thread takes its own slot, one cache line; when all slots are taken,
 * threads share them, and so does a child with its parent after fork(). No count is lost, because additions are atomic.
 *
 * pinfold's own agent includes this header too, and crates/linux/src/channel.rs mirrors its structures: a test
 * compares the two. A change of the layout requires a new PINFOLD_CHANNEL_VERSION.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef PINFOLD_H
#define PINFOLD_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
/* C code includes this header too. */
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif

#define PINFOLD_CHANNEL_MAGIC UINT64_C(0x4c4e484344464e50) /* "PNFDCHNL" in the memory of a little-endian machine */
#define PINFOLD_CHANNEL_VERSION 1u
#define PINFOLD_CHANNEL_SLOTS 1024u

/* The sources of counts, so that a total of zero differs from a total without a source. */
enum pinfold_source {
    PINFOLD_SOURCE_HEARTBEAT, /* pinfold_heartbeat() */
    PINFOLD_SOURCE_GOMP,      /* the agent, between a program and GCC's libgomp */
    PINFOLD_SOURCE_OMPT,      /* the agent, as the OMPT tool of LLVM's libomp */
    PINFOLD_SOURCE_MPI,       /* the interposer between a program and its MPI library */
    PINFOLD_SOURCES
};

/* The sources of the channel's first release. */
#define PINFOLD_FIRST_SOURCES 3u

/* The counts of one thread, in one cache line. */
struct pinfold_slot {
    uint64_t heartbeats;   /* calls of pinfold_heartbeat() */
    uint64_t regions;      /* parallel regions that have ended */
    uint64_t barriers;     /* barriers passed inside parallel regions, one per team */
    uint64_t mpi_calls;    /* calls of MPI functions that stand for progress */
    uint64_t socket_bytes; /* bytes that the calls of sockets have moved (agent/sockets.c) */
    uint64_t unused[3];
};

/* The whole segment. */
struct pinfold_channel {
    uint64_t magic;
    uint32_t version;
    uint32_t slots_taken;                     /* exceeds PINFOLD_CHANNEL_SLOTS when slots are shared */
    uint32_t attached[PINFOLD_FIRST_SOURCES]; /* the number of times that each source has attached itself */
    uint32_t unset_pus;                       /* the program's PUs at its start if no one had set its mask, else 0 */
    uint32_t attached_later[PINFOLD_SOURCES - PINFOLD_FIRST_SOURCES]; /* as `attached`, of the other sources */
    uint32_t unused[7];
    struct pinfold_slot slots[PINFOLD_CHANNEL_SLOTS];
};

/* Maps the channel that the environment names. Returns MAP_FAILED if there is none, if it has another version, or if
 * the program runs with privileges that its caller lacks (setuid): then the environment is not trusted. */
static inline struct pinfold_channel *pinfold_map_channel(void)
{
    const char *path = getauxval(AT_SECURE) ? NULL : getenv("PINFOLD_CHANNEL");
    void *address = MAP_FAILED;
    struct pinfold_channel *channel;
    int saved_errno = errno;
    int file;
#ifdef O_CLOEXEC
    file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
#else
    file = path ? open(path, O_RDWR) : -1; /* Strict C99: some C libraries hide the flag. */
#endif
    if (file >= 0) {
        /* Not fstat(): it is in glibc's shared library only since 2.33. */
        if (lseek(file, 0, SEEK_END) >= (off_t)sizeof(struct pinfold_channel))
            address = mmap(NULL, sizeof(struct pinfold_channel), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    channel = (struct pinfold_channel *)address;
    if (address != MAP_FAILED &&
        (channel->magic != PINFOLD_CHANNEL_MAGIC || channel->version != PINFOLD_CHANNEL_VERSION)) {
        munmap(address, sizeof(struct pinfold_channel));
        channel = (struct pinfold_channel *)MAP_FAILED;
    }
    errno = saved_errno;
    return channel;
}

/* The channel of this executable or library, whose translation units share it: NULL before the first attempt to map it,
 * MAP_FAILED after a failure. */
__attribute__((weak, visibility("hidden"))) struct pinfold_channel *pinfold_mapped_channel;

/* Maps the channel once. Returns NULL if there is none. */
static inline struct pinfold_channel *pinfold_mapped(void)
{
    struct pinfold_channel *channel = __atomic_load_n(&pinfold_mapped_channel, __ATOMIC_ACQUIRE);
    if (channel == NULL) {
        struct pinfold_channel *fresh = pinfold_map_channel();
        if (__atomic_compare_exchange_n(&pinfold_mapped_channel, &channel, fresh, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            channel = fresh;
        else if (fresh != MAP_FAILED)
            munmap(fresh, sizeof(struct pinfold_channel)); /* Another thread was faster; `channel` is its mapping. */
    }
    return channel == MAP_FAILED ? NULL : channel;
}

__attribute__((constructor)) static void pinfold_map_at_load(void)
{
    (void)pinfold_mapped();
}

/* Attaches this source to the channel. Returns NULL if there is no channel. Each translation unit has one source. */
static inline struct pinfold_channel *pinfold_get_channel(enum pinfold_source source)
{
    static char attached;
    struct pinfold_channel *channel = pinfold_mapped();
    if (channel != NULL && !__atomic_exchange_n(&attached, 1, __ATOMIC_RELAXED)) {
        const unsigned number = (unsigned)source;
        uint32_t *word = number < PINFOLD_FIRST_SOURCES ? &channel->attached[number]
                                                        : &channel->attached_later[number - PINFOLD_FIRST_SOURCES];
        __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
    }
    return channel;
}

/* A slot for one thread. */
static inline struct pinfold_slot *pinfold_new_slot(struct pinfold_channel *channel)
{
    uint32_t turn = __atomic_fetch_add(&channel->slots_taken, 1, __ATOMIC_RELAXED);
    return &channel->slots[turn % PINFOLD_CHANNEL_SLOTS];
}

/* The calling thread's slot. NULL without a channel. */
static inline struct pinfold_slot *pinfold_own_slot(enum pinfold_source source)
{
    static __thread struct pinfold_slot *slot;
    static __thread char asked;
    if (!asked) {
        struct pinfold_channel *channel = pinfold_get_channel(source);
        if (channel != NULL)
            slot = pinfold_new_slot(channel);
        asked = 1;
    }
    return slot;
}

/* Reports that one unit of work is done. */
static inline void pinfold_heartbeat(void)
{
    struct pinfold_slot *slot = pinfold_own_slot(PINFOLD_SOURCE_HEARTBEAT);
    if (slot != NULL)
        __atomic_fetch_add(&slot->heartbeats, 1, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

#endif
