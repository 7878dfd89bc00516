//! The mapper whose moves stay only while no process makes less progress with them than on the unpinned machine.
//!
//! SAM moves tasks by what counters say of causes, and its trials look at the mean of the tasks concerned. So some
//! processes can pay for what others gain. Here both arrangements of the whole machine, with the mapper's moves and
//! without any, are measured, for each process.
//!
//! 1. **Before.** A task is not moved before the progress of its process was measured, for a step at least.
//! 2. **After.** When moves have settled, each process is compared with the last window before them. If one seems to
//!    make less progress, the comparison in turns begins at once, otherwise when it is cheap enough. If a process makes
//!    much less in two intervals, that is not waited for.
//! 3. **In turns.** With moves, without, without, with, … Without means that each task goes back to the PU on which it ran
//!    before the first move, or when the last turn without moves ended, and that the operating system then places it. That
//!    holds for tasks that were never moved, too: the operating system may have placed them around those that are pinned,
//!    and would leave them there. The mapper waits meanwhile.
//! 4. **Pages.** If processes make less progress whose tasks have left the node on which they were, their pages are brought
//!    along, and the comparison begins again. Without the moves, pages are back where they were. Nothing is measured while
//!    pages are under way.
//! 5. **Verdict.** If a process makes less progress with the moves, or none makes more, all tasks stay unpinned. After a
//!    pause the mapper begins again; the pause grows each time, and is shorter when another process begins to work, or one
//!    makes clearly less progress than when the moves were given up. A process that was moved and made less progress is
//!    not moved again. Otherwise the moves stay.
//! 6. **Known processes** go where an earlier run of their program was fastest (`acquaintances`), with their pages. That is
//!    compared like the mapper's moves.
//! 7. **Budget.** What comparisons cost, in the mean of the processes where moves help and in the slowest one where they
//!    harm, and the time in which pages are copied, is at most `LOSS` of the time. The first comparison of moves that seem
//!    to do harm does not wait for that.
//!
//! Without a count of instructions there is no progress to compare, and the mapper moves as the paper's does.
//!
//! Limits: a process that waits in a loop executes instructions. A process that did not work in both arrangements is not
//! judged. One decision holds for the whole machine: what some gain is given up if another one loses.

use super::acquaintances::{Acquaintances, Arrivals};
use super::mapper::Mapper;
use super::options::{MapperOptions, Thresholds};
use super::progress::{FORGOTTEN, Processes, Sums, WORKS, sums};
use super::rates::TaskRates;
use super::{Move, Reason};
use crate::known::KnownPlacement;
use pinfold_core::memory::node_of_pu;
use pinfold_core::{MappingCode, MappingComparison, NodeId, ProcessGoal, PuId, PuSet, TaskId, Topology};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A step is the paper's interval, or as many shorter ones. All times below are in steps: what the operating system does
/// with unpinned tasks takes as long with shorter intervals.
const STEP: Duration = Duration::from_millis(100);

/// The steps of a window. Assumed: three show how much they differ from each other.
const WINDOW: u64 = 3;

/// The steps after a change that are not measured: tasks are under way, and caches are cold.
const SETTLE: u64 = 2;

/// Moves that do not end within this number of steps are measured while they go on. Assumed.
const RESTLESS: u64 = 30;

/// The least number of steps between two comparisons. Assumed: ten seconds.
const PAUSE: u64 = 100;

/// The largest number of doublings of the pause.
const MOST_PAUSES: u32 = 10;

/// The share of the time that comparisons may cost.
const LOSS: f64 = 0.005;

/// The gain of moves that was not measured yet, for the cost of measuring it: the mean of the paper's mixes (section 4.3).
const EXPECTED: f64 = 0.15;

/// The unpinned steps of a comparison that needs as few pairs as possible.
const UNPINNED: u64 = 1 + SETTLE + 2 * WINDOW;

/// A task that is not listed for this number of steps is no longer pinned: assumed, as the daemon's `release_after`.
const GONE: u64 = 100;

/// Where the mapper has put a task.
#[derive(Clone, Copy, Debug)]
struct Placement {
    /// Its last move.
    made: Move,
    /// The last interval in which it was listed.
    listed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The mapper decides.
    Mapping,
    /// Both arrangements are measured in turns.
    Turns(Turn),
    /// No task is pinned before the second of these intervals, or before the first one where a process has begun to work or
    /// makes clearly less progress than when the moves were given up.
    Unpinned([f64; 2]),
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Whether tasks are where the mapper has put them.
    pinned: bool,
    /// Whether the first half of a pair is measured.
    is_half: bool,
    pairs: usize,
    /// How many intervals were spent unpinned and pinned.
    spent: [u64; 2],
    /// How many of them with pages under way.
    under_way: u64,
}

/// Moves after which there was no complete window yet.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The first of them.
    at: u64,
    /// Whether no task was pinned before.
    unpinned: bool,
}

/// The mapper, and the comparison of its moves with the unpinned machine.
#[derive(Debug)]
pub struct FairMapper {
    mapper: Mapper,
    compares: bool,
    interval: Duration,
    /// The intervals of a step.
    step: u64,
    /// The number of decisions.
    now: u64,
    places: BTreeMap<TaskId, Placement>,
    /// Where tasks ran before the first move, or when the last turn without moves ended.
    homes: BTreeMap<TaskId, PuId>,
    /// Where tasks ran before the present turn without moves.
    mapped: BTreeMap<TaskId, PuId>,
    /// The tasks that are let go by the next decision: they are where they were.
    leaving: BTreeSet<TaskId>,
    processes: Processes,
    stage: Stage,
    /// The number of intervals since the arrangement changed.
    quiet: u64,
    moved: Option<Moved>,
    /// Since when tasks have been pinned.
    pinned_since: u64,
    /// The mean gain by the present moves, as a logarithm, as far as it is known.
    gain: f64,
    /// What comparisons have cost, in intervals.
    cost: f64,
    /// The processes of the last comparison.
    judged: BTreeSet<i32>,
    /// When the last comparison ended, and when the next one is due.
    ended: u64,
    next: u64,
    /// How often tasks were let go since moves were kept.
    refusals: u32,
    /// Processes that were moved and made less progress: they are not moved again.
    barred: BTreeSet<i32>,
    /// The node of each PU.
    nodes: BTreeMap<PuId, NodeId>,
    /// Whether pages may be moved.
    moves_pages: bool,
    /// The processes whose pages are moved, and where to.
    followed: BTreeMap<i32, ProcessGoal>,
    /// The processes whose pages cannot be moved.
    immovable: BTreeSet<i32>,
    /// Whether pages were under way in the present interval.
    under_way: bool,
    /// Where processes go that are known; `None` without `MapperOptions::known`.
    acquaintances: Option<Acquaintances>,
    comparison: Option<MappingComparison>,
    moves: Vec<Move>,
    released: Vec<TaskId>,
}

impl FairMapper {
    /// For the PUs of a machine that may be used. Without `MapperOptions::comparison` it is the mapper alone.
    /// `interval` is that between two decisions.
    pub fn new(topology: &Topology, thresholds: Thresholds, options: MapperOptions, interval: Duration) -> Self {
        let step = STEP.as_nanos().checked_div(interval.as_nanos()).unwrap_or(1);
        let step = u64::try_from(step).unwrap_or(1).max(1);
        Self {
            interval,
            step,
            mapper: Mapper::new(topology, thresholds, options),
            compares: options.comparison,
            now: 0,
            places: BTreeMap::new(),
            homes: BTreeMap::new(),
            mapped: BTreeMap::new(),
            leaving: BTreeSet::new(),
            processes: Processes::new(step * WINDOW, step),
            stage: Stage::Mapping,
            quiet: step * SETTLE,
            moved: None,
            pinned_since: 0,
            gain: EXPECTED,
            cost: 0.0,
            judged: BTreeSet::new(),
            ended: 0,
            next: 0,
            refusals: 0,
            barred: BTreeSet::new(),
            nodes: nodes(topology),
            moves_pages: options.pages,
            followed: BTreeMap::new(),
            immovable: BTreeSet::new(),
            under_way: false,
            acquaintances: options.known.then(|| Acquaintances::new(topology, step, options.pages)),
            comparison: None,
            moves: vec![],
            released: vec![],
        }
    }

    /// What the mapper compares rates with.
    pub fn thresholds(&self) -> &Thresholds {
        self.mapper.thresholds()
    }

    /// One decision, as `Mapper::decide`.
    pub fn decide(&mut self, tasks: &[TaskRates]) -> &[Move] {
        self.moves.clear();
        self.released.clear();
        if !self.compares {
            self.moves.extend_from_slice(self.mapper.decide(tasks));
            self.released.extend_from_slice(self.mapper.released());
            return &self.moves;
        }
        self.now += 1;
        let under_way = std::mem::take(&mut self.under_way);
        self.see(tasks);
        if let Some(acquaintances) = &mut self.acquaintances {
            acquaintances.see(self.now, tasks);
        }
        if !self.leaving.is_empty() {
            self.let_go();
            return &self.moves;
        }
        let mut complete = false;
        let sums = sums(tasks);
        // The first interval of all has no rates yet. A window that began with it would measure nothing.
        self.quiet += u64::from(sums.values().any(|(progress, _)| progress.is_some()));
        let measured = self.quiet.saturating_sub(self.step * SETTLE);
        if measured > 0 {
            self.processes.observe(self.now, &sums);
            complete = measured.is_multiple_of(self.step * WINDOW);
        }
        if complete {
            self.processes.complete();
            self.forget_ended();
        }
        match self.stage {
            Stage::Turns(mut turn) => {
                turn.spent[usize::from(turn.pinned)] += 1;
                self.stage = Stage::Turns(turn);
                if complete {
                    self.turn(tasks);
                }
            }
            Stage::Unpinned(until) if self.pauses(until) => {}
            _ => {
                self.stage = Stage::Mapping;
                let turns = (!under_way && self.is_alarmed(tasks, &sums)) || (complete && self.begins_turns(tasks));
                if !turns {
                    let arrivals = if complete {
                        self.arrivals(tasks)
                    } else {
                        Arrivals::default()
                    };
                    self.map(tasks, &arrivals);
                }
            }
        }
        &self.moves
    }

    /// The moves of the last decision.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The tasks that are no longer to be pinned, as of the last decision; before its moves.
    pub fn released(&self) -> &[TaskId] {
        &self.released
    }

    /// The comparison that ended with the last decision; each is returned once.
    pub fn take_comparison(&mut self) -> Option<MappingComparison> {
        self.comparison.take()
    }

    /// The processes whose pages are to be elsewhere, and where, as of the last decision. Those of all others are to be where
    /// they were.
    pub fn followed(&self) -> &BTreeMap<i32, ProcessGoal> {
        const NONE: &BTreeMap<i32, ProcessGoal> = &BTreeMap::new();
        if self.is_unpinned() { NONE } else { &self.followed }
    }

    /// Pages are still under way, so that the coming interval does not measure the arrangement.
    pub fn note_pages_under_way(&mut self) {
        if let Stage::Turns(turn) = &mut self.stage {
            turn.under_way += 1;
        }
        self.under_way = true;
        self.changed();
    }

    /// The pages of this process cannot be moved, and are not asked for again.
    pub fn note_pages_stay(&mut self, process: i32) {
        self.followed.remove(&process);
        self.immovable.insert(process);
    }

    /// The processes that have begun to work since the last call, so that it can be said what is known of them
    /// (`note_known`). None without `MapperOptions::known`.
    pub fn take_newcomers(&mut self) -> Vec<i32> {
        let acquaintances = self.acquaintances.as_mut();
        acquaintances.map(Acquaintances::take_newcomers).unwrap_or_default()
    }

    /// What is known of the program of a process, by number of threads.
    pub fn note_known(&mut self, process: i32, placements: &BTreeMap<usize, KnownPlacement>) {
        if let Some(acquaintances) = &mut self.acquaintances {
            acquaintances.note(self.now, process, placements);
        }
    }

    /// Whether the mapper's moves are withdrawn at present: for a turn of a comparison, or until a pause is over.
    pub fn is_unpinned(&self) -> bool {
        match self.stage {
            Stage::Mapping => false,
            Stage::Turns(turn) => !turn.pinned,
            Stage::Unpinned(_) => true,
        }
    }

    /// Whether a pause is not over yet.
    fn pauses(&self, [with_others, until]: [f64; 2]) -> bool {
        let now = self.now as f64;
        let others = || self.processes.working().any(|process| !self.judged.contains(&process));
        now < with_others || (now < until && !others() && !self.processes.have_unpinned_lost())
    }

    /// Notes which placed tasks are listed, and forgets those that have not been for a while.
    fn see(&mut self, tasks: &[TaskRates]) {
        for task in tasks {
            if let Some(placement) = self.places.get_mut(&task.id) {
                placement.listed = self.now;
            }
        }
        let (now, gone) = (self.now, self.step * GONE);
        self.places.retain(|_, placement| now < placement.listed + gone);
    }

    /// Lets all tasks go that moves have put back. If they stay unpinned, the mapper learns that it places none.
    fn let_go(&mut self) {
        self.released.extend(std::mem::take(&mut self.leaving));
        if let Stage::Unpinned(_) = self.stage {
            self.forget_places();
        }
        self.changed();
    }

    fn forget_places(&mut self) {
        for id in self.places.keys() {
            self.mapper.let_go(*id);
        }
        self.places.clear();
        self.homes.clear();
        self.followed.clear();
    }

    fn changed(&mut self) {
        self.quiet = 0;
        self.processes.restart();
    }

    /// The known processes that can go where they were fastest, if nothing else is on trial.
    fn arrivals(&mut self, tasks: &[TaskRates]) -> Arrivals {
        let Some(acquaintances) = &mut self.acquaintances else {
            return Arrivals::default();
        };
        if self.moved.is_some() || !self.mapper.is_calm() {
            return Arrivals::default();
        }
        let placed: BTreeSet<i32> = self.places.keys().map(|task| task.process).collect();
        let is_changed = |process| placed.contains(&process) || self.followed.contains_key(&process);
        let (processes, barred) = (&self.processes, &self.barred);
        let may = |process| processes.is_known(process) && !barred.contains(&process) && !is_changed(process);
        let mut arrivals = acquaintances.arrivals(self.now, tasks, may);
        arrivals.pages.retain(|process, _| !self.immovable.contains(process));
        arrivals
    }

    /// Whether no task is placed, and no pages are moved.
    fn has_changed_nothing(&self) -> bool {
        self.places.is_empty() && self.followed.is_empty()
    }

    /// The mapper's decision, or the arrival of known processes. It may not move tasks of processes whose progress was never
    /// measured, or that are barred, or awaited elsewhere.
    fn map(&mut self, tasks: &[TaskRates], arrivals: &Arrivals) {
        let (processes, barred, now) = (&self.processes, &self.barred, self.now);
        let acquaintances = self.acquaintances.as_ref();
        let is_free = |task: &TaskRates| {
            let process = task.id.process;
            arrivals.is_empty()
                && processes.is_known(process)
                && !barred.contains(&process)
                && !acquaintances.is_some_and(|one| one.is_awaited(now, process))
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
        let unpinned = self.has_changed_nothing();
        for task in self.mapper.released() {
            self.places.remove(task);
        }
        if unpinned && (!arrivals.is_empty() || !self.mapper.moves().is_empty()) {
            self.homes = arrangement(&tasks);
        }
        self.moves.extend_from_slice(self.mapper.moves());
        self.mapper.note_moves(&arrivals.moves);
        self.moves.extend_from_slice(&arrivals.moves);
        for made in &self.moves {
            self.homes.entry(made.task).or_insert(made.from);
            let placement = Placement {
                made: *made,
                listed: self.now,
            };
            self.places.insert(made.task, placement);
        }
        self.followed.extend(&arrivals.pages);
        self.released.extend_from_slice(self.mapper.released());
        if arrivals.is_empty() && self.released.is_empty() && self.moves.iter().all(Move::stays) {
            return;
        }
        let now = self.now;
        let processes = &mut self.processes;
        let moved = *self.moved.get_or_insert_with(|| {
            processes.note_moves();
            Moved { at: now, unpinned }
        });
        if unpinned {
            self.pinned_since = now;
        }
        if now < moved.at + self.step * RESTLESS {
            self.changed();
        }
    }

    /// If a process makes so much less progress since the last moves that no window has to be waited for, the comparison in
    /// turns begins. Whether it does.
    fn is_alarmed(&mut self, tasks: &[TaskRates], sums: &Sums) -> bool {
        let settled = self.moved.filter(|moved| self.now > moved.at + self.step);
        let Some(moved) = settled.filter(|_| self.processes.is_alarming(sums)) else {
            return false;
        };
        self.moved = None;
        self.processes.end_early();
        self.begin_turns(tasks, moved.unpinned);
        true
    }

    /// After a complete window: whether the comparison in turns begins now.
    fn begins_turns(&mut self, tasks: &[TaskRates]) -> bool {
        if self.has_changed_nothing() {
            self.moved = None;
            return false;
        }
        if let Some(moved) = self.moved.take() {
            let change = self.processes.mean_change().filter(|_| moved.unpinned);
            self.gain = change.unwrap_or(EXPECTED);
            if self.processes.may_have_lost() {
                self.begin_turns(tasks, moved.unpinned);
                return true;
            }
            self.next = self.now;
        }
        if self.processes.working().next().is_none() {
            return false;
        }
        let next = if self.processes.working().eq(self.judged.iter().copied()) {
            self.next
        } else {
            self.next.min(self.ended + self.step * PAUSE)
        };
        let cost = (self.step * UNPINNED) as f64 * lost(self.gain);
        let begins = self.now >= next && self.mapper.is_calm() && self.cost + cost <= LOSS * self.now as f64;
        if begins {
            self.begin_turns(tasks, false);
        }
        begins
    }

    /// The present window is the first half of a pair. `with_first`: it is also the second half of one with the window
    /// before the last moves.
    fn begin_turns(&mut self, tasks: &[TaskRates], with_first: bool) {
        self.processes.begin_turns(with_first);
        let turn = Turn {
            pinned: true,
            pairs: usize::from(with_first),
            ..Turn::default()
        };
        self.stage = Stage::Turns(turn);
        self.turn(tasks);
    }

    /// After a complete window of a comparison.
    fn turn(&mut self, tasks: &[TaskRates]) {
        let Stage::Turns(mut turn) = self.stage else { return };
        if turn.is_half {
            self.processes.end_pair(turn.pinned);
            turn.is_half = false;
            turn.pairs += 1;
            // Another pair begins where this one ended.
            self.stage = Stage::Turns(turn);
            match self.processes.verdict(turn.pairs) {
                Some(MappingCode::Slower) if self.brings_pages(tasks, turn) => {}
                Some(outcome) => self.conclude(tasks, turn, outcome),
                None => {}
            }
            return;
        }
        self.processes.begin_pair();
        turn.is_half = true;
        turn.pinned = !turn.pinned;
        self.stage = Stage::Turns(turn);
        if turn.pinned {
            self.pin(tasks);
        } else {
            self.put_back(tasks);
        }
    }

    /// After moves by which processes make less progress: the pages of those whose tasks have left their node are brought
    /// along, and the comparison begins again. Whether there are such processes.
    fn brings_pages(&mut self, tasks: &[TaskRates], turn: Turn) -> bool {
        let node = |pu: PuId| self.nodes.get(&pu);
        let away = |task: &TaskRates| {
            let mapped = match self.places.get(&task.id) {
                Some(placement) => Some(placement.made.to),
                None if turn.pinned => Some(task.pu),
                None => self.mapped.get(&task.id).copied(),
            };
            let home = self.homes.get(&task.id);
            home.zip(mapped)
                .is_some_and(|(&home, mapped)| node(home) != node(mapped))
        };
        let slower = self.processes.slower();
        let asked = |process: &i32| self.followed.contains_key(process) || self.immovable.contains(process);
        let brought: BTreeSet<i32> = tasks
            .iter()
            .filter(|task| slower.contains(&task.id.process) && away(task))
            .map(|task| task.id.process)
            .filter(|process| !asked(process))
            .collect();
        if !self.moves_pages || brought.is_empty() {
            return false;
        }
        let brought = brought.into_iter().map(|process| (process, ProcessGoal::Tasks));
        self.followed.extend(brought);
        self.processes.begin_turns(false);
        self.stage = Stage::Turns(Turn {
            pairs: 0,
            is_half: false,
            ..turn
        });
        if turn.pinned {
            self.changed();
        } else {
            self.turn(tasks);
        }
        true
    }

    fn conclude(&mut self, tasks: &[TaskRates], turn: Turn, outcome: MappingCode) {
        let (mean, least) = self.processes.gains().unwrap_or_default();
        let followed = self.followed.keys().copied().collect();
        let [unpinned, mut pinned] = turn.spent;
        let keeps = outcome == MappingCode::Kept;
        if !keeps {
            // Moves that have stayed for longer did no harm when they were measured last.
            pinned += (self.now - self.pinned_since).min(self.step * RESTLESS);
        }
        let shares = self.followed.len() as f64 / self.processes.working().count().max(1) as f64;
        let copying = turn.under_way as f64 * shares.min(1.0);
        let cost = unpinned as f64 * lost(mean) + pinned as f64 * lost(-least) + copying;
        self.cost += cost;
        self.gain = mean;
        self.judged = self.processes.working().collect();
        self.ended = self.now;
        let pause = if keeps {
            self.refusals = 0;
            self.processes.forget_unpinned();
            self.next = self.now + self.now.max(self.step * PAUSE);
            self.stage = Stage::Mapping;
            if !turn.pinned {
                self.pin(tasks);
            }
            None
        } else {
            // The next time it costs as much as this time, unless it is about other processes.
            let now = self.now as f64;
            let affordable = (self.cost + cost) / LOSS - now;
            let least = ((self.step * PAUSE) << self.refusals) as f64;
            let pause = affordable.max(least);
            self.bar();
            if let Some(acquaintances) = &mut self.acquaintances {
                acquaintances.restart(&self.barred);
            }
            self.refusals = (self.refusals + 1).min(MOST_PAUSES);
            self.next = 0;
            self.stage = Stage::Unpinned([now + least, now + pause]);
            if turn.pinned {
                self.put_back(tasks);
            }
            if self.leaving.is_empty() {
                self.forget_places();
            }
            Some(self.interval.as_secs_f64() * pause)
        };
        self.comparison = Some(MappingComparison {
            outcome,
            turns: turn.pairs,
            followed,
            processes: self.processes.gain_of_each(),
            pause,
        });
    }

    /// Forgets what is known of processes that have ended.
    fn forget_ended(&mut self) {
        let processes = &self.processes;
        self.barred.retain(|&process| processes.is_known(process));
        self.immovable.retain(|&process| processes.is_known(process));
        if let Some(acquaintances) = &mut self.acquaintances {
            acquaintances.forget(self.now, self.step * FORGOTTEN);
        }
    }

    /// Bars the processes that were moved and are slower by it. If others pay, it is not known whose moves did harm.
    fn bar(&mut self) {
        let placed = self.places.keys().map(|task| task.process);
        let moved: BTreeSet<i32> = placed.chain(self.followed.keys().copied()).collect();
        let slower = self.processes.slower();
        if slower.is_empty() {
            return;
        }
        let both: BTreeSet<i32> = slower.intersection(&moved).copied().collect();
        if both.is_empty() {
            self.barred.clear();
        } else {
            self.barred.extend(both);
        }
    }

    /// Tasks go to where they were with the mapper's moves. What the mapper has placed stays pinned there, unless it is not
    /// there to be moved.
    fn pin(&mut self, tasks: &[TaskRates]) {
        self.homes.extend(arrangement(tasks));
        let listed: BTreeMap<TaskId, &TaskRates> = tasks.iter().map(|task| (task.id, task)).collect();
        self.places.retain(|id, placement| {
            let to = placement.made.to;
            let task = listed.get(id).filter(|task| task.allowed.contains(to));
            match task {
                Some(task) => self.moves.push(compared(task, to, &placement.made)),
                None => self.mapper.let_go(*id),
            }
            task.is_some()
        });
        let mut others = std::mem::take(&mut self.mapped);
        others.retain(|id, _| !self.places.contains_key(id));
        self.send(tasks, &others);
    }

    /// Tasks go to where they were before the mapper's moves. The next decision lets them go.
    fn put_back(&mut self, tasks: &[TaskRates]) {
        self.mapped = arrangement(tasks);
        let homes = std::mem::take(&mut self.homes);
        self.send(tasks, &homes);
        self.homes = homes;
        self.leaving.extend(self.places.keys());
    }

    /// Tasks go to these PUs, and the next decision lets them go.
    fn send(&mut self, tasks: &[TaskRates], to: &BTreeMap<TaskId, PuId>) {
        self.changed();
        // All moves of a comparison have the cause of one of the moves that are compared.
        let Some(cause) = self.places.values().next().map(|placement| placement.made) else {
            return;
        };
        for task in tasks {
            if let Some(&to) = to.get(&task.id)
                && to != task.pu
                && task.allowed.contains(to)
            {
                let cause = self.places.get(&task.id).map_or(cause, |placement| placement.made);
                self.moves.push(compared(task, to, &cause));
                self.leaving.insert(task.id);
            }
        }
    }
}

/// The node of each PU that has one.
fn nodes(topology: &Topology) -> BTreeMap<PuId, NodeId> {
    let node = |pu| Some((pu, node_of_pu(topology, pu)?));
    topology.allowed_pus().iter().filter_map(node).collect()
}

/// Where the tasks run that work: those that hardly run are left where they are.
fn arrangement(tasks: &[TaskRates]) -> BTreeMap<TaskId, PuId> {
    let working = tasks.iter().filter(|task| task.busy >= WORKS);
    working.map(|task| (task.id, task.pu)).collect()
}

/// The share of the progress that is lost with the slower of two arrangements, where the other one has this gain over it
/// as a logarithm.
fn lost(gain: f64) -> f64 {
    1.0 - (-gain.max(0.0)).exp()
}

fn counts_progress(tasks: &[TaskRates]) -> bool {
    tasks.iter().any(|task| task.instructions.is_some())
}

/// A move for a comparison. Its cause is that of the mapper's move.
fn compared(task: &TaskRates, to: PuId, made: &Move) -> Move {
    Move {
        from: task.pu,
        to,
        task: task.id,
        reason: Reason::Comparison,
        makes_room: false,
        reluctant: false,
        swapped_with: None,
        ..*made
    }
}
