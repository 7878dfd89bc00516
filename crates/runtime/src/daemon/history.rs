//! The moves and intervals of the daemon so far, and their part of the state.

use super::scheduling::Scheduling;
use super::state::{self, Comparisons, Intervals, LastMove, Moves, PageTotals, Present, State, Task};
use super::{Outcome, Tick};
use crate::TimedComparison;
use pinfold_core::container::Container;
use pinfold_core::{HostSample, MappingCode, MappingComparison, MoveReason, OutcomeCode, ProcessPages, TaskId};
use pinfold_policy::sam::{Activity, Move, TaskRates};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// The moves and the readings since the daemon began.
#[derive(Clone, Debug, Default)]
pub struct History {
    last_moves: HashMap<TaskId, LastMove>,
    moves: BTreeMap<(MoveReason, OutcomeCode), u64>,
    comparisons: BTreeMap<MappingCode, u64>,
    last_comparison: Option<TimedComparison>,
    pages: PageTotals,
    /// Moves that were made, by the id of the task's container.
    moves_by_container: HashMap<String, u64>,
    /// Moves that were decided, not made, and reported already: the task and the outcome.
    reported: HashSet<(TaskId, String)>,
    scheduling: Scheduling,
    ticks: u64,
    skipped: u64,
    busy: Duration,
}

impl History {
    /// Adds a move. Returns whether to report it: a move that is decided repeatedly and never made is reported once.
    pub fn moved(&mut self, at: Duration, one: &Move, outcome: &Outcome, container: Option<&Container>) -> bool {
        let code = outcome.code();
        if let Some(container) = container.filter(|_| *outcome == Outcome::Made) {
            *self.moves_by_container.entry(container.id.clone()).or_default() += 1;
        }
        *self.moves.entry((one.reason, code)).or_default() += 1;
        let last = LastMove {
            at: at.as_secs_f64(),
            from: one.from.0,
            to: one.to.0,
            reason: one.reason,
            makes_room: one.makes_room,
            excess: one.excess,
            outcome: code,
            refused: outcome.refused().cloned(),
        };
        self.last_moves.insert(one.task, last);
        *outcome == Outcome::Made || {
            let why = outcome.refused().map_or("", |reason| &reason.why);
            let what = format!("{} {} {why}", code.name(), one.to);
            self.reported.insert((one.task, what))
        }
    }

    /// Adds a comparison of the moves with the unpinned machine.
    pub fn compared(&mut self, at: Duration, comparison: MappingComparison) {
        *self.comparisons.entry(comparison.outcome).or_default() += 1;
        let at = at.as_secs_f64();
        self.last_comparison = Some(TimedComparison { at, comparison });
    }

    /// Adds pages of a process that were moved, or not.
    pub fn pages(&mut self, pages: &ProcessPages) {
        match &pages.result {
            Ok(moves) => {
                self.pages.moves += 1;
                self.pages.pages += moves.moved.pages;
                self.pages.bytes += moves.moved.bytes;
                self.pages.seconds += moves.lasted.as_secs_f64();
            }
            Err(_) => self.pages.refused += 1,
        }
    }

    /// Adds a reading, and forgets tasks that do not work any more.
    pub fn tick(&mut self, tick: &Tick<'_>) {
        self.ticks += 1;
        self.busy += tick.took;
        self.skipped += u64::from(tick.skipped);
        if let Some(scheduled) = &tick.sample.scheduled {
            self.scheduling.read(scheduled);
        }
        self.forget(tick.sample);
    }

    /// The configuration has changed: all moves are reported again.
    pub fn reconfigured(&mut self) {
        self.reported.clear();
    }

    fn forget(&mut self, sample: &HostSample) {
        /// With fewer entries than this, a search costs more than it frees.
        const MANY: usize = 1000;
        if self.last_moves.len() + self.reported.len() > MANY {
            let there: HashSet<TaskId> = sample.sample.tasks.iter().map(|task| task.id).collect();
            self.last_moves.retain(|task, _| there.contains(task));
            self.reported.retain(|(task, _)| there.contains(task));
        }
        if self.moves_by_container.len() > MANY {
            let containers = sample.statuses.iter().filter_map(|status| status.container.as_deref());
            let there: HashSet<&str> = containers.map(|container| container.id.as_str()).collect();
            self.moves_by_container.retain(|id, _| there.contains(id.as_str()));
        }
    }

    /// Completes `state` by a reading and by the history: the time, the tasks, the moves of containers and the totals.
    pub fn complete(&self, mut state: State, tick: &Tick<'_>) -> State {
        state.at = tick.sample.sample.at.as_secs_f64();
        state.tasks = self.tasks(tick);
        state.withdrawn = tick.withdrawn;
        state.scheduler = self.scheduling.state();
        state.comparison.clone_from(&self.last_comparison);
        state.progress = tick
            .progress
            .iter()
            .map(|(&process, by)| state::Progress::new(process, by))
            .collect();
        state.followed = tick.followed.keys().copied().collect();
        state.totals.pages.clone_from(&self.pages);
        for one in &mut state.containers {
            one.moves = self.moves_by_container.get(&one.container.id).copied().unwrap_or(0);
        }
        let tasks = &state.tasks;
        let mut left_alone = BTreeMap::new();
        for why in tasks.iter().filter_map(|task| task.left_alone) {
            *left_alone.entry(why).or_default() += 1;
        }
        state.totals.present = Present {
            watched: tick.sample.watched as u64,
            working: tasks.len() as u64,
            pinned: tasks.iter().filter(|task| task.pinned.is_some()).count() as u64,
            left_alone,
        };
        let moves = self.moves.iter();
        let moves = moves.map(|(&(reason, outcome), &count)| Moves { reason, outcome, count });
        state.totals.moves = moves.collect();
        let comparisons = self.comparisons.iter();
        state.totals.comparisons = comparisons
            .map(|(&outcome, &count)| Comparisons { outcome, count })
            .collect();
        state.totals.intervals = Intervals {
            intervals: self.ticks,
            intervals_skipped: self.skipped,
            work_seconds: self.busy.as_secs_f64(),
        };
        state
    }

    fn tasks(&self, tick: &Tick<'_>) -> Vec<Task> {
        let mut rates: HashMap<TaskId, &TaskRates> = tick.rates.iter().map(|rates| (rates.id, rates)).collect();
        let tasks = tick.sample.sample.tasks.iter().zip(&tick.sample.statuses);
        let mut tasks: Vec<Task> = tasks
            .map(|(task, status)| Task {
                process: task.id.process,
                thread: task.id.thread,
                name: task.name.clone(),
                pu: task.last_pu.map(|pu| pu.0),
                pinned: status.pinned.map(|pu| pu.0),
                allowed: status.allowed.to_string(),
                left_alone: status.left_alone,
                busy: status.busy,
                rates: rates.remove(&task.id).map_or_else(BTreeMap::new, named_rates),
                last_move: self.last_moves.get(&task.id).cloned(),
                container: status.container.as_deref().map(state::Container::from),
                scheduled: self.scheduling.task(task.id.thread),
            })
            .collect();
        tasks.sort_by_key(|task| (task.process, task.thread));
        tasks
    }
}

fn named_rates(rates: &TaskRates) -> BTreeMap<Activity, Option<f64>> {
    BTreeMap::from([
        (Activity::InterPackageCoherence, rates.inter),
        (Activity::IntraPackageCoherence, rates.intra),
        (Activity::RemoteDram, rates.remote),
        (Activity::MemoryBandwidth, rates.memory),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::ProgressBy;
    use crate::daemon::state::ContainerTotals;
    use pinfold_core::container::Membership;
    use pinfold_core::memory::{PageCount, PageMoves};
    use pinfold_core::{
        Excess, LeftAlone, ProcessGoal, ProgressCode, PuId, Reason, RefusalCode, Sample, StayCode, TaskSample,
        TaskStatus,
    };
    use std::sync::Arc;

    fn a_move(task: TaskId) -> Move {
        Move {
            task,
            from: PuId(0),
            to: PuId(4),
            reason: MoveReason::Coherence,
            makes_room: false,
            reluctant: false,
            excess: Some(Excess {
                activity: Activity::InterPackageCoherence,
                value: 2.0,
                threshold: 1.0,
            }),
            swapped_with: None,
        }
    }

    const TASK: TaskId = TaskId {
        serial: 0,
        process: 7,
        thread: 8,
    };

    #[test]
    fn a_repeated_refused_move_is_reported_once_and_counted_each_time() {
        let mut history = History::default();
        let refused = Outcome::Refused(Reason::new(StayCode::Forbidden, "it may not"));
        let reported = [&refused, &refused, &Outcome::Made, &Outcome::Made]
            .map(|outcome| history.moved(Duration::from_secs(1), &a_move(TASK), outcome, None));
        assert_eq!(reported, [true, false, true, true]);
        history.reconfigured();
        assert!(history.moved(Duration::from_secs(2), &a_move(TASK), &refused, None));
        let counts: Vec<_> = history
            .moves
            .iter()
            .map(|(&(_, outcome), &count)| (outcome, count))
            .collect();
        assert_eq!(counts, [(OutcomeCode::Made, 2), (OutcomeCode::Refused, 3)]);
    }

    #[test]
    fn the_state_has_each_task_with_its_last_move_and_counts_those_that_are_left_alone() {
        let mut history = History::default();
        let box_of_lxc = Membership::of(["/lxc/box"]).containers.remove(0);
        history.moved(Duration::from_secs(3), &a_move(TASK), &Outcome::Made, Some(&box_of_lxc));
        history.moved(Duration::from_secs(3), &a_move(TASK), &Outcome::Made, Some(&box_of_lxc));
        let sample = HostSample {
            functions: None,
            sample: Sample {
                at: Duration::from_secs(4),
                tasks: vec![TaskSample {
                    id: TASK,
                    name: "app".to_owned(),
                    alive: true,
                    cpu_time: None,
                    run_delay: None,
                    last_pu: Some(PuId(4)),
                    counts: vec![],
                }],
                ..Sample::default()
            },
            statuses: vec![TaskStatus {
                allowed: Arc::new("0-7".parse().unwrap()),
                pinned: Some(PuId(4)),
                left_alone: Some(LeftAlone::OwnMask),
                busy: Some(1.0),
                container: Some(Arc::new(box_of_lxc.clone())),
            }],
            watched: 9,
            ..HostSample::default()
        };
        let moved = |result| ProcessPages { process: 7, result };
        history.pages(&moved(Ok(PageMoves {
            moved: PageCount {
                pages: 3,
                bytes: 3 << 12,
            },
            lasted: Duration::from_millis(500),
            ..PageMoves::default()
        })));
        history.pages(&moved(Err(Reason::new(RefusalCode::PagesTooLong, "too long"))));
        let tick = Tick {
            sample: &sample,
            rates: &[],
            skipped: true,
            withdrawn: false,
            progress: &BTreeMap::from([(7, ProgressBy::Bytes)]),
            followed: &BTreeMap::from([(7, ProcessGoal::Tasks)]),
            took: Duration::from_millis(5),
        };
        history.tick(&tick);
        let known = State {
            containers: vec![ContainerTotals {
                container: (&box_of_lxc).into(),
                ..ContainerTotals::default()
            }],
            ..State::default()
        };
        let state = history.complete(known, &tick);
        assert_eq!(state.tasks[0].container.as_ref().unwrap().text, "box");
        assert_eq!(state.containers[0].moves, 2);
        assert_eq!(
            (state.at, state.totals.present.watched, state.totals.present.pinned),
            (4.0, 9, 1)
        );
        let intervals = &state.totals.intervals;
        assert_eq!((intervals.intervals, intervals.intervals_skipped), (1, 1));
        let pages = PageTotals {
            moves: 1,
            refused: 1,
            pages: 3,
            bytes: 3 << 12,
            seconds: 0.5,
        };
        assert_eq!((state.followed.as_slice(), &state.totals.pages), (&[7][..], &pages));
        assert_eq!(
            (state.progress[0].process, state.progress[0].by),
            (7, ProgressCode::Bytes)
        );
        assert_eq!(state.totals.present.left_alone[&LeftAlone::OwnMask], 1);
        let last = state.tasks[0].last_move.as_ref().unwrap();
        assert_eq!(
            (last.to, last.reason, last.outcome),
            (4, MoveReason::Coherence, OutcomeCode::Made)
        );
    }
}
