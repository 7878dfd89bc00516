/*
 * The scheduler for the tasks that ask for it (policy SCHED_EXT), where the others stay with the kernel's own. Those
 * run on the same CPUs and come first, which changes three things:
 *
 * 1. No task is given to an idle CPU: one of them may take the CPU first, for long. It goes into the queue of the
 *    domain, and the CPU is woken. A CPU looks into the queue when none of them wants it.
 * 2. If one of them takes a CPU, what waits for that CPU goes into the queues again, and to other CPUs from there.
 * 3. While they run on all CPUs of a domain, no tick and no dispatch of ours looks at its queue. A timer does, and
 *    wakes an idle CPU for a task whose patience is over. It is slower while nothing waits. It also wakes an idle CPU
 *    to which the kernel gave a task: `enqueue` does not see a task that ends or may not migrate, and Linux 6.18 lets
 *    its CPU idle if it is the only one.
 *
 * If they run on all CPUs of the machine, these tasks wait: for the share that the kernel keeps for them, if it keeps
 * one, or until its watchdog ends the scheduler.
 */
#pragma once

#define LOOKS_WHILE_SOME_WAIT 2000000ULL
#define LOOKS 20000000ULL
#define CLOCK_MONOTONIC 1

struct looking {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct looking);
} looking SEC(".maps");

static int look(void *map, u32 *key, struct bpf_timer *timer)
{
	bool waits = false;
	u32 number, cpu;

	bpf_for(cpu, 0, settings.cpu_count) {
		if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) <= 0)
			continue;
		waits = true;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	bpf_rcu_read_lock();
	bpf_for(number, 0, settings.domain_count) {
		if (!scx_bpf_dsq_nr_queued(number))
			continue;
		waits = true;
		wake_for_impatient(number);
	}
	bpf_rcu_read_unlock();
	bpf_timer_start(timer, waits ? LOOKS_WHILE_SOME_WAIT : LOOKS, 0);
	return 0;
}

SEC("struct_ops/select_cpu")
s32 select_some(u64 *context)
{
	bool is_idle = false;

	return select((struct task_struct *)context[0], context[1], context[2], &is_idle);
}

SEC("struct_ops/enqueue")
void enqueue_some(u64 *context)
{
	put((struct task_struct *)context[0], context[1], true);
}

SEC("struct_ops/cpu_release")
void cpu_release(u64 *context)
{
	if (bpf_ksym_exists(scx_bpf_reenqueue_local))
		scx_bpf_reenqueue_local();
}

SEC("struct_ops.s/init")
s32 init_some(u64 *context)
{
	u32 first = 0;
	struct looking *one = bpf_map_lookup_elem(&looking, &first);
	s32 failed = begin();

	if (failed || !one)
		return failed;
	bpf_timer_init(&one->timer, &looking, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&one->timer, look);
	bpf_timer_start(&one->timer, LOOKS, 0);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops pinfold_some = {
	OPERATIONS,
	.select_cpu = (void *)select_some,
	.enqueue = (void *)enqueue_some,
	.cpu_release = (void *)cpu_release,
	.init = (void *)init_some,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_SWITCH_PARTIAL,
};
