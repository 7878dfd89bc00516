//! Where the operating system runs tasks that nobody pinned: what of Linux's scheduler decides which cores are busy.
//!
//! - A new task goes to the group with the fewest tasks, from the outermost groups inwards, and there to an idle core; the
//!   idle sibling of a busy core comes last (`select_idle_core`; Documentation/scheduler/sched-domains.rst: balancing on
//!   fork and exec looks for the idlest group and then for the idlest CPU in it). Between equals chance decides.
//! - Every balancing interval the kernel looks for imbalance. A busy machine of `n` CPUs does so every `16 n` ms
//!   (`sd_init` in kernel/sched/topology.c: the interval of a domain is its weight in milliseconds, times the busy
//!   factor 16). Tasks that share a core while another is idle are spread then.
//! - Tasks on a balanced machine still move: wake-ups find their PU taken by something else. Per interval one task does so
//!   with `MOVE_CHANCE`, which is assumed; nobody publishes it.
//!
//! Not modelled: automatic NUMA balancing, wake-up affinity (`wake_affine`), priorities, other programs.

use crate::model::Model;
use crate::random::Random;
use pinfold_core::{PuId, PuSet};

/// Per balancing interval, the chance that some task is moved although the machine is balanced. Assumed.
const MOVE_CHANCE: f64 = 1.0 / 64.0;

/// `busy_factor` of `sd_init` in kernel/sched/topology.c since Linux 5.10.
const BUSY_FACTOR: f64 = 16.0;

/// One PU that may be used.
struct Place {
    pu: PuId,
    core: usize,
    domain: usize,
    node: usize,
    package: usize,
}

/// The scheduler of one machine.
pub(crate) struct Scheduler {
    places: Vec<Place>,
    random: Random,
    /// In seconds.
    interval: f64,
}

/// By task: where it runs; `None` for one that has no place yet.
pub(crate) type Assignment = Vec<Option<PuId>>;

impl Scheduler {
    /// The scheduler of a machine on which only these PUs may be used.
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

    /// The PU for one more task.
    pub(crate) fn select(&mut self, assignment: &Assignment) -> PuId {
        let tasks = |which: &dyn Fn(&Place) -> bool| {
            self.places
                .iter()
                .filter(|place| which(place))
                .map(|place| assignment.iter().flatten().filter(|&&pu| pu == place.pu).count())
                .sum::<usize>()
        };
        let busy: Vec<[usize; 5]> = self
            .places
            .iter()
            .map(|place| {
                [
                    tasks(&|other| other.package == place.package),
                    tasks(&|other| other.node == place.node),
                    tasks(&|other| other.domain == place.domain),
                    tasks(&|other| other.core == place.core),
                    tasks(&|other| other.pu == place.pu),
                ]
            })
            .collect();
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

    /// One balancing: which task moves where, if any. Tasks of which `stays` says so are not touched.
    pub(crate) fn balance(&mut self, assignment: &Assignment, stays: &[bool]) -> Option<(usize, PuId)> {
        let free: Vec<usize> = (0..assignment.len())
            .filter(|&task| !stays[task] && assignment[task].is_some())
            .collect();
        if free.is_empty() {
            return None;
        }
        let core_of = |pu: PuId| self.places.iter().find(|place| place.pu == pu).map(|place| place.core);
        let on_core = |core: Option<usize>| {
            let tasks = assignment.iter().flatten();
            tasks.filter(|&&pu| core_of(pu) == core).count()
        };
        let idle_cores = self
            .places
            .iter()
            .filter(|place| on_core(Some(place.core)) == 0)
            .count();
        let crowded = free
            .iter()
            .copied()
            .find(|&task| assignment[task].is_some_and(|pu| on_core(core_of(pu)) > 1));
        let task = match crowded {
            Some(task) if idle_cores > 0 => task,
            _ if idle_cores > 0 && self.random.uniform() < MOVE_CHANCE => free[self.random.below(free.len())],
            _ => return None,
        };
        let mut without = assignment.clone();
        let before = without[task].take();
        let target = if crowded == Some(task) {
            self.select(&without)
        } else {
            let idle: Vec<PuId> = self
                .places
                .iter()
                .filter(|place| on_core(Some(place.core)) == 0)
                .map(|place| place.pu)
                .collect();
            idle[self.random.below(idle.len())]
        };
        (Some(target) != before).then_some((task, target))
    }
}
