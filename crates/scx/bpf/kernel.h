/*
 * The kernel's types and functions that the scheduler uses.
 *
 * Types have only the members that are read. The loader finds their offsets in the running kernel (BPF CO-RE), so no
 * header of a certain kernel is needed. Functions that some kernels lack are weak, and `queues.h` chooses.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>

/* The iterator of `bpf_for_each`. */
#define ITERATOR (&___it)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct sched_ext_entity {
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;
	s32 nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	/* Not read. Without it clang describes the type as unknown, and then no function takes it. */
	struct cpumask cpus_mask;
	u64 start_boottime;
	struct sched_ext_entity scx;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_cpu_release_args;

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

struct pcpu_hot {
	int preempt_count;
};

struct seq_file {};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Members that are left out keep the kernel's behaviour. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *task, s32 previous, u64 wake_flags);
	void (*enqueue)(struct task_struct *task, u64 flags);
	void (*dispatch)(s32 cpu, struct task_struct *previous);
	void (*tick)(struct task_struct *task);
	void (*runnable)(struct task_struct *task, u64 flags);
	void (*running)(struct task_struct *task);
	void (*stopping)(struct task_struct *task, bool runnable);
	void (*update_idle)(s32 cpu, bool idle);
	s32 (*init_task)(struct task_struct *task, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *task);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

#pragma clang attribute pop

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

#define PF_KTHREAD 0x00200000

#define SCX_DSQ_LOCAL 0x8000000000000002ULL
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_OPS_KEEP_BUILTIN_IDLE 1ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_SWITCH_PARTIAL 8ULL
#define SCX_KICK_IDLE 1ULL
#define SCX_WAKE_SYNC 0x10ULL

s32 scx_bpf_create_dsq(u64 queue, s32 node) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 queue) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *task, s32 previous, u64 wake_flags, bool *is_idle) __ksym;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *task) __ksym;
void scx_bpf_exit_bstr(s64 code, char *format, unsigned long long *data, u32 size) __ksym;

/* Linux 6.13 gave these their names, and 6.19 a result to the first two. */
void scx_bpf_dispatch(struct task_struct *task, u64 queue, u64 slice, u64 flags) __ksym __weak;
void scx_bpf_dispatch_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags) __ksym __weak;
bool scx_bpf_consume(u64 queue) __ksym __weak;
bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *iterator, struct task_struct *task, u64 queue, u64 flags)
	__ksym __weak;
void scx_bpf_dsq_insert___nothing(struct task_struct *task, u64 queue, u64 slice, u64 flags) __ksym __weak;
bool scx_bpf_dsq_insert___result(struct task_struct *task, u64 queue, u64 slice, u64 flags) __ksym __weak;
void scx_bpf_dsq_insert_vtime___nothing(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags)
	__ksym __weak;
bool scx_bpf_dsq_insert_vtime___result(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags)
	__ksym __weak;
bool scx_bpf_dsq_move_to_local(u64 queue) __ksym __weak;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *iterator, struct task_struct *task, u64 queue, u64 flags) __ksym __weak;

u32 scx_bpf_reenqueue_local(void) __ksym __weak;

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *iterator, u64 queue, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *iterator) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *iterator) __ksym;

void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;

/* Where x86 has the count that shows interrupts: since Linux 6.15, and before. */
extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;
