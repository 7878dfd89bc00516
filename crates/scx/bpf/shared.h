/* What the scheduler and its loader (src/layout.rs) both read and write. The loader reads it field by field, so padding
 * is a field.
 */
#pragma once

#define MOST_CPUS 1024
#define MOST_DOMAINS 64
#define NO_DOMAIN 0xffff

/* The machine, written before the scheduler starts. */
struct settings {
	/* How long the loader may be silent, in nanoseconds, before the scheduler ends. */
	u64 most_silence;
	u32 cpu_count;
	u32 domain_count;
	u16 domain_of_cpu[MOST_CPUS];
	/* The CPUs in the order of their domains; the first place of each domain, and the number of its CPUs. */
	u16 cpus[MOST_CPUS];
	u16 first_place[MOST_DOMAINS];
	u16 size[MOST_DOMAINS];
	/* The domains in the order of their distance from each domain, which is the first itself. */
	u16 nearest[MOST_DOMAINS * MOST_DOMAINS];
};

/* How the scheduler fares. */
struct status {
	/* Tasks that CPUs took from the queues of other domains. */
	u64 taken_elsewhere;
	/* How often a task was in a queue, and a CPU that it may run on was idle, both for more than `LONG_WAIT`. */
	u64 waited_beside_idle;
	/* Why it ended, as `enum scx_exit_kind`; 0 while it runs. */
	u32 exit_kind;
	char reason[128];
	u32 padding;
};

/* Where a task prefers to run. Only the loader writes it. */
struct preference {
	/* A bit for each last-level cache. */
	u64 domains;
	/* How long it waits there, in nanoseconds, before it runs elsewhere. */
	u64 patience;
	/* Whether it comes before all others in its queue. */
	u64 goes_first;
};

/* What a task did. Only the scheduler writes it; times are in nanoseconds. */
struct account {
	/* How long it ran; how long while it preferred some domains; how long in a domain that it preferred then. */
	u64 ran;
	u64 preferring;
	u64 preferred;
	/* All it waited for a CPU, and the longest time. */
	u64 waited;
	u64 longest_wait;
	/* How often it changed the last-level cache. */
	u64 migrations;
	/* Since when it runs, waits, and is in a queue; 0 if it does not. It waits in no queue after an idle CPU was given. */
	u64 runs_since;
	u64 waits_since;
	u64 queued_since;
	/* The domain of its virtual time, and the one that it ran in. */
	u32 domain;
	u32 ran_in;
};

/* A task's account in the list that the loader reads. */
struct listed {
	s32 process;
	s32 thread;
	u64 start;
	struct preference preference;
	struct account account;
};

/* A task that woke another one. */
struct pair {
	s32 waker;
	s32 wakee;
};
