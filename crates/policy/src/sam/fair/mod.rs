//! The mapper with a check: its moves stay only while no process makes less progress than on the unpinned machine.
//!
//! SAM moves tasks by the causes that counters show, and its trials look at the mean of the tasks concerned. So some
//! processes can pay for the gain of others. Here both arrangements of the whole machine, with the moves and without,
//! are measured for each process.
//!
//! The state is owned by the machine, by process and by task:
//!
//! ```text
//!   FairMapper ---- which stage: mapping, turns, or unpinned
//!    |
//!    |-- Mapper           SAM: rates of tasks in, moves out
//!    |
//!    |  the machine
//!    |-- Clock            the decisions, and the intervals that are measured
//!    |-- Budget           the cost of comparisons, and when the next one begins
//!    |
//!    |  by process
//!    |-- Processes        the verdict
//!    |    '-- Process     progress in windows, with the moves and without
//!    |-- Pages            whose pages follow
//!    |-- KnownProcesses   placements of earlier runs
//!    |
//!    |  by task
//!    '-- Places           the PU with the moves, and the PU without
//! ```
//!
//! The steps:
//!
//! 1. **Before.** A task is moved only after the progress of its process was measured, for a step at least.
//! 2. **After.** When moves have settled, each process is compared with the last window before them. If one seems to
//!    make less progress, the comparison in turns begins at once. Otherwise it begins when it is cheap enough
//!    (`Budget`). If a process makes much less progress in two steps, the comparison begins before moves have settled.
//! 3. **In turns** (`Turns`). With the moves, without, without, with, and so on. Without the moves each task goes back
//!    to the PU on which it ran before the first move, or when the last turn without moves ended. Then the operating
//!    system places it. Tasks that were never moved go back, too: the operating system may have placed them around the
//!    pinned tasks, and would leave them there. The mapper waits meanwhile.
//! 4. **Pages.** If the tasks of a slower process have left their node, its pages follow, and the comparison begins
//!    again. Without the moves, pages are back on their nodes. No interval with pages under way is measured.
//! 5. **Verdict.** If a process makes less progress with the moves, or none makes more, all tasks become unpinned. The
//!    mapper begins again after a pause. The pause grows each time. It is shorter when another process begins to work,
//!    or when a process makes clearly less progress than when the moves were given up. A process that was moved and
//!    made less progress is not moved again. In all other cases the moves stay.
//! 6. **Known processes** go to the placement in which an earlier run of their program was fastest, with their pages.
//!    These moves are compared like the mapper's.
//!
//! Progress is instructions, the bytes that a process reads and writes, or the calls of a function of it. Without any of
//! these for any task no progress is known, and the mapper moves tasks as the paper's does.
//!
//! Limits: a process that waits in a loop executes instructions. A process that did not work in both arrangements is
//! not judged. One decision holds for the whole machine: if one process loses, the gain of all others is given up.

mod budget;
mod clock;
mod known_processes;
mod pages;
mod places;
mod process;
mod processes;
mod turns;

use super::Move;
use super::mapper::Mapper;
use super::options::{MapperOptions, Thresholds};
use super::rates::TaskRates;
use crate::known::KnownPlacement;
use budget::{Budget, Ended, Pause, RESTLESS};
use clock::{Clock, Interval, WINDOW};
use known_processes::{Arrivals, KnownProcesses};
use pages::Pages;
use pinfold_core::{MappingCode, MappingComparison, ProcessGoal, PuSet, TaskId, Topology};
use places::Places;
use processes::{FORGOTTEN, Processes, Sums, sums};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use turns::Turns;

/// A task that is not listed for this number of steps is no longer pinned. Assumed, as the daemon's `release_after`.
const GONE: u64 = 100;

/// What the mapper may do now.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The mapper decides.
    Mapping,
    /// Both arrangements are measured in turns, and the mapper waits.
    Turns(Turns),
    /// All tasks are unpinned, and the mapper waits.
    Unpinned(Pause),
}

/// Moves after which no window is complete yet.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    /// The interval of the first of them.
    at: u64,
    /// Whether no task was pinned before.
    were_unpinned: bool,
}

/// The result of one decision.
#[derive(Debug, Default)]
struct Decided {
    moves: Vec<Move>,
    released: Vec<TaskId>,
    comparison: Option<MappingComparison>,
}

/// The mapper, and the comparison of its moves with the unpinned machine.
#[derive(Debug)]
pub struct FairMapper {
    mapper: Mapper,
    compares: bool,
    clock: Clock,
    budget: Budget,
    processes: Processes,
    pages: Pages,
    /// `None` without `MapperOptions::known`.
    known: Option<KnownProcesses>,
    places: Places,
    stage: Stage,
    unsettled: Option<Unsettled>,
    decided: Decided,
}

impl FairMapper {
    /// For the PUs of a machine that may be used. Without `MapperOptions::comparison` it is the mapper alone.
    /// `interval` is the time between two decisions.
    pub fn new(topology: &Topology, thresholds: Thresholds, options: MapperOptions, interval: Duration) -> Self {
        let clock = Clock::new(interval);
        Self {
            mapper: Mapper::new(topology, thresholds, options),
            compares: options.comparison,
            budget: Budget::new(),
            processes: Processes::new(clock.steps(WINDOW), clock.steps(1)),
            pages: Pages::new(topology, options.pages),
            known: options.known.then(|| KnownProcesses::new(topology, options.pages)),
            places: Places::default(),
            stage: Stage::Mapping,
            unsettled: None,
            decided: Decided::default(),
            clock,
        }
    }

    /// The mapper's thresholds.
    pub fn thresholds(&self) -> &Thresholds {
        self.mapper.thresholds()
    }

    /// One decision, as `Mapper::decide`.
    pub fn decide(&mut self, tasks: &[TaskRates]) -> &[Move] {
        self.decided.moves.clear();
        self.decided.released.clear();
        if self.compares {
            self.decide_fairly(tasks);
        } else {
            self.decided.moves.extend_from_slice(self.mapper.decide(tasks));
            self.decided.released.extend_from_slice(self.mapper.released());
        }
        &self.decided.moves
    }

    fn decide_fairly(&mut self, tasks: &[TaskRates]) {
        self.clock.advance();
        let under_way = self.pages.take_under_way();
        self.places.see(self.clock.now(), self.clock.steps(GONE), tasks);
        if let Some(known) = &mut self.known {
            known.see(&self.clock, tasks);
        }
        if self.places.are_leaving() {
            return self.let_go();
        }
        let sums = sums(tasks);
        let interval = self
            .clock
            .measure(sums.values().any(|(progress, _)| progress.is_some()));
        if interval != Interval::Settling {
            self.processes.observe(self.clock.now(), &sums);
        }
        let complete = interval == Interval::EndsWindow;
        if complete {
            self.processes.complete();
            self.forget_ended();
        }
        match &mut self.stage {
            Stage::Turns(turns) => {
                turns.spend();
                if complete {
                    self.end_turn(tasks);
                }
            }
            Stage::Unpinned(pause) if is_in_pause(&self.clock, *pause, &self.processes, &self.budget) => {}
            Stage::Mapping | Stage::Unpinned(_) => {
                self.stage = Stage::Mapping;
                let compares = (!under_way && self.is_alarmed(tasks, &sums)) || (complete && self.begins_turns(tasks));
                if !compares {
                    let arrivals = if complete {
                        self.arrivals(tasks)
                    } else {
                        Arrivals::default()
                    };
                    self.map(tasks, &arrivals);
                }
            }
        }
    }

    /// The moves of the last decision.
    pub fn moves(&self) -> &[Move] {
        &self.decided.moves
    }

    /// The tasks that the last decision lets go. They are unpinned before its moves.
    pub fn released(&self) -> &[TaskId] {
        &self.decided.released
    }

    /// The comparison that ended with the last decision. Each is returned once.
    pub fn take_comparison(&mut self) -> Option<MappingComparison> {
        self.decided.comparison.take()
    }

    /// The processes whose pages belong elsewhere after the last decision, and where. The pages of all other processes
    /// belong on the nodes on which they were.
    pub fn followed(&self) -> &BTreeMap<i32, ProcessGoal> {
        const NONE: &BTreeMap<i32, ProcessGoal> = &BTreeMap::new();
        if self.is_unpinned() {
            NONE
        } else {
            self.pages.followed()
        }
    }

    /// Pages are still under way, so that the coming interval does not measure the arrangement.
    pub fn note_pages_under_way(&mut self) {
        if let Stage::Turns(turns) = &mut self.stage {
            turns.note_pages_under_way();
        }
        self.pages.note_under_way();
        self.restart_window();
    }

    /// The progress of this process has another unit from now on: calls of a function and no longer bytes, or another
    /// function. The comparison does not go on with what was measured before.
    pub fn note_other_unit(&mut self, process: i32) {
        self.processes.forget_progress(process);
    }

    /// The pages of this process cannot be moved, and `followed` does not name it again.
    pub fn note_pages_stay(&mut self, process: i32) {
        self.pages.note_immovable(process);
    }

    /// The processes that have begun to work since the last call, for `note_known`. Empty without
    /// `MapperOptions::known`.
    pub fn take_newcomers(&mut self) -> Vec<i32> {
        let known = self.known.as_mut();
        known.map(KnownProcesses::take_newcomers).unwrap_or_default()
    }

    /// The known placements of a process's program, by number of threads.
    pub fn note_known(&mut self, process: i32, placements: &BTreeMap<usize, KnownPlacement>) {
        if let Some(known) = &mut self.known {
            known.note(&self.clock, process, placements);
        }
    }

    /// Whether the mapper's moves are withdrawn now: for a turn of a comparison, or until the end of a pause.
    pub fn is_unpinned(&self) -> bool {
        match self.stage {
            Stage::Mapping => false,
            Stage::Turns(turns) => !turns.is_pinned(),
            Stage::Unpinned(_) => true,
        }
    }

    /// Lets all tasks go that moves have put back.
    fn let_go(&mut self) {
        self.decided.released.extend(self.places.take_leaving());
        if let Stage::Unpinned(_) = self.stage {
            self.forget_places();
        }
        self.restart_window();
    }

    /// All tasks are unpinned, and all pages are back.
    fn forget_places(&mut self) {
        self.places.clear(&mut self.mapper);
        self.pages.clear();
    }

    /// The arrangement has changed: nothing of this interval counts.
    fn restart_window(&mut self) {
        self.clock.restart();
        self.processes.restart();
    }

    /// Forgets processes that have ended.
    fn forget_ended(&mut self) {
        self.pages.retain(|process| self.processes.is_known(process));
        if let Some(known) = &mut self.known {
            known.forget(self.clock.now(), self.clock.steps(FORGOTTEN));
        }
    }

    /// The known processes that can go to their placements, unless other moves are on trial.
    fn arrivals(&mut self, tasks: &[TaskRates]) -> Arrivals {
        let Some(known) = &mut self.known else {
            return Arrivals::default();
        };
        if self.unsettled.is_some() || !self.mapper.is_calm() {
            return Arrivals::default();
        }
        let (processes, pages, placed) = (&self.processes, &self.pages, self.places.processes());
        let may = |process| {
            processes.is_known(process)
                && !processes.is_barred(process)
                && !placed.contains(&process)
                && !pages.follow(process)
        };
        let arrivals = known.arrivals(&self.clock, tasks, may);
        arrivals.with_pages_of(|process| !pages.are_immovable(process))
    }

    /// Whether no task is pinned, and no pages are moved.
    fn has_changed_nothing(&self) -> bool {
        self.places.is_empty() && self.pages.followed().is_empty()
    }

    /// The mapper's decision, or the arrival of known processes. Tasks stay if the progress of their process was never
    /// measured, or if the process is barred, or awaited in a known placement.
    fn map(&mut self, tasks: &[TaskRates], arrivals: &Arrivals) {
        let is_free = |task: &TaskRates| {
            let process = task.id.process;
            let known = self.known.as_ref();
            arrivals.is_empty()
                && self.processes.is_known(process)
                && !self.processes.is_barred(process)
                && !known.is_some_and(|known| known.are_awaited(&self.clock, process))
        };
        let tasks: Cow<'_, [TaskRates]> = if tasks.iter().all(is_free) || !counts_progress(tasks) {
            Cow::Borrowed(tasks)
        } else {
            let bound = |task: &TaskRates| TaskRates {
                allowed: if is_free(task) {
                    Arc::clone(&task.allowed)
                } else {
                    Arc::new([task.pu].into_iter().collect::<PuSet>())
                },
                ..task.clone()
            };
            tasks.iter().map(bound).collect()
        };
        self.mapper.decide(&tasks);
        let were_unpinned = self.has_changed_nothing();
        self.places.release(self.mapper.released());
        if were_unpinned && (!arrivals.is_empty() || !self.mapper.moves().is_empty()) {
            self.places.note_homes(&tasks);
        }
        self.decided.moves.extend_from_slice(self.mapper.moves());
        self.mapper.note_moves(arrivals.moves());
        self.decided.moves.extend_from_slice(arrivals.moves());
        self.places.note_moves(self.clock.now(), &self.decided.moves);
        self.pages.extend(arrivals.pages());
        self.decided.released.extend_from_slice(self.mapper.released());
        if !arrivals.is_empty() || !self.decided.released.is_empty() || !self.decided.moves.iter().all(Move::stays) {
            self.note_moves(were_unpinned);
        }
    }

    /// Tasks were moved: they settle before the next window, unless moves go on for too long.
    fn note_moves(&mut self, were_unpinned: bool) {
        let now = self.clock.now();
        let processes = &mut self.processes;
        let unsettled = *self.unsettled.get_or_insert_with(|| {
            processes.note_moves();
            Unsettled { at: now, were_unpinned }
        });
        if were_unpinned {
            self.budget.note_pinned(now);
        }
        if now < unsettled.at + self.clock.steps(RESTLESS) {
            self.restart_window();
        }
    }

    /// Begins the comparison before moves have settled, if a process makes much less progress since. Returns whether it
    /// does.
    fn is_alarmed(&mut self, tasks: &[TaskRates], sums: &Sums) -> bool {
        let after_a_step = |moves: &Unsettled| self.clock.now() > moves.at + self.clock.steps(1);
        let Some(moves) = self.unsettled.filter(after_a_step) else {
            return false;
        };
        if !self.processes.is_alarming(sums) {
            return false;
        }
        self.unsettled = None;
        self.processes.end_early();
        self.begin_turns(tasks, moves.were_unpinned);
        true
    }

    /// Begins the comparison after a complete window, if it is due. Returns whether it does.
    fn begins_turns(&mut self, tasks: &[TaskRates]) -> bool {
        if self.has_changed_nothing() {
            self.unsettled = None;
            return false;
        }
        if let Some(moves) = self.unsettled.take() {
            let change = self.processes.mean_change().filter(|_| moves.were_unpinned);
            self.budget.note_change(self.clock.now(), change);
            if self.processes.may_have_lost() {
                self.begin_turns(tasks, moves.were_unpinned);
                return true;
            }
        }
        let works = self.processes.working().next().is_some();
        let begins = works && self.mapper.is_calm() && self.budget.affords(&self.clock, self.processes.working());
        if begins {
            self.begin_turns(tasks, false);
        }
        begins
    }

    /// The complete window is the first half of a pair. `with_first`: it is also the second half of a pair with the
    /// window before the moves.
    fn begin_turns(&mut self, tasks: &[TaskRates], with_first: bool) {
        self.processes.begin_turns(with_first);
        self.stage = Stage::Turns(Turns::begin(with_first));
        self.end_turn(tasks);
    }

    /// After a complete window of a comparison.
    fn end_turn(&mut self, tasks: &[TaskRates]) {
        let Stage::Turns(turns) = &mut self.stage else { return };
        if turns.is_in_second_half() {
            self.processes.end_pair(turns.is_pinned());
            turns.end_pair();
            let turns = *turns;
            // The next pair begins in this arrangement.
            match self.processes.verdict(turns.pairs()) {
                Some(MappingCode::Slower) if self.brings_pages(tasks, turns) => {}
                Some(outcome) => self.conclude(tasks, turns, outcome),
                None => {}
            }
            return;
        }
        self.processes.begin_pair();
        turns.begin_second_half();
        if turns.is_pinned() {
            self.pin(tasks);
        } else {
            self.put_back(tasks);
        }
    }

    /// Begins the comparison again with pages that follow, if tasks of slower processes have left their node. Returns
    /// whether there are such processes.
    fn brings_pages(&mut self, tasks: &[TaskRates], mut turns: Turns) -> bool {
        let slower = self.processes.slower();
        let are_apart = |one, other| self.pages.are_apart(one, other);
        let brought = tasks
            .iter()
            .filter(|task| slower.contains(&task.id.process))
            .filter(|task| self.places.is_away(task, turns.is_pinned(), are_apart))
            .map(|task| task.id.process)
            .collect();
        if !self.pages.bring(&brought) {
            return false;
        }
        self.processes.begin_turns(false);
        turns.begin_again();
        self.stage = Stage::Turns(turns);
        if turns.is_pinned() {
            self.restart_window();
        } else {
            self.end_turn(tasks);
        }
        true
    }

    /// Ends the comparison: the moves stay, or all tasks become unpinned for a pause.
    fn conclude(&mut self, tasks: &[TaskRates], turns: Turns, outcome: MappingCode) {
        let followed = self.pages.followed();
        let shares = followed.len() as f64 / self.processes.working().count().max(1) as f64;
        let ended = Ended {
            spent: turns.spent(),
            copying: turns.under_way() as f64 * shares.min(1.0),
            gains: self.processes.gains().unwrap_or_default(),
            processes: self.processes.working().collect(),
        };
        let comparison = MappingComparison {
            outcome,
            turns: turns.pairs(),
            followed: followed.keys().copied().collect(),
            processes: self.processes.gain_of_each(),
            pause: None,
        };
        let pause = if outcome == MappingCode::Kept {
            self.budget.keep(&self.clock, ended);
            self.keep(tasks, turns);
            None
        } else {
            let pause = self.budget.give_up(&self.clock, ended);
            self.give_up(tasks, turns, pause);
            Some(self.clock.seconds(pause.lasts))
        };
        self.decided.comparison = Some(MappingComparison { pause, ..comparison });
    }

    /// The moves stay.
    fn keep(&mut self, tasks: &[TaskRates], turns: Turns) {
        self.processes.forget_unpinned();
        self.stage = Stage::Mapping;
        if !turns.is_pinned() {
            self.pin(tasks);
        }
    }

    /// All tasks become unpinned.
    fn give_up(&mut self, tasks: &[TaskRates], turns: Turns, pause: Pause) {
        let mut moved = self.places.processes();
        moved.extend(self.pages.followed().keys());
        self.processes.bar(&moved);
        if let Some(known) = &mut self.known {
            known.restart(|process| self.processes.is_barred(process));
        }
        self.stage = Stage::Unpinned(pause);
        if turns.is_pinned() {
            self.put_back(tasks);
        }
        if !self.places.are_leaving() {
            self.forget_places();
        }
    }

    /// Tasks go to their PUs with the moves.
    fn pin(&mut self, tasks: &[TaskRates]) {
        self.places.pin(tasks, &mut self.mapper, &mut self.decided.moves);
        self.restart_window();
    }

    /// Tasks go to their PUs without the moves.
    fn put_back(&mut self, tasks: &[TaskRates]) {
        self.places.put_back(tasks, &mut self.decided.moves);
        self.restart_window();
    }
}

/// Whether the mapper still waits after moves were given up.
fn is_in_pause(clock: &Clock, pause: Pause, processes: &Processes, budget: &Budget) -> bool {
    let now = clock.now() as f64;
    let has_others = || processes.working().any(|process| !budget.has_judged(process));
    now < pause.earliest_end || (now < pause.end && !has_others() && !processes.have_lost_unpinned())
}

fn counts_progress(tasks: &[TaskRates]) -> bool {
    tasks.iter().any(|task| task.progress.is_some())
}
