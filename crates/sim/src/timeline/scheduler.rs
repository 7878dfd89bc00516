//! Where the operating system runs unpinned tasks: the parts of Linux's scheduler that decide which cores are busy. The
//! rules are those of Linux 6.1; `kernel.rs` has the versions that differ.
//!
//! - A new task begins near the one that creates it, if that node (a NUMA node) has few tasks (`NumaNodes`). Else it
//!   goes to the node with the most idle PUs. Within the node it goes to the group with the fewest tasks, from the
//!   outermost groups inwards, and there to an idle core; the idle sibling of a busy core is the last choice
//!   (`select_idle_core`; Documentation/scheduler/sched-domains.rst: balancing on fork and exec looks for the idlest
//!   group and then for the idlest CPU in it). Among equals a random choice decides.
//! - In every balancing interval the kernel looks for imbalance. A busy machine of `n` CPUs does so every `16 n` ms
//!   (`sd_init` in kernel/sched/topology.c: the interval of a domain is its weight in milliseconds, times the busy
//!   factor 16). Then tasks that share a core spread to idle cores, and tasks of a node that has more of them than
//!   another go to that one, except where the kernel tolerates the difference (`NumaNodes`).
//! - In Linux 7.2 the tasks of a small process gather on one last-level cache (`cache_aware.rs`).
//! - Tasks on a balanced machine still move when a wake-up finds the task's PU busy. In an interval one task moves with
//!   the probability `MOVE_CHANCE`, which is assumed; no figure is published.
//!
//! `pinfold.evaluation.simulator.scheduler` compares it with the kernel of an emulated machine.
//!
//! Automatic NUMA balancing (`numa`) also moves tasks. Of a node with too many tasks, one that prefers another node goes
//! first (`find_busiest_queue`).
//!
//! Not modelled: wake-up affinity (`wake_affine`), priorities, other programs, several levels of distances between nodes,
//! and where there are more tasks than PUs, the rotation of tasks among PUs.

use super::cache_aware::{CacheAware, Running};
use crate::kernel::Kernel;
use crate::model::Model;
use pinfold_core::random::Random;
use pinfold_core::{PuId, PuSet};
use std::collections::HashMap;

/// The probability that a task moves in a balancing interval although the machine is balanced. Assumed.
const MOVE_CHANCE: f64 = 1.0 / 64.0;

/// The difference between the tasks of two nodes that the kernel tolerates while one of them has few:
/// `NUMA_IMBALANCE_MIN` in kernel/sched/fair.c of Linux 6.1.
const TOLERATED: usize = 2;

/// One allowed PU.
struct AllowedPu {
    pu: PuId,
    core: usize,
    domain: usize,
    node: usize,
    package: usize,
}

impl AllowedPu {
    /// The groups that contain it, from the outermost inwards.
    fn groups(&self) -> [usize; 5] {
        [self.package, self.node, self.domain, self.core, self.pu.0 as usize]
    }
}

/// The NUMA nodes, and how many tasks one may have before tasks spread to others.
///
/// Since Linux 5.18 a node may have a few tasks while another is idle (`adjust_numa_imbalance` in kernel/sched/fair.c):
/// a difference of `TOLERATED` tasks does not count while the node that would receive a task has fewer than `few`
/// others. `few` is an eighth of the node's CPUs where the node has one last-level cache, and else the number of these
/// caches, and at least 1 (`build_sched_domains` in kernel/sched/topology.c). In older kernels each difference counts,
/// and `few` is 0.
struct NumaNodes {
    number: usize,
    few: usize,
}

impl NumaNodes {
    fn new(kernel: Kernel, model: &Model) -> Self {
        let number = model.nodes();
        let domains = model.cores() / model.cores_per_domain() / number;
        let few = if domains > 1 { domains } else { model.pus() / number / 8 };
        Self {
            number,
            few: if kernel.tolerates_imbalance() { few.max(1) } else { 0 },
        }
    }

    /// The part of a difference between two nodes that counts, when one of them would have `tasks` with the next one.
    fn imbalance(&self, difference: usize, tasks: usize) -> usize {
        if tasks <= self.few && difference <= TOLERATED {
            0
        } else {
            difference
        }
    }
}

/// What runs on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Its allowed PUs.
    pub(crate) pus: usize,
    /// Those without a task.
    pub(crate) idle: usize,
    /// Tasks on its PUs.
    pub(crate) tasks: usize,
}

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    /// By PU.
    places: Vec<AllowedPu>,
    nodes: NumaNodes,
    random: Random,
    /// Seconds between two balancings.
    interval: f64,
    /// How processes gather on caches, if this kernel does that on this machine.
    caches: Option<CacheAware>,
    /// Seconds to the next balancing while tasks gather. PUs of the preferred cache are idle, and an idle PU balances
    /// without the busy factor: every millisecond for each PU of its node (`get_sd_balance_interval` in
    /// kernel/sched/fair.c).
    idle_interval: f64,
    /// Whether tasks gather, or have moved.
    is_gathering: bool,
    /// By task: the node that it prefers. Empty without automatic NUMA balancing.
    preferred: Vec<Option<usize>>,
}

/// By task: its PU; `None` for a task that has none yet.
pub(crate) type Assignment = Vec<Option<PuId>>;

impl Scheduler {
    /// The scheduler of a kernel on a machine with these allowed PUs. With `caches`, processes gather on caches.
    pub(crate) fn new(kernel: Kernel, model: &Model, allowed: &PuSet, caches: Option<CacheAware>, seed: u64) -> Self {
        let places: Vec<AllowedPu> = allowed
            .iter()
            .filter_map(|pu| {
                let (core, _) = model.core_of_pu(pu.0)?;
                Some(AllowedPu {
                    pu,
                    core,
                    domain: model.domain_of_core(core),
                    node: model.node_of_core(core),
                    package: model.package_of_core(core),
                })
            })
            .collect();
        Self {
            interval: kernel.balancing_interval(places.len()),
            places,
            nodes: NumaNodes::new(kernel, model),
            random: Random::new(seed),
            idle_interval: (model.pus() / model.nodes()) as f64 * 1e-3,
            is_gathering: caches.is_some(),
            caches,
            preferred: vec![],
        }
    }

    /// Seconds to the next balancing.
    pub(crate) fn interval(&self) -> f64 {
        if self.is_gathering {
            self.idle_interval
        } else {
            self.interval
        }
    }

    /// Tasks prefer nodes from now on.
    pub(crate) fn prefer_nodes(&mut self, preferred: Vec<Option<usize>>) {
        if let Some(caches) = &mut self.caches {
            caches.prefer_nodes(&preferred);
        }
        self.preferred = preferred;
    }

    /// The node of an allowed PU.
    pub(crate) fn node(&self, pu: PuId) -> Option<usize> {
        self.place(pu).map(|place| place.node)
    }

    /// By node: what runs there.
    pub(crate) fn loads_of(&self, assignment: &Assignment) -> Vec<Load> {
        self.loads(&self.busy(assignment))
    }

    /// Whether balancing leaves this difference between two nodes, when one of them has `tasks`.
    pub(crate) fn tolerates(&self, difference: usize, tasks: usize) -> bool {
        self.nodes.imbalance(difference, tasks) == 0
    }

    /// The PU of a node that a task goes to.
    pub(crate) fn select_on(&mut self, node: usize, assignment: &Assignment, task: usize) -> PuId {
        let busy = self.busy(&without(assignment, task));
        self.select_in(|place| place.node == node, &busy)
    }

    /// A random whole number below `bound`.
    pub(crate) fn chance(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// The PU for one more task, which a task on the PU `creator` creates, or nobody here.
    pub(crate) fn select(&mut self, assignment: &Assignment, creator: Option<PuId>) -> PuId {
        let busy = self.busy(assignment);
        let here = creator.and_then(|pu| self.node(pu));
        let node = self.node_for_one_more(&self.loads(&busy), here);
        self.select_in(|place| node.is_none_or(|node| place.node == node), &busy)
    }

    /// The PU for one more task, among some.
    fn select_in(&mut self, is_among: impl Fn(&AllowedPu) -> bool, busy: &[[usize; 5]]) -> PuId {
        let there = || {
            let places = self.places.iter().zip(busy);
            places.filter(|(place, _)| is_among(place))
        };
        let best = there().map(|(_, busy)| busy).min().copied().unwrap_or_default();
        let equals: Vec<PuId> = there()
            .filter(|(_, busy)| **busy == best)
            .map(|(place, _)| place.pu)
            .collect();
        equals[self.random.below(equals.len())]
    }

    /// The node for one more task, which is created on node `here` (`find_idlest_group` in kernel/sched/fair.c); `None`
    /// for the one with the fewest tasks. Among equal nodes the kernel prefers `here`, by counts that lag behind where
    /// several programs create tasks; in the emulated machine that looks like chance, so chance decides here.
    fn node_for_one_more(&self, loads: &[Load], here: Option<usize>) -> Option<usize> {
        let here = here.filter(|_| self.nodes.number > 1)?;
        let idlest = loads.iter().map(|load| load.idle).max()?;
        let local = loads[here];
        let difference = idlest.abs_diff(local.idle);
        let stays = local.idle > 0 && self.nodes.imbalance(difference, local.tasks + 1) == 0;
        stays.then_some(here)
    }

    /// By node: its running tasks.
    fn loads(&self, busy: &[[usize; 5]]) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.nodes.number];
        for (place, &[.., on_pu]) in self.places.iter().zip(busy) {
            let load = &mut loads[place.node];
            load.pus += 1;
            load.idle += usize::from(on_pu == 0);
            load.tasks += on_pu;
        }
        loads
    }

    /// By PU: the number of tasks in its package, node, domain, core and PU, of the tasks on allowed PUs.
    fn busy(&self, assignment: &Assignment) -> Vec<[usize; 5]> {
        let mut tasks: HashMap<(usize, usize), usize> = HashMap::new();
        for pu in assignment.iter().flatten() {
            if let Some(place) = self.place(*pu) {
                for group in place.groups().into_iter().enumerate() {
                    *tasks.entry(group).or_default() += 1;
                }
            }
        }
        let of = |group: (usize, usize)| tasks.get(&group).copied().unwrap_or(0);
        self.places
            .iter()
            .map(|place| {
                let groups = place.groups();
                std::array::from_fn(|level| of((level, groups[level])))
            })
            .collect()
    }

    fn place(&self, pu: PuId) -> Option<&AllowedPu> {
        let place = self.places.binary_search_by_key(&pu, |place| place.pu).ok()?;
        Some(&self.places[place])
    }

    /// One balancing: which task moves where, if any. Tasks whose entry in `stays` is true do not move. Those whose
    /// entry in `sleeps` is true hardly run.
    pub(crate) fn balance(
        &mut self,
        assignment: &Assignment,
        stays: &[bool],
        sleeps: &[bool],
    ) -> Option<(usize, PuId)> {
        let running = self.running(assignment, sleeps);
        if let Some(caches) = &mut self.caches {
            caches.prefer(&running);
        }
        let moved = self.moved(assignment, stays, &running);
        self.is_gathering = self.caches.is_some() && moved.is_some();
        moved.filter(|&(task, target)| Some(target) != assignment[task])
    }

    fn moved(&mut self, assignment: &Assignment, stays: &[bool], running: &Running) -> Option<(usize, PuId)> {
        let free: Vec<usize> = (0..assignment.len())
            .filter(|&task| !stays[task] && assignment[task].is_some())
            .collect();
        if free.is_empty() {
            return None;
        }
        let busy = self.busy(assignment);
        if let Some(pulled) = self.pulled(assignment, &free, &busy, running) {
            return Some(pulled);
        }
        let homes = self.homes(assignment, &free, &busy, running);
        let on_core = |pu: PuId| {
            let index = self.places.binary_search_by_key(&pu, |place| place.pu).ok()?;
            Some(busy[index][3])
        };
        let idle: Vec<&AllowedPu> = (self.places.iter().zip(&busy))
            .filter(|(_, [.., on_core, _])| *on_core == 0)
            .map(|(place, _)| place)
            .collect();
        let may_go = |task: usize, place: &AllowedPu| homes[task].is_none_or(|cache| place.domain == cache);
        let has_idle = |task: usize| idle.iter().any(|place| may_go(task, place));
        let shares = |task: usize| assignment[task].and_then(on_core).is_some_and(|tasks| tasks > 1);
        if idle.is_empty() {
            return None;
        }
        if let Some(task) = free.iter().copied().find(|&task| shares(task) && has_idle(task)) {
            let busy = self.busy(&without(assignment, task));
            return Some((task, self.select_in(|place| may_go(task, place), &busy)));
        }
        let without_home: Vec<usize> = free.iter().copied().filter(|&task| homes[task].is_none()).collect();
        let idle: Vec<(PuId, usize)> = idle.into_iter().map(|place| (place.pu, place.domain)).collect();
        if let Some((task, node)) = self.between_nodes(assignment, &without_home, &busy) {
            let busy = self.busy(&without(assignment, task));
            return Some((task, self.select_in(|place| place.node == node, &busy)));
        }
        if self.random.uniform() >= MOVE_CHANCE {
            return None;
        }
        let task = free[self.random.below(free.len())];
        let is_near = |&(_, cache): &(PuId, usize)| homes[task].is_none_or(|home| cache == home);
        let near: Vec<PuId> = idle.iter().filter(|at| is_near(at)).map(|&(pu, _)| pu).collect();
        (!near.is_empty()).then(|| (task, near[self.random.below(near.len())]))
    }

    /// By task: the last-level cache that it runs on. Empty where no process gathers on one.
    fn running(&self, assignment: &Assignment, sleeps: &[bool]) -> Running {
        if self.caches.is_none() {
            return vec![];
        }
        let cache = |pu: PuId| Some(self.place(pu)?.domain);
        (assignment.iter().zip(sleeps))
            .map(|(pu, sleeps)| pu.filter(|_| !sleeps).and_then(cache))
            .collect()
    }

    /// A task that is pulled to the preferred cache of its process.
    fn pulled(
        &mut self,
        assignment: &Assignment,
        free: &[usize],
        busy: &[[usize; 5]],
        running: &Running,
    ) -> Option<(usize, PuId)> {
        let is_idle = |cache: usize| {
            let mut places = self.places.iter().zip(busy);
            places.any(|(place, [.., on_pu])| place.domain == cache && *on_pu == 0)
        };
        let (tasks, cache) = self.caches.as_ref()?.pulled(free, running, is_idle)?;
        let task = tasks[self.random.below(tasks.len())];
        let busy = self.busy(&without(assignment, task));
        Some((task, self.select_in(|place| place.domain == cache, &busy)))
    }

    /// By task: the cache that a free task does not leave.
    fn homes(
        &self,
        assignment: &Assignment,
        free: &[usize],
        busy: &[[usize; 5]],
        running: &Running,
    ) -> Vec<Option<usize>> {
        let mut homes = vec![None; assignment.len()];
        if let Some(caches) = &self.caches {
            for &task in free {
                let index = assignment[task].and_then(|pu| self.places.binary_search_by_key(&pu, |at| at.pu).ok());
                let is_alone = index.is_some_and(|index| busy[index][4] == 1);
                homes[task] = caches.home(task, running, is_alone);
            }
        }
        homes
    }

    /// A task that goes to another node because its node has more tasks, and that node (`calculate_imbalance` in
    /// kernel/sched/fair.c: half of the difference moves).
    fn between_nodes(
        &mut self,
        assignment: &Assignment,
        free: &[usize],
        busy: &[[usize; 5]],
    ) -> Option<(usize, usize)> {
        let loads = self.loads(busy);
        let nodes = || (0..loads.len()).filter(|&node| loads[node].pus > 0);
        let most = nodes().max_by_key(|&node| loads[node].tasks)?;
        let least = nodes().min_by_key(|&node| loads[node].tasks)?;
        let difference = loads[most].tasks - loads[least].tasks;
        if loads[least].idle == 0 || self.nodes.imbalance(difference, loads[least].tasks + 1) / 2 == 0 {
            return None;
        }
        let of_most = |&task: &usize| {
            let place = assignment[task].and_then(|pu| self.place(pu));
            place.is_some_and(|place| place.node == most)
        };
        let mut candidates: Vec<usize> = free.iter().copied().filter(of_most).collect();
        let is_elsewhere = |task: &usize| {
            self.preferred
                .get(*task)
                .is_some_and(|node| node.is_some_and(|it| it != most))
        };
        if candidates.iter().any(is_elsewhere) {
            candidates.retain(is_elsewhere);
        }
        (!candidates.is_empty()).then(|| (candidates[self.random.below(candidates.len())], least))
    }
}

/// The assignment without a task.
fn without(assignment: &Assignment, task: usize) -> Assignment {
    let mut rest = assignment.clone();
    rest[task] = None;
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four packages with a node each of this number of cores, without SMT. With two cores it is the emulated machine
    /// of `pinfold.evaluation.simulator.scheduler`.
    fn four_packages(cores: usize) -> Model {
        let text = include_str!("../../../../machines/e5-4650x4.toml")
            .replace(
                "cores_per_package = { count = 8",
                &format!("cores_per_package = {{ count = {cores}"),
            )
            .replace("threads_per_core = { count = 2", "threads_per_core = { count = 1")
            .lines()
            .filter(|line| {
                !["smt_throughput", "smt_buffers", "turbo"]
                    .iter()
                    .any(|key| line.starts_with(key))
            })
            .collect::<Vec<_>>()
            .join("\n")
            .replace("cores = { count = 8", &format!("cores = {{ count = {cores}"));
        Model::parse("four_packages.toml", &text).unwrap()
    }

    fn scheduler(model: &Model, seed: u64) -> Scheduler {
        of_kernel(Kernel::V6_1, model, seed)
    }

    fn of_kernel(kernel: Kernel, model: &Model, seed: u64) -> Scheduler {
        let all = (0..u32::try_from(model.pus()).unwrap()).map(PuId).collect();
        Scheduler::new(kernel, model, &all, None, seed)
    }

    /// Creates tasks: the first by nobody here, the others by the first.
    fn create(scheduler: &mut Scheduler, tasks: usize) -> Assignment {
        let mut assignment = vec![None; tasks];
        for task in 0..tasks {
            assignment[task] = Some(scheduler.select(&assignment, assignment[0]));
        }
        assignment
    }

    /// Balances `times` times, and applies the moves.
    fn balance(scheduler: &mut Scheduler, assignment: &mut Assignment, times: usize) {
        let stays = vec![false; assignment.len()];
        for _ in 0..times {
            if let Some((task, pu)) = scheduler.balance(assignment, &stays, &stays) {
                assignment[task] = Some(pu);
            }
        }
    }

    /// The numbers of tasks of the packages, the largest first.
    fn tasks_per_package(model: &Model, assignment: &Assignment) -> Vec<usize> {
        let mut tasks = vec![0; model.packages()];
        for pu in assignment.iter().flatten() {
            tasks[model.package_of_core(model.core_of_pu(pu.0).unwrap().0)] += 1;
        }
        tasks.sort_unstable_by_key(|&tasks| std::cmp::Reverse(tasks));
        tasks
    }

    #[test]
    fn the_first_tasks_of_a_program_stay_together_on_a_large_node() {
        // An eighth of 24 CPUs is three tasks, and the difference of three to an idle node is not tolerated.
        let model = four_packages(24);
        for seed in 0..20 {
            let mut scheduler = scheduler(&model, seed);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 2)), [2, 0, 0, 0]);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 3)), [3, 0, 0, 0]);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 4)), [3, 1, 0, 0]);
        }
    }

    #[test]
    fn tasks_begin_apart_on_small_nodes() {
        let model = four_packages(2);
        for seed in 0..20 {
            let mut scheduler = scheduler(&model, seed);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 4)), [1, 1, 1, 1]);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 8)), [2, 2, 2, 2]);
            assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 10)), [3, 3, 2, 2]);
        }
    }

    #[test]
    fn tasks_begin_apart_on_nodes_of_any_size_before_imbalance_is_tolerated() {
        for kernel in [Kernel::V2_6_39, Kernel::V3_10] {
            for cores in [2, 24] {
                let model = four_packages(cores);
                for seed in 0..20 {
                    let mut scheduler = of_kernel(kernel, &model, seed);
                    assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 2)), [1, 1, 0, 0]);
                    assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 4)), [1, 1, 1, 1]);
                    assert_eq!(tasks_per_package(&model, &create(&mut scheduler, 8)), [2, 2, 2, 2]);
                }
            }
        }
    }

    #[test]
    fn nodes_differ_by_one_task_at_most_before_imbalance_is_tolerated() {
        let model = four_packages(4);
        let mut scheduler = of_kernel(Kernel::V2_6_39, &model, 1);
        let mut two: Assignment = [0, 1, 4, 8].map(|pu| Some(PuId(pu))).to_vec();
        balance(&mut scheduler, &mut two, 1);
        assert_eq!(tasks_per_package(&model, &two), [1, 1, 1, 1]);
    }

    #[test]
    fn tasks_begin_in_linux_6_12_where_they_begin_in_6_1() {
        let model = four_packages(24);
        for seed in 0..20 {
            let new = create(&mut of_kernel(Kernel::V6_12, &model, seed), 4);
            assert_eq!(new, create(&mut scheduler(&model, seed), 4));
        }
    }

    #[test]
    fn a_node_stays_idle_beside_one_with_two_tasks_but_not_beside_one_with_three() {
        let model = four_packages(4);
        let mut scheduler = scheduler(&model, 1);
        let at = |pus: &[u32]| pus.iter().map(|&pu| Some(PuId(pu))).collect::<Assignment>();
        let mut two = at(&[0, 1, 4, 8]);
        let busy = scheduler.busy(&two);
        assert_eq!(scheduler.between_nodes(&two.clone(), &[0, 1, 2, 3], &busy), None);
        balance(&mut scheduler, &mut two, 1);
        let mut three = at(&[0, 1, 2, 4]);
        balance(&mut scheduler, &mut three, 1);
        assert_eq!(tasks_per_package(&model, &three), [2, 1, 1, 0]);
    }

    #[test]
    fn a_task_that_prefers_another_node_leaves_a_full_one_first() {
        let model = four_packages(4);
        for seed in 0..10 {
            let mut scheduler = scheduler(&model, seed);
            scheduler.prefer_nodes(vec![Some(0), Some(0), Some(3)]);
            let three: Assignment = [0, 1, 2].map(|pu| Some(PuId(pu))).to_vec();
            let moved = scheduler.balance(&three, &[false; 3], &[false; 3]);
            assert_eq!(moved.map(|(task, _)| task), Some(2));
        }
    }

    #[test]
    fn tasks_spread_evenly_where_every_node_has_more_than_a_few() {
        let model = four_packages(4);
        let mut scheduler = scheduler(&model, 1);
        let mut assignment: Assignment = [0, 1, 2, 4, 5, 8, 9, 12].map(|pu| Some(PuId(pu))).to_vec();
        balance(&mut scheduler, &mut assignment, 1);
        assert_eq!(tasks_per_package(&model, &assignment), [2, 2, 2, 2]);
    }
}
