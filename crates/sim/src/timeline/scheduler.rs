//! Where the operating system runs unpinned tasks: the parts of Linux's scheduler that decide which cores are busy.
//!
//! - A new task goes to the group with the fewest tasks, from the outermost groups inwards. Within the group it goes to
//!   an idle core; the idle sibling of a busy core is the last choice (`select_idle_core`;
//!   Documentation/scheduler/sched-domains.rst: balancing on fork and exec looks for the idlest group and then for the
//!   idlest CPU in it). Among equals a random choice decides.
//! - In every balancing interval the kernel looks for imbalance. A busy machine of `n` CPUs does so every `16 n` ms
//!   (`sd_init` in kernel/sched/topology.c: the interval of a domain is its weight in milliseconds, times the busy
//!   factor 16). Then tasks that share a core spread to idle cores.
//! - Tasks on a balanced machine still move when a wake-up finds the task's PU busy. In an interval one task moves with
//!   the probability `MOVE_CHANCE`, which is assumed; no figure is published.
//!
//! Not modelled: automatic NUMA balancing, wake-up affinity (`wake_affine`), priorities, other programs.

use crate::model::Model;
use pinfold_core::random::Random;
use pinfold_core::{PuId, PuSet};
use std::collections::HashMap;

/// The probability that a task moves in a balancing interval although the machine is balanced. Assumed.
const MOVE_CHANCE: f64 = 1.0 / 64.0;

/// `busy_factor` of `sd_init` in kernel/sched/topology.c since Linux 5.10.
const BUSY_FACTOR: f64 = 16.0;

/// One allowed PU.
struct Place {
    pu: PuId,
    core: usize,
    domain: usize,
    node: usize,
    package: usize,
}

impl Place {
    /// The groups that contain it, from the outermost inwards.
    fn groups(&self) -> [usize; 5] {
        [self.package, self.node, self.domain, self.core, self.pu.0 as usize]
    }
}

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    /// By PU.
    places: Vec<Place>,
    random: Random,
    /// Seconds between two balancings.
    interval: f64,
}

/// By task: its PU; `None` for a task that has none yet.
pub(crate) type Assignment = Vec<Option<PuId>>;

impl Scheduler {
    /// The scheduler of a machine with these allowed PUs.
    pub(crate) fn new(model: &Model, allowed: &PuSet, seed: u64) -> Self {
        let places: Vec<Place> = allowed
            .iter()
            .filter_map(|pu| {
                let (core, _) = model.core_of_pu(pu.0)?;
                Some(Place {
                    pu,
                    core,
                    domain: model.domain_of_core(core),
                    node: model.node_of_core(core),
                    package: model.package_of_core(core),
                })
            })
            .collect();
        Self {
            interval: BUSY_FACTOR * places.len() as f64 * 1e-3,
            places,
            random: Random::new(seed),
        }
    }

    /// Seconds between two balancings.
    pub(crate) fn interval(&self) -> f64 {
        self.interval
    }

    /// A random whole number below `bound`.
    pub(crate) fn chance(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// The PU for one more task.
    pub(crate) fn select(&mut self, assignment: &Assignment) -> PuId {
        let busy = self.busy(assignment);
        let best = busy.iter().min().copied().unwrap_or_default();
        let equals: Vec<PuId> = self
            .places
            .iter()
            .zip(&busy)
            .filter(|(_, busy)| **busy == best)
            .map(|(place, _)| place.pu)
            .collect();
        equals[self.random.below(equals.len())]
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

    fn place(&self, pu: PuId) -> Option<&Place> {
        let place = self.places.binary_search_by_key(&pu, |place| place.pu).ok()?;
        Some(&self.places[place])
    }

    /// One balancing: which task moves where, if any. Tasks whose entry in `stays` is true do not move.
    pub(crate) fn balance(&mut self, assignment: &Assignment, stays: &[bool]) -> Option<(usize, PuId)> {
        let free: Vec<usize> = (0..assignment.len())
            .filter(|&task| !stays[task] && assignment[task].is_some())
            .collect();
        if free.is_empty() {
            return None;
        }
        let busy = self.busy(assignment);
        let on_core: HashMap<PuId, usize> = self
            .places
            .iter()
            .zip(&busy)
            .map(|(place, [.., on_core, _])| (place.pu, *on_core))
            .collect();
        let idle: Vec<PuId> = self
            .places
            .iter()
            .map(|place| place.pu)
            .filter(|pu| on_core[pu] == 0)
            .collect();
        let crowded = free
            .iter()
            .copied()
            .find(|&task| assignment[task].is_some_and(|pu| on_core.get(&pu).is_some_and(|&tasks| tasks > 1)));
        let task = match crowded {
            Some(task) if !idle.is_empty() => task,
            _ if !idle.is_empty() && self.random.uniform() < MOVE_CHANCE => free[self.random.below(free.len())],
            _ => return None,
        };
        let mut without = assignment.clone();
        let before = without[task].take();
        let target = if crowded == Some(task) {
            self.select(&without)
        } else {
            idle[self.random.below(idle.len())]
        };
        (Some(target) != before).then_some((task, target))
    }
}
