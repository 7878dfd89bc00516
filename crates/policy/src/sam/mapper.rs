//! The mapper: its state between decisions, and the order of the steps.

use super::Move;
use super::bandwidth;
use super::coherence;
use super::faint;
use super::groups::Groups;
use super::memory::{HOLD, Memory};
use super::options::{MapperOptions, Thresholds};
use super::placement_sets::{Class, PlacementSets};
use super::rates::TaskRates;
use super::remote;
use super::round::Round;
use super::shape::Shape;
use super::trial::{Purpose, Trial};
use pinfold_core::{TaskId, Topology};
use std::collections::HashMap;

/// Nothing must have moved for this number of intervals before a trial starts that no counter suggests.
const CALM: u64 = HOLD + 2;

/// SAM's mapper: from the rates of tasks in an interval to moves. The same inputs give the same moves, in any order of
/// the tasks.
#[derive(Debug)]
pub struct Mapper {
    shape: Shape,
    thresholds: Thresholds,
    options: MapperOptions,
    /// The number of decisions.
    now: u64,
    /// The last decision that moved a task.
    moved: u64,
    memory: Memory,
    sets: PlacementSets,
    groups: Groups,
    trials: Vec<Trial>,
    order: Vec<usize>,
    held: Vec<bool>,
    /// By process: its busy tasks.
    busy: HashMap<i32, usize>,
    moves: Vec<Move>,
    released: Vec<TaskId>,
}

impl Mapper {
    /// For the PUs of a machine that may be used. If the machine changes (a cpuset shrinks), make a new mapper.
    pub fn new(topology: &Topology, thresholds: Thresholds, options: MapperOptions) -> Self {
        Self {
            shape: Shape::new(topology),
            thresholds,
            options,
            now: 0,
            moved: 0,
            memory: Memory::default(),
            sets: PlacementSets::default(),
            groups: Groups::default(),
            trials: vec![],
            order: vec![],
            held: vec![],
            busy: HashMap::new(),
            moves: vec![],
            released: vec![],
        }
    }

    /// What it compares with.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// One decision, after an interval with these rates. Tasks that are no longer listed are forgotten. The moves have
    /// to be made in their order; each task has at most one.
    pub fn decide(&mut self, tasks: &[TaskRates]) -> &[Move] {
        self.now += 1;
        self.moves.clear();
        self.order.clear();
        self.order.extend(0..tasks.len());
        self.order.sort_by_key(|&position| tasks[position].id);
        self.order.dedup_by_key(|&mut position| tasks[position].id);
        self.memory.update(self.now, tasks, &self.order);
        self.released.clear();
        for task in 0..self.memory.tasks().len() {
            let remembered = self.memory.task_mut(task);
            if remembered.take_let_go() {
                self.released.push(remembered.id);
            }
        }
        self.hold();
        self.sets.set(
            &self.shape,
            &self.thresholds,
            tasks,
            &self.order,
            &self.held,
            self.memory.tasks(),
        );
        let mut round = Round {
            now: self.now,
            shape: &self.shape,
            thresholds: &self.thresholds,
            options: self.options,
            tasks,
            sets: &mut self.sets,
            memory: &mut self.memory,
            moves: &mut self.moves,
            before: vec![],
        };
        count_others(&mut round, &mut self.busy);
        learn(&mut round);
        conclude(&mut round, &mut self.trials);
        let calm = self.trials.is_empty() && round.now >= self.moved + CALM;
        let waiting = self.moved > 0 && !calm;
        for gathering in coherence::gather(&mut round, &mut self.groups, waiting) {
            if self.options.validation {
                let trial = Trial::new(&round, &gathering, round.moves, Purpose::Sharing);
                self.trials.push(trial);
            }
        }
        remote::bring_home(&mut round);
        bandwidth::balance(&mut round);
        // A guess is judged by progress, so nothing else may move meanwhile.
        if calm
            && round.moves.is_empty()
            && self.options.tries_faint_sharers()
            && let Some(gathering) = faint::gather(&mut round, &mut self.groups)
        {
            let trial = Trial::new(&round, &gathering, round.moves, Purpose::FaintSharing);
            self.trials.push(trial);
        }
        if !self.moves.is_empty() {
            self.moved = self.now;
        }
        &self.moves
    }

    /// The moves of the last decision.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The tasks that are no longer to be pinned where moves have put them, as of the last decision; before its moves.
    /// Their moves were rolled back in the decision before, so they are where the operating system had put them.
    pub fn released(&self) -> &[TaskId] {
        &self.released
    }

    /// Whether no moves are on trial at present.
    pub(super) fn is_calm(&self) -> bool {
        self.trials.is_empty()
    }

    /// The operating system places this task again, where it is now.
    pub(super) fn let_go(&mut self, task: TaskId) {
        if let Some(index) = self.memory.index_of(task) {
            self.memory.task_mut(index).note_let_go();
        }
    }

    /// These tasks go elsewhere, and not by a decision of this mapper. They stay there as if it had been.
    pub(super) fn note_moves(&mut self, moves: &[Move]) {
        for made in moves {
            let place = |pu| self.shape.position(pu).map(|position| self.shape.places[position]);
            if let (Some(task), Some(to)) = (self.memory.index_of(made.task), place(made.to)) {
                let from = place(made.from).unwrap_or(to);
                let remembered = self.memory.task_mut(task);
                remembered.note_move(self.now, [from.domain, to.domain], false, self.options.hysteresis);
                remembered.home = Some(to.memory);
                self.moved = self.now;
            }
        }
    }

    /// Finds the tasks that no step may move: those that were moved recently, and those of trials. A trial that ends
    /// moves its own tasks.
    fn hold(&mut self) {
        let tasks = self.memory.tasks();
        self.held.clear();
        self.held.extend(
            tasks
                .iter()
                .map(|task| self.options.hysteresis && task.is_held(self.now)),
        );
        for id in self.trials.iter().flat_map(Trial::held) {
            if let Some(index) = self.memory.index_of(id) {
                self.held[index] = true;
            }
        }
    }
}

/// Updates what is remembered of tasks that are not moved, from the sets.
fn learn(round: &mut Round<'_>) {
    for task in 0..round.sets.states.len() {
        let state = round.sets.states[task];
        let rates = &round.tasks[state.input];
        let Some(place) = round.place(task) else { continue };
        if state.class == Class::Idle {
            continue;
        }
        let local = rates.memory.is_some_and(|memory| memory > round.thresholds.memory)
            && rates.remote.is_some_and(|remote| remote <= round.thresholds.remote);
        let quiet = rates.inter.is_some_and(|inter| inter <= round.quiet_below());
        let remembered = round.memory.task_mut(task);
        remembered.has_shared |= state.class == Class::Inter;
        if local {
            remembered.home = Some(place.memory);
        }
        remembered.note_quiet(quiet);
    }
}

/// Counts the busy tasks of other processes, for each task. `of_process` is only kept so that it need not be allocated
/// again.
fn count_others(round: &mut Round<'_>, of_process: &mut HashMap<i32, usize>) {
    let busy = |task: usize| usize::from(round.sets.states[task].class != Class::Idle);
    of_process.clear();
    let mut all = 0;
    for (task, remembered) in round.memory.tasks().iter().enumerate() {
        *of_process.entry(remembered.id.process).or_default() += busy(task);
        all += busy(task);
    }
    for task in 0..round.sets.states.len() {
        let remembered = round.memory.task_mut(task);
        remembered.note_others(all - of_process[&remembered.id.process]);
    }
}

/// Ends the trials that have seen enough intervals.
fn conclude(round: &mut Round<'_>, trials: &mut Vec<Trial>) {
    let mut index = 0;
    while index < trials.len() {
        if trials[index].observe(round) {
            trials.remove(index).conclude(round);
        } else {
            index += 1;
        }
    }
}
