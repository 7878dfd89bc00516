/* The kernel's functions for dispatch queues, whichever names the running kernel has for them. */
#pragma once

#include "kernel.h"

static __always_inline void insert(struct task_struct *task, u64 queue, u64 slice, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___result))
		scx_bpf_dsq_insert___result(task, queue, slice, flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___nothing))
		scx_bpf_dsq_insert___nothing(task, queue, slice, flags);
	else
		scx_bpf_dispatch(task, queue, slice, flags);
}

static __always_inline void insert_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___result))
		scx_bpf_dsq_insert_vtime___result(task, queue, slice, vtime, flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___nothing))
		scx_bpf_dsq_insert_vtime___nothing(task, queue, slice, vtime, flags);
	else
		scx_bpf_dispatch_vtime(task, queue, slice, vtime, flags);
}

/* Takes the first task of a queue that may run on this CPU. */
static __always_inline bool take(u64 queue)
{
	return bpf_ksym_exists(scx_bpf_dsq_move_to_local) ? scx_bpf_dsq_move_to_local(queue) : scx_bpf_consume(queue);
}

/* Takes the task at which an iterator is. */
static __always_inline bool take_one(struct bpf_iter_scx_dsq *iterator, struct task_struct *task, u64 queue)
{
	return bpf_ksym_exists(scx_bpf_dsq_move) ? scx_bpf_dsq_move(iterator, task, queue, 0)
						 : scx_bpf_dispatch_from_dsq(iterator, task, queue, 0);
}

/* Whether a CPU's current task is interrupted by the hardware: it then wakes nobody itself. */
static __always_inline bool is_interrupted(void)
{
	const u32 hardware = 0x00ff0000;

	if (bpf_ksym_exists(&__preempt_count))
		return *(const int *)bpf_this_cpu_ptr(&__preempt_count) & hardware;
	if (bpf_ksym_exists(&pcpu_hot))
		return ((const struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count & hardware;
	return false;
}
