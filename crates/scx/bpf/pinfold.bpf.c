// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A scheduler (sched_ext) in which tasks have preferences instead of masks.
 *
 *   wake-up ──> select_cpu: an idle CPU? ──yes──> runs there
 *                    │ no
 *                    v
 *               enqueue: the queue of a last-level cache that the task prefers
 *                    │
 *     ┌──────────────┴───────────────┐
 *     │ queue of a last-level cache  │      queue of a CPU
 *     │ by virtual time              │      (tasks that may run on it only)
 *     └──────┬───────────────────┬───┘          │
 *            v                   v              v
 *      its own CPUs         any idle CPU    that CPU
 *      (dispatch)           takes tasks whose patience is over, from the nearest queue first
 *
 * 1. A task that wakes up gets its previous CPU if that is idle and preferred; else an idle core of a preferred domain;
 *    else an idle sibling of a busy one. Without a preference the kernel's own choice of an idle CPU is used, and the
 *    waker's promise to sleep soon is not believed: it may have more to do.
 * 2. If none is idle, it waits in the queue of a preferred domain, and the CPUs of the domain take tasks by virtual
 *    time, weighted as the kernel weights them. Preference never starves: after its patience any idle CPU that it may
 *    run on takes it. Ticks of the busy CPUs of a queue wake idle ones for it, so an idle machine needs no timer.
 * 3. A task that runs elsewhere goes to a preferred domain at the end of its slice, if a CPU is idle there.
 * 4. Masks, cpusets and migration-disabled sections hold as ever, because nothing here writes them. A task that may run
 *    on one CPU waits in the queue of that CPU, in the same virtual time. Kernel threads of one CPU go first.
 *    Real-time and deadline tasks are of other classes and come before all of these.
 * 5. CPUs that go offline are left out, and what waits for them goes to others at once.
 * 6. If the loader does not call within `settings.most_silence` (5 s more before its first call), the scheduler ends
 *    itself, and the kernel's is back. If the loader dies, the kernel ends it. The loader's thread comes first in its
 *    queue, so that hundreds of tasks do not keep it from calling.
 *
 * It counts how long each task ran, where, and how long it waited; how often one waited beside an idle CPU; and which
 * task woke which. The task that a hardware interrupt stopped is not counted as the one that woke another.
 *
 * Known limits: at most 64 last-level caches; a wake-up in a softirq that follows an interrupt is counted as the
 * interrupted task's.
 */
#include "kernel.h"
#include "queues.h"
#include "shared.h"

char licence[] SEC("license") = "Dual MIT/GPL";

const volatile struct settings settings SEC(".rodata.settings");
/* The loader's last call, in the kernel's monotonic time; the loader writes it. */
volatile u64 last_call SEC(".data.call");
struct status status SEC(".data.status");

#define SLICE 5000000ULL
#define LEAST_SLICE 500000ULL
#define DEFAULT_PATIENCE 500000ULL
#define MOST_LOOKED_AT 32
#define AHEAD 1000000000ULL
#define LONG_WAIT 10000000ULL
#define START 5000000000ULL
#define SHORT_LOOK 200000ULL

static u64 virtual_time[MOST_DOMAINS];
static volatile s32 online[MOST_DOMAINS];

/* Since when each CPU is idle, or was idle last, and when a task was given to it; 0 if none was. */
static struct {
	u64 from;
	u64 to;
} idle_times[MOST_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct preference);
} preferences SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct account);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pair);
	__type(value, u64);
} wakeups SEC(".maps");

static __always_inline u64 now(void)
{
	return bpf_ktime_get_ns();
}

/* A place in an array of `length`, a power of two. The compiler may not see that the place is within, or it would leave
 * out the check that the kernel's verifier wants to see.
 */
static __always_inline u64 within(u64 place, u64 length)
{
	asm volatile("" : "+r"(place));
	return place & (length - 1);
}

static __always_inline u32 domain_of(s32 cpu)
{
	return cpu >= 0 && cpu < MOST_CPUS ? settings.domain_of_cpu[within(cpu, MOST_CPUS)] : NO_DOMAIN;
}

/* The domain that is at this step of the way from a domain; NO_DOMAIN after the last one. */
static __always_inline u32 nearest(u32 from, u32 step)
{
	return settings.nearest[within(from * MOST_DOMAINS + step, MOST_DOMAINS * MOST_DOMAINS)];
}

static __always_inline u64 queue_of_cpu(s32 cpu)
{
	return MOST_DOMAINS + cpu;
}

static __always_inline bool is_usable(u32 number)
{
	return number < MOST_DOMAINS && online[within(number, MOST_DOMAINS)] > 0;
}

/* The domains that a task prefers and that have a CPU; 0 without a preference. */
static u64 preferred(struct task_struct *task)
{
	struct preference *preference = bpf_task_storage_get(&preferences, task, 0, 0);
	u64 usable = 0;
	u32 number;

	if (!preference || !preference->domains)
		return 0;
	bpf_for(number, 0, settings.domain_count)
		if (is_usable(number))
			usable |= 1ULL << (number & 63);
	return preference->domains & usable;
}

static __always_inline u64 patience_of(struct task_struct *task)
{
	struct preference *preference = bpf_task_storage_get(&preferences, task, 0, 0);

	return preference && preference->domains ? preference->patience : DEFAULT_PATIENCE;
}

static __always_inline bool goes_first(struct task_struct *task)
{
	struct preference *preference = bpf_task_storage_get(&preferences, task, 0, 0);

	return preference && preference->goes_first;
}

/* The CPUs of a domain are at these places of `settings.cpus`. */
static __always_inline u32 first_place(u32 domain)
{
	return settings.first_place[within(domain, MOST_DOMAINS)];
}

static __always_inline u32 end_place(u32 domain)
{
	return first_place(domain) + settings.size[within(domain, MOST_DOMAINS)];
}

static __always_inline u32 cpu_at(u32 place)
{
	return settings.cpus[within(place, MOST_CPUS)];
}

static bool may_run_in(struct task_struct *task, u32 domain)
{
	u32 place;

	if (task->nr_cpus_allowed >= (s32)settings.cpu_count)
		return true;
	bpf_for(place, first_place(domain), end_place(domain))
		if (bpf_cpumask_test_cpu(cpu_at(place), task->cpus_ptr))
			return true;
	return false;
}

/* A CPU is not idle any more for others, although it may still have to wake up. */
static __always_inline void end_idle_time(s32 cpu)
{
	if (cpu >= 0 && cpu < MOST_CPUS && !idle_times[within(cpu, MOST_CPUS)].to)
		idle_times[within(cpu, MOST_CPUS)].to = now();
}

/* Takes an idle CPU, and tells whether it was idle. */
static __always_inline bool take_idle(s32 cpu)
{
	bool is_idle = scx_bpf_test_and_clear_cpu_idle(cpu);

	if (is_idle)
		end_idle_time(cpu);
	return is_idle;
}

/* Takes an idle CPU of a domain that the task may run on and that is in `among` (the idle CPUs, or the CPUs of idle
 * cores). Negative if it finds none.
 */
static s32 idle_cpu_in(struct task_struct *task, u32 domain, const struct cpumask *among)
{
	u32 place;

	bpf_for(place, first_place(domain), end_place(domain)) {
		u32 cpu = cpu_at(place);

		if (bpf_cpumask_test_cpu(cpu, among) && bpf_cpumask_test_cpu(cpu, task->cpus_ptr) && take_idle(cpu))
			return cpu;
	}
	return -1;
}

/* An idle CPU of the wanted domains, in the order of their distance from `from`: idle cores first. */
static s32 idle_cpu_among(struct task_struct *task, u64 wanted, u32 from, const struct cpumask *among)
{
	u32 step;

	bpf_for(step, 0, settings.domain_count) {
		u32 domain = nearest(from, step);
		s32 cpu;

		if (domain >= MOST_DOMAINS || !(wanted & 1ULL << domain))
			continue;
		cpu = idle_cpu_in(task, domain, among);
		if (cpu >= 0)
			return cpu;
	}
	return -1;
}

/* An idle core before an idle sibling of a busy one. */
static s32 idle_cpu_of(struct task_struct *task, u64 wanted, u32 from)
{
	const struct cpumask *among = scx_bpf_get_idle_smtmask();
	s32 cpu = idle_cpu_among(task, wanted, from, among);

	scx_bpf_put_idle_cpumask(among);
	if (cpu >= 0)
		return cpu;
	among = scx_bpf_get_idle_cpumask();
	cpu = idle_cpu_among(task, wanted, from, among);
	scx_bpf_put_idle_cpumask(among);
	return cpu;
}

/* The domain in whose queue a task waits: of those that it prefers with the shortest queue, the nearest to its CPU. */
static u32 domain_to_wait_in(struct task_struct *task, u64 wanted, u32 own)
{
	u32 found = NO_DOMAIN, step;
	s32 least = 0;

	bpf_for(step, 0, settings.domain_count) {
		u32 number = nearest(own, step);
		s32 length;

		if (number >= MOST_DOMAINS || !(wanted & 1ULL << number) || !may_run_in(task, number))
			continue;
		length = scx_bpf_dsq_nr_queued(number);
		if (found == NO_DOMAIN || length < least) {
			found = number;
			least = length;
		}
	}
	return found == NO_DOMAIN ? own : found;
}

/* A queue with many tasks gives each a shorter slice. */
static __always_inline u64 slice_in(u64 queue)
{
	u64 slice = SLICE * 8 / (8 + (u64)scx_bpf_dsq_nr_queued(queue));

	return slice < LEAST_SLICE ? LEAST_SLICE : slice;
}

static void end_if_silent(void)
{
	static char why[] = "the loader is silent";
	u64 data = 0, time = now();

	if (time > last_call && time - last_call > settings.most_silence)
		scx_bpf_exit_bstr(1, why, &data, 0);
}

/* The CPU for a task that wakes up. */
static __always_inline s32 select(struct task_struct *task, s32 previous, u64 wake_flags, bool *is_idle)
{
	u64 wanted = preferred(task);
	u32 own = domain_of(previous);
	s32 cpu;

	if (!wanted) {
		cpu = scx_bpf_select_cpu_dfl(task, previous, wake_flags & ~SCX_WAKE_SYNC, is_idle);
		if (*is_idle)
			end_idle_time(cpu);
		return cpu;
	}
	if (own < MOST_DOMAINS && wanted & 1ULL << own && bpf_cpumask_test_cpu(previous, task->cpus_ptr) &&
	    take_idle(previous))
		cpu = previous;
	else
		cpu = idle_cpu_of(task, wanted, own);
	*is_idle = cpu >= 0;
	return cpu >= 0 ? cpu : previous;
}

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	bool is_idle = false;
	s32 cpu = select(task, context[1], context[2], &is_idle);

	if (is_idle)
		insert(task, SCX_DSQ_LOCAL, SLICE, 0);
	return cpu;
}

/* The only task of a CPU goes on. The kernel has chosen to idle by then, so it must be told to look again. */
static __always_inline void run_again(struct task_struct *task, s32 cpu, u64 flags)
{
	insert(task, SCX_DSQ_LOCAL, SLICE, flags);
	scx_bpf_kick_cpu(cpu, 0);
}

/* Puts a task into a queue. `is_some`: tasks of the kernel's scheduler may take any CPU before it runs (`some.h`). */
static __always_inline void put(struct task_struct *task, u64 flags, bool is_some)
{
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	s32 cpu = scx_bpf_task_cpu(task), idle = -1;
	u64 queue, time, wanted;
	u32 own = domain_of(cpu), domain;
	bool is_at_home;

	end_if_silent();
	if (own >= MOST_DOMAINS || (task->flags & PF_KTHREAD && task->nr_cpus_allowed == 1)) {
		insert(task, SCX_DSQ_LOCAL, SLICE, flags);
		return;
	}
	if (task->nr_cpus_allowed == 1) {
		domain = own;
		queue = queue_of_cpu(cpu);
	} else {
		wanted = preferred(task);
		is_at_home = !wanted || wanted & 1ULL << own;
		/* Nobody else wants its CPU. */
		if (flags & SCX_ENQ_LAST && is_at_home) {
			run_again(task, cpu, flags);
			return;
		}
		/* `select` has just chosen the CPU of a task that woke up at home. */
		if (wanted && !(is_some && is_at_home && flags & SCX_ENQ_WAKEUP)) {
			idle = idle_cpu_of(task, wanted, own);
			if (idle >= 0 && !is_some) {
				insert(task, SCX_DSQ_LOCAL_ON | idle, SLICE, flags);
				scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
				return;
			}
		}
		if (flags & SCX_ENQ_LAST && idle < 0) {
			run_again(task, cpu, flags);
			return;
		}
		if (idle >= 0)
			domain = domain_of(idle);
		else
			domain = wanted ? domain_to_wait_in(task, wanted, own) : own;
		queue = domain;
	}
	if (domain >= MOST_DOMAINS)
		domain = 0;
	time = task->scx.dsq_vtime;
	if (account && account->domain != domain) {
		u32 before = account->domain < MOST_DOMAINS ? account->domain : domain;

		time += virtual_time[within(domain, MOST_DOMAINS)] - virtual_time[within(before, MOST_DOMAINS)];
		account->domain = domain;
	}
	/* A task that slept has no right to more than one slice. */
	if ((s64)(time - (virtual_time[within(domain, MOST_DOMAINS)] - SLICE)) < 0)
		time = virtual_time[within(domain, MOST_DOMAINS)] - SLICE;
	if (goes_first(task))
		time = virtual_time[within(domain, MOST_DOMAINS)] - AHEAD;
	insert_vtime(task, queue, slice_in(queue), time, flags);
	if (account)
		account->queued_since = now();
	/* A CPU may have become idle meanwhile. */
	if (idle < 0 && task->nr_cpus_allowed != 1)
		idle = idle_cpu_of(task, 1ULL << domain, domain);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

SEC("struct_ops/enqueue")
void enqueue(u64 *context)
{
	put((struct task_struct *)context[0], context[1], false);
}

/* The virtual time of the first task of a queue. */
static bool first_time(u64 queue, u64 *time)
{
	struct task_struct *task;
	bool found = false;

	bpf_for_each(scx_dsq, task, queue, 0) {
		*time = task->scx.dsq_vtime;
		found = true;
		break;
	}
	return found;
}

/* Whether a task of another domain's queue may be taken now. */
static __always_inline bool is_impatient(struct task_struct *task, u64 time)
{
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);

	return account && account->waits_since && time - account->waits_since >= patience_of(task);
}

/* Takes a task whose patience is over from the queue of another domain. */
static bool take_from(u32 domain, s32 cpu)
{
	bool is_dead = !is_usable(domain), is_taken = false;
	struct task_struct *task;
	u64 time = now();
	int seen = 0;

	bpf_for_each(scx_dsq, task, domain, 0) {
		if (++seen > MOST_LOOKED_AT)
			break;
		if (!bpf_cpumask_test_cpu(cpu, task->cpus_ptr) || !(is_dead || is_impatient(task, time)))
			continue;
		if (take_one(ITERATOR, task, SCX_DSQ_LOCAL_ON | cpu)) {
			is_taken = true;
			break;
		}
	}
	if (is_taken)
		__sync_fetch_and_add(&status.taken_elsewhere, 1);
	return is_taken;
}

SEC("struct_ops/dispatch")
void dispatch(u64 *context)
{
	s32 cpu = context[0];
	u32 own = domain_of(cpu), step;
	u64 here = 0, there = 0;

	if (own >= MOST_DOMAINS) {
		return;
	}
	if (scx_bpf_dsq_nr_queued(queue_of_cpu(cpu))) {
		bool is_here = first_time(queue_of_cpu(cpu), &here), is_there = first_time(own, &there);

		if (is_here && (!is_there || (s64)(here - there) <= 0) && take(queue_of_cpu(cpu)))
			return;
	}
	if (take(own) || take(queue_of_cpu(cpu)))
		return;
	bpf_for(step, 1, settings.domain_count) {
		u32 number = nearest(own, step);

		if (number < MOST_DOMAINS && scx_bpf_dsq_nr_queued(number) && take_from(number, cpu))
			return;
	}
}

/* Wakes an idle CPU for a task of a queue whose patience is over. */
static void wake_for_impatient(u32 own)
{
	struct task_struct *task;
	u64 time = now();
	int seen = 0;

	bpf_for_each(scx_dsq, task, own, 0) {
		s32 cpu;

		if (++seen > MOST_LOOKED_AT)
			break;
		if (!is_impatient(task, time))
			continue;
		cpu = idle_cpu_of(task, ~0ULL, own);
		if (cpu >= 0)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		break;
	}
}

/* A busy CPU whose queue has impatient tasks wakes an idle CPU for one of them. */
SEC("struct_ops/tick")
void tick(u64 *context)
{
	u32 own = domain_of(scx_bpf_task_cpu((struct task_struct *)context[0]));

	end_if_silent();
	if (own < MOST_DOMAINS && scx_bpf_dsq_nr_queued(own))
		wake_for_impatient(own);
}

SEC("struct_ops/runnable")
void runnable(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	u64 flags = context[1], one = 1, *count;
	struct task_struct *waker;
	struct pair pair;

	if (account)
		account->waits_since = now();
	if (!(flags & SCX_ENQ_WAKEUP) || task->flags & PF_KTHREAD || is_interrupted())
		return;
	waker = bpf_get_current_task_btf();
	if (!waker->pid || waker->pid == task->pid || waker->flags & PF_KTHREAD)
		return;
	pair.waker = waker->pid;
	pair.wakee = task->pid;
	count = bpf_map_lookup_elem(&wakeups, &pair);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&wakeups, &pair, &one, BPF_NOEXIST);
}

SEC("struct_ops/update_idle")
void update_idle(u64 *context)
{
	s32 cpu = context[0];
	bool is_idle = context[1];
	u64 time = now();

	if (cpu < 0 || cpu >= MOST_CPUS)
		return;
	if (!is_idle) {
		end_idle_time(cpu);
		return;
	}
	/* It woke up and found no task: it was idle all the time. */
	if (time - idle_times[within(cpu, MOST_CPUS)].to > SHORT_LOOK)
		idle_times[within(cpu, MOST_CPUS)].from = time;
	idle_times[within(cpu, MOST_CPUS)].to = 0;
}

/* Whether a CPU that the task may run on was idle for more than LONG_WAIT since then. Only the last idle time of each
 * CPU is known.
 */
static bool was_one_idle(struct task_struct *task, u64 since, u64 time)
{
	u32 cpu;

	bpf_for(cpu, 0, settings.cpu_count) {
		u64 from = idle_times[within(cpu, MOST_CPUS)].from, to = idle_times[within(cpu, MOST_CPUS)].to;

		if (!from || !bpf_cpumask_test_cpu(cpu, task->cpus_ptr))
			continue;
		if (!to)
			to = time;
		if (from < since)
			from = since;
		if (to > from && to - from > LONG_WAIT)
			return true;
	}
	return false;
}

SEC("struct_ops/running")
void running(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	u32 own = domain_of(scx_bpf_task_cpu(task)), before;
	u64 time = now();

	if (!account || own >= MOST_DOMAINS)
		return;
	if (account->waits_since) {
		u64 wait = time - account->waits_since;

		account->waited += wait;
		if (wait > account->longest_wait)
			account->longest_wait = wait;
	}
	if (account->queued_since && time - account->queued_since > LONG_WAIT &&
	    was_one_idle(task, account->queued_since, time))
		__sync_fetch_and_add(&status.waited_beside_idle, 1);
	account->waits_since = 0;
	account->queued_since = 0;
	account->runs_since = time;
	before = account->domain;
	if (before != own) {
		if (before < MOST_DOMAINS)
			task->scx.dsq_vtime += virtual_time[within(own, MOST_DOMAINS)] - virtual_time[within(before, MOST_DOMAINS)];
		account->domain = own;
	}
	if (account->ran_in != own) {
		account->migrations += account->ran_in < MOST_DOMAINS;
		account->ran_in = own;
	}
	if ((s64)(task->scx.dsq_vtime - virtual_time[within(own, MOST_DOMAINS)]) > 0)
		virtual_time[within(own, MOST_DOMAINS)] = task->scx.dsq_vtime;
}

SEC("struct_ops/stopping")
void stopping(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	struct preference *preference = bpf_task_storage_get(&preferences, task, 0, 0);
	bool is_runnable = context[1];
	u64 time = now(), ran;
	u32 own = domain_of(scx_bpf_task_cpu(task));

	if (!account || !account->runs_since)
		return;
	ran = time - account->runs_since;
	account->ran += ran;
	if (preference && preference->domains) {
		account->preferring += ran;
		if (own < MOST_DOMAINS && preference->domains & 1ULL << own)
			account->preferred += ran;
	}
	account->runs_since = 0;
	account->waits_since = is_runnable ? time : 0;
	if (task->scx.weight)
		task->scx.dsq_vtime += ran * 100 / task->scx.weight;
}

SEC("struct_ops/init_task")
s32 init_task(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	struct account *account = bpf_task_storage_get(&accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!account)
		return -12;
	account->domain = NO_DOMAIN;
	account->ran_in = NO_DOMAIN;
	return 0;
}

SEC("struct_ops/enable")
void enable(u64 *context)
{
	struct task_struct *task = (struct task_struct *)context[0];
	struct account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	u32 own = domain_of(scx_bpf_task_cpu(task));

	if (own >= MOST_DOMAINS)
		own = 0;
	task->scx.dsq_vtime = virtual_time[within(own, MOST_DOMAINS)];
	if (account)
		account->domain = own;
}

SEC("struct_ops/cpu_online")
void cpu_online(u64 *context)
{
	u32 number = domain_of(context[0]);

	if (number < MOST_DOMAINS)
		__sync_fetch_and_add(&online[within(number, MOST_DOMAINS)], 1);
}

/* The last CPU of a domain leaves tasks in its queue: others take them. */
SEC("struct_ops/cpu_offline")
void cpu_offline(u64 *context)
{
	u32 number = domain_of(context[0]), cpu;

	if (number >= MOST_DOMAINS || __sync_fetch_and_add(&online[within(number, MOST_DOMAINS)], -1) > 1)
		return;
	bpf_for(cpu, 0, settings.cpu_count)
		if (domain_of(cpu) != number && domain_of(cpu) != NO_DOMAIN)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static s32 begin(void)
{
	const struct cpumask *available = scx_bpf_get_online_cpumask();
	s32 failed = 0;
	u32 number;

	/* The loader has more to do before its first call. */
	last_call = now() + START;
	bpf_for(number, 0, settings.domain_count)
		if (!failed)
			failed = scx_bpf_create_dsq(number, -1);
	bpf_for(number, 0, settings.cpu_count) {
		u32 domain = domain_of(number);

		if (!failed)
			failed = scx_bpf_create_dsq(queue_of_cpu(number), -1);
		if (domain < MOST_DOMAINS && bpf_cpumask_test_cpu(number, available))
			__sync_fetch_and_add(&online[within(domain, MOST_DOMAINS)], 1);
	}
	scx_bpf_put_cpumask(available);
	return failed;
}

SEC("struct_ops.s/init")
s32 init(u64 *context)
{
	return begin();
}

SEC("struct_ops/exit")
void ended(u64 *context)
{
	struct scx_exit_info *info = (struct scx_exit_info *)context[0];

	bpf_probe_read_kernel_str(status.reason, sizeof(status.reason), info->reason);
	status.exit_kind = info->kind;
}

/* All tasks with their accounts, for the loader. */
SEC("iter/task")
int list_tasks(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct listed listed = {};
	struct account *account;
	struct preference *preference;

	if (!task)
		return 0;
	account = bpf_task_storage_get(&accounts, task, 0, 0);
	if (!account)
		return 0;
	preference = bpf_task_storage_get(&preferences, task, 0, 0);
	listed.process = task->tgid;
	listed.thread = task->pid;
	listed.start = task->start_boottime;
	listed.account = *account;
	if (preference)
		listed.preference = *preference;
	bpf_seq_write(context->meta->seq, &listed, sizeof(listed));
	return 0;
}

#define OPERATIONS                                                                                                     \
	.dispatch = (void *)dispatch,                                                                                  \
	.tick = (void *)tick, .update_idle = (void *)update_idle, .runnable = (void *)runnable,                        \
	.running = (void *)running,                                                                                    \
	.stopping = (void *)stopping, .init_task = (void *)init_task, .enable = (void *)enable,                        \
	.cpu_online = (void *)cpu_online, .cpu_offline = (void *)cpu_offline, .exit = (void *)ended,                   \
	.timeout_ms = 800, .name = "pinfold"

/* For all tasks with normal priority. */
SEC(".struct_ops.link")
struct sched_ext_ops pinfold = {
	OPERATIONS,
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.init = (void *)init,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE,
};

#include "some.h"
