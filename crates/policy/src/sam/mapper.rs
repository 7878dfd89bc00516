//! The mapper: its state between decisions, and the order of the steps.

use super::Move;
use super::bandwidth;
use super::coherence;
use super::faint;
use super::groups::Groups;
use super::memory::Memory;
use super::options::{MapperOptions, Thresholds};
use super::placement_sets::{Class, PlacementSets};
use super::rates::TaskRates;
use super::remote;
use super::round::Round;
use super::shape::Shape;
use super::trial::Purpose;
use super::trials::Trials;
use pinfold_core::{TaskId, Topology};

/// SAM's mapper: from the rates of tasks in an interval to moves. The same inputs give the same moves, in any order of
/// the tasks.
#[derive(Debug)]
pub struct Mapper {
    shape: Shape,
    thresholds: Thresholds,
    options: MapperOptions,
    /// The number of decisions.
    now: u64,
    memory: Memory,
    sets: PlacementSets,
    groups: Groups,
    trials: Trials,
    /// By task: whether no step may move it.
    held: Vec<bool>,
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
            memory: Memory::default(),
            sets: PlacementSets::default(),
            groups: Groups::default(),
            trials: Trials::default(),
            held: vec![],
            moves: vec![],
            released: vec![],
        }
    }

    /// The thresholds of the rates.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// One decision, after an interval with these rates. Tasks that are no longer listed are forgotten. The moves have
    /// to be made in their order; each task has at most one.
    pub fn decide(&mut self, tasks: &[TaskRates]) -> &[Move] {
        self.now += 1;
        self.moves.clear();
        self.memory.update(self.now, tasks);
        self.released.clear();
        self.released.extend(self.memory.take_let_go());
        self.hold();
        self.sets
            .set(&self.shape, &self.thresholds, tasks, &self.held, &self.memory);
        let sets = &self.sets;
        self.memory
            .count_others(|task| sets.states()[task].class != Class::Idle);
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
        learn(&mut round);
        self.trials.observe(&mut round);
        let calm = self.trials.is_calm(round.now);
        let waiting = self.trials.is_waiting(round.now);
        for gathering in coherence::gather(&mut round, &mut self.groups, waiting) {
            if self.options.validation {
                self.trials.begin(&round, &gathering, Purpose::Sharing);
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
            self.trials.begin(&round, &gathering, Purpose::FaintSharing);
        }
        if !self.moves.is_empty() {
            self.trials.note_moved(self.now);
        }
        &self.moves
    }

    /// The moves of the last decision.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The tasks that the last decision lets go, before its moves. The decision before rolled their moves back, so they
    /// are on the PUs that the operating system chose.
    pub fn released(&self) -> &[TaskId] {
        &self.released
    }

    /// Whether no moves are on trial.
    pub(super) fn is_calm(&self) -> bool {
        self.trials.is_empty()
    }

    /// The operating system places this task again.
    pub(super) fn let_go(&mut self, task: TaskId) {
        if let Some(index) = self.memory.index_of(task) {
            self.memory.task_mut(index).note_let_go();
        }
    }

    /// Others than this mapper move these tasks. They stay there as if the mapper had moved them.
    pub(super) fn note_moves(&mut self, moves: &[Move]) {
        for made in moves {
            let place = |pu| self.shape.position(pu).map(|position| self.shape.places[position]);
            if let (Some(task), Some(to)) = (self.memory.index_of(made.task), place(made.to)) {
                let from = place(made.from).unwrap_or(to);
                let remembered = self.memory.task_mut(task);
                remembered.note_move(self.now, [from.domain, to.domain], false, self.options.hysteresis);
                remembered.note_home(to.memory);
                self.trials.note_moved(self.now);
            }
        }
    }

    /// Finds the tasks that no step may move: tasks that were moved recently, and tasks of trials. A trial that ends
    /// moves its own tasks.
    fn hold(&mut self) {
        let tasks = self.memory.tasks();
        self.held.clear();
        self.held.extend(
            tasks
                .iter()
                .map(|task| self.options.hysteresis && task.is_held(self.now)),
        );
        for id in self.trials.held() {
            if let Some(index) = self.memory.index_of(id) {
                self.held[index] = true;
            }
        }
    }
}

/// Updates the memory of tasks that are not moved, from the sets.
fn learn(round: &mut Round<'_>) {
    for task in 0..round.sets.states().len() {
        let state = round.sets.states()[task];
        let rates = &round.tasks[state.input];
        let Some(place) = round.place(task) else { continue };
        if state.class == Class::Idle {
            continue;
        }
        let local = rates.memory.is_some_and(|memory| memory > round.thresholds.memory)
            && rates.remote.is_some_and(|remote| remote <= round.thresholds.remote);
        let quiet = rates.inter.is_some_and(|inter| inter <= round.quiet_below());
        let remembered = round.memory.task_mut(task);
        remembered.note_traffic(state.class == Class::Inter, quiet);
        if local {
            remembered.note_home(place.memory);
        }
    }
}
