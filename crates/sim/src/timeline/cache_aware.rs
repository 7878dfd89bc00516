//! Cache-aware scheduling of Linux 7.2: the tasks of a process gather on one last-level cache.
//!
//! 1. A process prefers the cache on which most of its tasks run (`task_cache_work` in kernel/sched/fair.c). It prefers
//!    another one when that has more than twice as many.
//! 2. It prefers none if it has one thread, if too many of its tasks run for one cache (`invalid_llc_nr`), or if it
//!    uses more memory than the cache holds (`exceed_llc_capacity`).
//! 3. Balancing pulls a task that runs elsewhere to the preferred cache of its process (`llc_balance`), unless that
//!    cache is busy already and much busier than the other one (`can_migrate_llc`).
//! 4. A task on the preferred cache stays there while it is alone on its PU (`alb_break_llc`), or while the cache is
//!    not busy (`can_migrate_llc`).
//!
//! A new task begins where the other rules put it: neither fork nor wake-up looks at the preferred cache. The kernel
//! does all this only if nodes have several last-level caches (`sched_cache_present` in kernel/sched/topology.c). All
//! thresholds are the defaults of `/sys/kernel/debug/sched/llc_balancing`.
//!
//! Assumptions: the average number of running tasks (`nr_running_avg`) is the present one. The footprint of a process,
//! which the kernel estimates by its NUMA hinting faults, is the memory that its recording touches. With automatic NUMA
//! balancing, a task that prefers a node gathers only on a cache there (`get_pref_llc`).

use crate::model::Model;
use std::cmp::Reverse;
use std::ops::Range;

/// `fits_capacity` in kernel/sched/fair.c: a load fits if a quarter more of it would fit.
const MARGIN: (usize, usize) = (1280, 1024);

/// `llc_overaggr_pct`: a cache is busy when its tasks use this share of its PUs, in percent.
const BUSY: usize = 50;

/// `llc_imb_pct`: a cache is much busier than another one that has this share fewer running tasks, in percent.
const MUCH_BUSIER: usize = 20;

/// A process that runs.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) tasks: Range<usize>,
    /// The memory that it uses.
    pub(crate) bytes: u64,
}

/// A process, and the last-level cache that it prefers.
struct Preference {
    process: Process,
    cache: Option<usize>,
}

/// Where processes gather.
pub(crate) struct CacheAware {
    preferences: Vec<Preference>,
    /// The caches in the order of their first PUs.
    caches: Vec<usize>,
    pus_of_cache: usize,
    threads_per_core: usize,
    /// The size of a cache. On a machine with one node it is `None`: the kernel does not know how much memory a process
    /// uses there.
    bytes_of_cache: Option<u64>,
    caches_of_node: usize,
    /// By task: the node that it prefers. Empty without automatic NUMA balancing.
    preferred_nodes: Vec<Option<usize>>,
}

/// By task: the cache that it runs on; `None` for a task that sleeps or has no place.
pub(crate) type Running = Vec<Option<usize>>;

impl CacheAware {
    /// `None` on a machine whose nodes have one last-level cache.
    pub(crate) fn new(model: &Model, processes: Vec<Process>) -> Option<Self> {
        let caches_of_node = model.cores() / model.cores_per_domain() / model.nodes();
        let mut caches = vec![];
        for pu in 0..u32::try_from(model.pus()).ok()? {
            let (core, _) = model.core_of_pu(pu)?;
            let cache = model.domain_of_core(core);
            if !caches.contains(&cache) {
                caches.push(cache);
            }
        }
        let preference = |process| Preference { process, cache: None };
        (caches_of_node > 1).then(|| Self {
            preferences: processes.into_iter().map(preference).collect(),
            caches,
            pus_of_cache: model.cores_per_domain() * model.threads_per_core(),
            threads_per_core: model.threads_per_core(),
            bytes_of_cache: (model.nodes() > 1).then(|| model.domain_llc_bytes()),
            caches_of_node,
            preferred_nodes: vec![],
        })
    }

    /// Tasks prefer nodes from now on.
    pub(crate) fn prefer_nodes(&mut self, preferred: &[Option<usize>]) {
        preferred.clone_into(&mut self.preferred_nodes);
    }

    /// Each process finds the cache that it prefers now.
    pub(crate) fn prefer(&mut self, running: &Running) {
        for at in 0..self.preferences.len() {
            let cache = self.preferred(&self.preferences[at], running);
            self.preferences[at].cache = cache;
        }
    }

    fn preferred(&self, preference: &Preference, running: &Running) -> Option<usize> {
        let Process { tasks, bytes } = &preference.process;
        let running = &running[tasks.clone()];
        let number = running.iter().flatten().count();
        let fits = number * self.threads_per_core * MARGIN.0 < self.pus_of_cache * MARGIN.1;
        if tasks.len() <= 1 || !fits || self.bytes_of_cache.is_some_and(|size| size < *bytes) {
            return None;
        }
        let on = |cache: usize| running.iter().flatten().filter(|&&there| there == cache).count();
        let most = self.caches.iter().copied().min_by_key(|&cache| Reverse(on(cache)))?;
        let present = preference.cache.map_or(0, on);
        if on(most) > 2 * present {
            Some(most)
        } else {
            preference.cache
        }
    }

    /// The preferred cache of a task's process.
    fn cache_of(&self, task: usize) -> Option<usize> {
        let of = |preference: &&Preference| preference.process.tasks.contains(&task);
        let cache = self.preferences.iter().find(of)?.cache?;
        let node = self.preferred_nodes.get(task).copied().flatten();
        node.is_none_or(|node| node == cache / self.caches_of_node)
            .then_some(cache)
    }

    /// Tasks on another cache than the preferred one of their process, and that one, which pulls one of them. `free` are
    /// the tasks that may move, and `is_idle` says whether a cache has an idle PU. The nearest of the other caches is
    /// first, then the one with the most such tasks.
    pub(crate) fn pulled(
        &self,
        free: &[usize],
        running: &Running,
        is_idle: impl Fn(usize) -> bool,
    ) -> Option<(Vec<usize>, usize)> {
        let mut groups: Vec<(usize, usize, Vec<usize>)> = vec![];
        for &task in free {
            let (Some(from), Some(to)) = (running[task], self.cache_of(task)) else {
                continue;
            };
            let may_move = from != to && is_idle(to) && self.may_be_pulled(load(running, from), load(running, to));
            if !may_move {
                continue;
            }
            match groups.iter_mut().find(|group| (group.0, group.1) == (from, to)) {
                Some((.., tasks)) => tasks.push(task),
                None => groups.push((from, to, vec![task])),
            }
        }
        let is_far = |from: usize, to: usize| from / self.caches_of_node != to / self.caches_of_node;
        let first = |group: &(usize, usize, Vec<usize>)| (is_far(group.0, group.1), Reverse(group.2.len()));
        let (_, to, tasks) = groups.into_iter().min_by_key(first)?;
        Some((tasks, to))
    }

    /// The cache that a task stays on, if it is on the preferred one of its process and nothing drives it away.
    pub(crate) fn home(&self, task: usize, running: &Running, is_alone: bool) -> Option<usize> {
        let cache = self.cache_of(task).filter(|&cache| running[task] == Some(cache))?;
        (is_alone || !self.is_busy(load(running, cache) - 1)).then_some(cache)
    }

    /// `can_migrate_llc` towards the preferred cache, as `llc_balance` calls it: without the task's own load.
    fn may_be_pulled(&self, from: usize, to: usize) -> bool {
        let is_much_busier = to * 100 > from * (100 + MUCH_BUSIER);
        !self.is_busy(to) || (!self.is_busy(from) && !is_much_busier)
    }

    /// `fits_llc_capacity`, negated. Without SMT the threshold is half as high again.
    fn is_busy(&self, tasks: usize) -> bool {
        let share = if self.threads_per_core == 1 { BUSY * 3 / 2 } else { BUSY };
        tasks * 100 >= self.pus_of_cache * share
    }
}

/// The tasks that run on a cache.
fn load(running: &Running, cache: usize) -> usize {
    running.iter().flatten().filter(|&&there| there == cache).count()
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{Assignment, Scheduler};
    use super::*;
    use crate::kernel::Kernel;
    use crate::model::builtin;
    use pinfold_core::PuId;

    const MIB: u64 = 1 << 20;

    /// Eight cores and 32 MiB in each last-level cache, without SMT, eight caches in each of two nodes.
    const EPYC: &str = "epyc-7763x2";

    /// Programs that run on a machine.
    struct Run {
        model: Model,
        scheduler: Scheduler,
        programs: Vec<Range<usize>>,
        assignment: Assignment,
        sleeps: Vec<bool>,
    }

    impl Run {
        /// Programs with these numbers of tasks, which use this memory each.
        fn new(kernel: Kernel, machine: &str, programs: &[usize], bytes: u64, seed: u64) -> Self {
            let model = builtin(machine).unwrap();
            let mut first = 0;
            let programs: Vec<Range<usize>> = (programs.iter())
                .map(|tasks| {
                    first += tasks;
                    first - tasks..first
                })
                .collect();
            let processes = programs.iter().map(|tasks| Process {
                tasks: tasks.clone(),
                bytes,
            });
            let gathers = kernel.gathers_processes();
            let caches = gathers.then(|| CacheAware::new(&model, processes.collect())).flatten();
            let all = (0..u32::try_from(model.pus()).unwrap()).map(PuId).collect();
            Self {
                scheduler: Scheduler::new(kernel, &model, &all, caches, seed),
                model,
                assignment: vec![None; first],
                sleeps: vec![false; first],
                programs,
            }
        }

        /// Creates all tasks, and balances.
        fn settle(&mut self) {
            for tasks in self.programs.clone() {
                for task in tasks.clone() {
                    let creator = self.assignment[tasks.start];
                    self.assignment[task] = Some(self.scheduler.select(&self.assignment, creator));
                }
            }
            self.balance(100);
        }

        fn balance(&mut self, times: usize) {
            for _ in 0..times {
                let moved = self.scheduler.balance(&self.assignment, &self.sleeps, &self.sleeps);
                if let Some((task, pu)) = moved {
                    self.assignment[task] = Some(pu);
                }
            }
        }

        /// The numbers of tasks of a program on the caches that have some, the largest first.
        fn spread(&self, program: usize) -> Vec<usize> {
            let mut tasks = vec![0; self.model.cores() / self.model.cores_per_domain()];
            for pu in self.assignment[self.programs[program].clone()].iter().flatten() {
                tasks[self.model.domain_of_core(self.model.core_of_pu(pu.0).unwrap().0)] += 1;
            }
            tasks.sort_unstable_by_key(|&tasks| Reverse(tasks));
            tasks.retain(|&tasks| tasks > 0);
            tasks
        }
    }

    #[test]
    fn a_small_process_gathers_on_one_cache_in_linux_7_2_only() {
        for seed in 0..10 {
            for tasks in 2..=6 {
                let spread = |kernel| {
                    let mut run = Run::new(kernel, EPYC, &[tasks], MIB, seed);
                    run.settle();
                    run.spread(0)
                };
                assert_eq!(spread(Kernel::V7_2), [tasks]);
                assert!(spread(Kernel::V6_1).len() > 1);
                assert_eq!(spread(Kernel::V6_1), spread(Kernel::V6_12));
            }
        }
    }

    #[test]
    fn a_process_with_a_task_for_most_cores_of_a_cache_spreads() {
        for tasks in [7, 8, 16] {
            let mut run = Run::new(Kernel::V7_2, EPYC, &[tasks], MIB, 1);
            run.settle();
            assert!(run.spread(0).len() > 4, "{:?}", run.spread(0));
        }
    }

    #[test]
    fn a_process_with_more_memory_than_a_cache_holds_spreads() {
        let spread = |bytes| {
            let mut run = Run::new(Kernel::V7_2, EPYC, &[4], bytes, 1);
            run.settle();
            run.spread(0)
        };
        assert_eq!(spread(32 * MIB), [4]);
        assert!(spread(33 * MIB).len() > 1);
    }

    #[test]
    fn nothing_gathers_where_a_node_has_one_last_level_cache() {
        for seed in 0..10 {
            let spread = |kernel| {
                let mut run = Run::new(kernel, "gold-6142x2", &[6], MIB, seed);
                run.settle();
                run.assignment
            };
            assert_eq!(spread(Kernel::V7_2), spread(Kernel::V6_1));
        }
    }

    #[test]
    fn a_task_that_prefers_another_node_does_not_gather() {
        let mut run = Run::new(Kernel::V7_2, EPYC, &[4], MIB, 1);
        run.assignment = [0, 1, 2, 64].map(|pu| Some(PuId(pu))).to_vec();
        run.scheduler.prefer_nodes(vec![None, None, None, Some(1)]);
        run.balance(100);
        let cache = |task: usize| run.assignment[task].map(|pu| run.model.domain_of_core(pu.0 as usize));
        assert_ne!(cache(3), cache(0), "{:?}", run.assignment);
        run.scheduler.prefer_nodes(vec![None, None, None, Some(0)]);
        run.balance(100);
        assert_eq!(run.spread(0), [4]);
    }

    #[test]
    fn tasks_that_sleep_do_not_count_and_do_not_move() {
        let mut run = Run::new(Kernel::V7_2, EPYC, &[8], MIB, 1);
        run.sleeps[4..].fill(true);
        run.settle();
        let cache = |task: usize| run.assignment[task].map(|pu| run.model.domain_of_core(pu.0 as usize));
        assert!((1..4).all(|task| cache(task) == cache(0)), "{:?}", run.assignment);
        assert!((4..8).any(|task| cache(task) != cache(0)), "{:?}", run.assignment);
    }

    #[test]
    fn processes_beside_each_other_gather_until_the_cache_is_busy() {
        for seed in 0..10 {
            let mut run = Run::new(Kernel::V7_2, EPYC, &[4, 4, 4], MIB, seed);
            run.settle();
            let mut on_cache = vec![0; 16];
            for pu in run.assignment.iter().flatten() {
                on_cache[pu.0 as usize / 8] += 1;
            }
            assert!(on_cache.iter().all(|&tasks| tasks <= 6), "{on_cache:?}");
        }
    }

    #[test]
    fn a_task_is_pulled_to_a_cache_that_is_not_busy_or_not_much_busier() {
        let caches = CacheAware::new(&builtin(EPYC).unwrap(), vec![]).unwrap();
        assert!(caches.may_be_pulled(1, 5));
        assert!(!caches.may_be_pulled(1, 6));
        assert!(!caches.may_be_pulled(5, 7));
        // Both are busy: other rules decide.
        assert!(!caches.may_be_pulled(7, 7));
    }
}
