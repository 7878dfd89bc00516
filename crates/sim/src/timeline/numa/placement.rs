//! Tasks that go to the node they prefer (`numa_migrate_preferred`, `task_numa_migrate`, `task_numa_find_cpu` and
//! `task_numa_compare` in kernel/sched/fair.c of Linux 6.1).
//!
//! A task moves to an idle PU of the node, if the scheduler's balancing would not take it back. Where all PUs of the
//! node are busy it changes places with a task there, if both together gain.

use super::super::scheduler::{Assignment, Load, Scheduler};
use super::faults::Faults;
use pinfold_core::PuId;

/// `SMALLIMP`: a smaller gain, in thousandths of the faults, is not worth a move.
const SMALL: f64 = 30.0;

/// A better place for a task.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Better {
    node: usize,
    /// The task that it changes places with; `None` for an idle PU.
    other: Option<usize>,
    gain: f64,
}

/// A task that looks for a better place.
struct Search<'a> {
    faults: &'a Faults,
    scheduler: &'a Scheduler,
    assignment: &'a Assignment,
    /// By task: whether it may not move.
    stays: &'a [bool],
    loads: Vec<Load>,
    task: usize,
    from: usize,
}

/// A task goes to the node that it prefers, or near it. Returns the tasks that have moved.
pub(super) fn move_to_preferred(
    faults: &mut Faults,
    scheduler: &mut Scheduler,
    assignment: &mut Assignment,
    stays: &[bool],
    task: usize,
) -> Vec<usize> {
    let node_of = |pu: PuId| scheduler.node(pu);
    let (Some(preferred), Some(from)) = (faults.preferred(task), assignment[task].and_then(node_of)) else {
        return vec![];
    };
    if from == preferred {
        return vec![];
    }
    let search = Search {
        loads: scheduler.loads_of(assignment),
        faults,
        scheduler,
        assignment,
        stays,
        task,
        from,
    };
    let better = search.best(preferred);
    if faults.group_number(task).is_some() {
        faults.prefer(task, better.map_or(from, |better| better.node));
    }
    match better {
        None => vec![],
        Some(Better { other: Some(other), .. }) => {
            assignment.swap(task, other);
            vec![task, other]
        }
        Some(Better { node, other: None, .. }) => {
            assignment[task] = Some(scheduler.select_on(node, assignment, task));
            vec![task]
        }
    }
}

impl Search<'_> {
    /// The best place on the preferred node. If there is none, or if the task's group is active on several nodes, also on
    /// others where the task or its group gains.
    fn best(&self, preferred: usize) -> Option<Better> {
        let mut best = self.on_node(preferred, None);
        let spreads = self
            .faults
            .group(self.task)
            .is_some_and(|group| group.active_nodes() > 1);
        if best.is_none() || spreads {
            for node in (0..self.loads.len()).filter(|&node| node != self.from && node != preferred) {
                if self.task_gain(node) >= 0.0 || self.group_gain(node) >= 0.0 {
                    best = self.on_node(node, best);
                }
            }
        }
        best
    }

    fn task_gain(&self, to: usize) -> f64 {
        self.faults.task_weight(self.task, to) - self.faults.task_weight(self.task, self.from)
    }

    fn group_gain(&self, to: usize) -> f64 {
        self.faults.group_weight(self.task, to) - self.faults.group_weight(self.task, self.from)
    }

    /// The better one of `best` and the places on a node.
    fn on_node(&self, node: usize, mut best: Option<Better>) -> Option<Better> {
        let (here, there) = (self.loads[self.from], self.loads[node]);
        let (task, pus) = (self.task, there.pus);
        if self.stays[task] || pus == 0 {
            return best;
        }
        let has_spare = there.tasks < pus;
        let difference = (there.tasks + 2).saturating_sub(here.tasks);
        let may_move = if has_spare {
            self.scheduler.tolerates(difference, there.tasks + 1)
        } else {
            there.tasks < here.tasks
        };
        if may_move && there.idle > 0 {
            let gain = if has_spare { 0.0 } else { self.gain_of_move(node) };
            if has_spare || best.is_none_or(|best| gain >= best.gain) {
                return Some(Better {
                    node,
                    other: None,
                    gain,
                });
            }
        }
        let is_there = |&other: &usize| {
            let pu = self.assignment[other];
            !self.stays[other] && pu.and_then(|pu| self.scheduler.node(pu)) == Some(node)
        };
        for other in (0..self.assignment.len()).filter(is_there) {
            if let Some(gain) = self.gain_of_swap(node, other, has_spare, best) {
                best = Some(Better {
                    node,
                    other: Some(other),
                    gain,
                });
            }
        }
        best
    }

    fn gain_of_move(&self, to: usize) -> f64 {
        match self.faults.group_number(self.task) {
            Some(_) => self.group_gain(to),
            None => self.task_gain(to),
        }
    }

    /// The gain of changing places with a task, if that is better than `best`.
    fn gain_of_swap(&self, to: usize, other: usize, has_spare: bool, best: Option<Better>) -> Option<f64> {
        let faults = self.faults;
        let own_group = faults.group_number(self.task);
        let other_group = faults.group_number(other);
        let prefers_here = |task: usize| faults.preferred(task) == Some(self.from);
        let best_prefers_here = best.and_then(|best| best.other).map(prefers_here);
        if best_prefers_here == Some(true) && !prefers_here(other) {
            return None;
        }
        let gain_of_task = |task| faults.task_weight(task, self.from) - faults.task_weight(task, to);
        let mut gain = if own_group == other_group {
            if has_spare {
                return None;
            }
            let gain = self.task_gain(to) + gain_of_task(other);
            if own_group.is_some() { gain - gain / 16.0 } else { gain }
        } else if own_group.is_some() && other_group.is_some() {
            self.group_gain(to) + faults.group_weight(other, self.from) - faults.group_weight(other, to)
        } else {
            self.gain_of_move(to) + gain_of_task(other)
        };
        if faults.preferred(other) == Some(to) {
            gain -= gain / 16.0;
        }
        if prefers_here(other) {
            gain += gain / 8.0;
        }
        let is_first_to_return = best_prefers_here == Some(false) && prefers_here(other);
        let least = best.map_or(0.0, |best| best.gain) + SMALL / 2.0;
        (is_first_to_return || (gain >= SMALL && gain > least)).then_some(gain)
    }
}
