//! The second step: tasks that use another node's memory go back to it.
//!
//! Figure 4: each task `j` of `P_i^Rem` that was migrated reluctantly from domain `a` swaps with a task that was
//! migrated reluctantly from `i` to `a`. Else it goes to an idle core of `a`, else it swaps with a CPU-bound task
//! there, else with a memory-intensive one, which is then migrated reluctantly. For other tasks `Soc_task` is -1, and
//! the figure does not mention them.
//!
//! Sharers stay: gathering sharers has priority, and the next decision would bring them back.
//!
//! With `hysteresis` a task does not swap with a memory-intensive one that would have the same reason to go back.
//!
//! With `learn_homes` a task without an original domain goes to where its memory was last seen to be local: Linux moves
//! tasks, too.

use super::placement_sets::Class;
use super::round::{Cause, Round};
use super::{Activity, Excess, Reason};

/// The step.
pub(super) fn bring_home(round: &mut Round<'_>) {
    let remote_tasks = RemoteTasks::new(round);
    for task in 0..round.sets.states().len() {
        let state = round.sets.states()[task];
        if !state.movable
            || state.remote <= round.thresholds.remote
            || matches!(state.class, Class::Inter | Class::Intra)
        {
            continue;
        }
        let remembered = &round.memory.tasks()[task];
        let learned = remembered.home().filter(|_| round.options.learn_homes);
        let Some(place) = round.place(task) else { continue };
        if let Some(home) = remembered.original().or(learned).filter(|&home| home != place.memory) {
            return_to(round, &remote_tasks, task, home);
        }
    }
}

/// The memory domains between which tasks were migrated reluctantly. Only moves of the same decision can make it out of
/// date, and each task that is found is checked.
struct RemoteTasks {
    /// By the domain of origin and the domain today.
    any: Vec<bool>,
    domains: usize,
}

impl RemoteTasks {
    fn new(round: &Round<'_>) -> Self {
        let domains = round.shape.memories.len();
        let mut any = vec![false; domains * domains];
        for (task, remembered) in round.memory.tasks().iter().enumerate() {
            if let (Some(original), Some(place)) = (remembered.original(), round.place(task)) {
                any[original * domains + place.memory] = true;
            }
        }
        Self { any, domains }
    }

    fn any(&self, from: usize, to: usize) -> bool {
        self.any[from * self.domains + to]
    }
}

fn return_to(round: &mut Round<'_>, remote_tasks: &RemoteTasks, task: usize, home: usize) {
    let Some(here) = round.place(task).map(|place| place.memory) else {
        return;
    };
    let cause = Cause {
        reason: Reason::RemoteMemory,
        excess: Excess {
            activity: Activity::RemoteDram,
            value: round.sets.states()[task].remote,
            threshold: round.thresholds.remote,
        },
    };
    let shape = round.shape;
    let cells = &shape.memories[home].cells;
    let is_remote = |round: &Round<'_>, other: usize| {
        round.memory.tasks()[other].original() == Some(here)
            && !matches!(round.sets.states()[other].class, Class::Inter | Class::Intra)
    };
    let classes = [Class::Memory, Class::Cpu].into_iter();
    for class in classes.filter(|_| remote_tasks.any(here, home)) {
        if let Some(other) = round
            .sets
            .partner_where(shape, round.tasks, class, cells, task, |other| is_remote(round, other))
        {
            return round.swap(task, other, cause, false);
        }
    }
    if round.move_to_idle(task, cells, cause) {
        return;
    }
    for class in [Class::Cpu, Class::Memory] {
        // The memory-intensive task would want to return in turn.
        let stays = class == Class::Cpu || !round.options.hysteresis;
        if let Some(other) = round
            .sets
            .partner(shape, round.tasks, class, cells, task)
            .filter(|_| stays)
        {
            return round.swap(task, other, cause, class == Class::Memory);
        }
    }
}
