//! When the calls of a function show the progress of a process, for processes whose bytes show none.
//!
//! 1. A process is a candidate if the daemon could compare moves of it by calls: several of its tasks work and may be
//!    moved, it sets its own pace, and its bytes are no steady flow.
//! 2. The host looks for a function of one process at a time. Until the first search of a process has ended, its tasks
//!    stay where they are, so that moves have something to be compared with.
//! 3. A found function is counted as long as it is called. Its calls are the progress of the process while the process
//!    sets its own pace.
//! 4. Without a result, or when the function is no longer called, the host looks again when the process has worked for
//!    twice as long: it may have been reading its input.

use pinfold_core::function::{FoundFunction, FunctionSearch};
use pinfold_core::{HostSample, ProcessFunction, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// At most this many processes are probed at any time. Counting costs each of them half a percent of its time at most,
/// whatever their number. The limit is for the daemon: it reads an event of each thread in each interval, one
/// microsecond for each, and the kernel allows it 33 probes, some of which are left for the next search.
const MOST: usize = 8;

/// A function that is not called for this time shows no progress any more. It was called 20 times a second at least.
const QUIET: Duration = Duration::from_secs(1);

/// A process that does not work for this time is forgotten.
const GONE: Duration = Duration::from_secs(10);

/// A process whose function may show its progress, in one interval.
pub(super) struct Candidate {
    /// Its working tasks, the busiest first.
    pub(super) tasks: Vec<TaskId>,
    /// Whether a function may be looked for.
    pub(super) may_search: bool,
    /// Whether it sets its own pace.
    pub(super) sets_pace: bool,
}

/// What the function of a process shows in an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    /// It is too early to say.
    Undecided,
    /// Its progress: calls a second.
    Calls(f64),
    /// Nothing, for the moment or for good.
    Nothing,
}

/// How far a process is.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// The first search has not begun.
    Waiting,
    /// The host looks.
    Searching { first: bool },
    /// The host counts.
    Counting(Counting),
    /// Nothing was found. `until`: the time of the next search, if there is one.
    Resting { until: Option<Duration>, why: String },
}

#[derive(Clone, Debug, PartialEq)]
struct Counting {
    function: FoundFunction,
    /// The calls so far at the last reading.
    calls: u64,
    /// The time of the last call.
    called: Duration,
}

#[derive(Clone, Debug)]
struct Process {
    stage: Stage,
    /// When it was first a candidate, and when it last worked.
    since: Duration,
    seen: Duration,
}

impl Process {
    fn is_probed(&self) -> bool {
        matches!(self.stage, Stage::Searching { .. } | Stage::Counting(_))
    }

    /// Nothing shows its progress. If a later search may find something, it is made when the process has worked for
    /// twice as long.
    fn rest(&mut self, now: Duration, why: &str, may_change: bool) {
        let until = may_change.then(|| now + now.saturating_sub(self.since).max(QUIET));
        self.stage = Stage::Resting {
            until,
            why: why.to_owned(),
        };
    }

    /// Whether its next search may begin.
    fn is_due(&self, now: Duration) -> bool {
        match &self.stage {
            Stage::Waiting => true,
            Stage::Resting { until, .. } => until.is_some_and(|until| now >= until),
            Stage::Searching { .. } | Stage::Counting(_) => false,
        }
    }

    /// Takes in what the host says after an interval of this length.
    fn hear(&mut self, host: &ProcessFunction, now: Duration, time: Duration, sets_pace: bool) -> Shown {
        match (&mut self.stage, &host.search) {
            (Stage::Searching { .. }, FunctionSearch::Found(function)) => {
                self.stage = Stage::Counting(Counting {
                    function: function.clone(),
                    calls: host.calls.unwrap_or(0),
                    called: now,
                });
                Shown::Undecided
            }
            (Stage::Searching { .. }, FunctionSearch::Nothing { why, may_change }) => {
                self.rest(now, why, *may_change);
                Shown::Nothing
            }
            (Stage::Counting(counting), FunctionSearch::Found(_)) => {
                let calls = host.calls.unwrap_or(0);
                let grown = calls.saturating_sub(counting.calls);
                counting.calls = calls;
                if grown > 0 {
                    counting.called = now;
                }
                if now.saturating_sub(counting.called) >= QUIET {
                    let why = format!("{} was not called for a second", counting.function.identity());
                    self.rest(now, &why, true);
                    return Shown::Nothing;
                }
                if sets_pace && !time.is_zero() {
                    Shown::Calls(grown as f64 / time.as_secs_f64())
                } else {
                    Shown::Nothing
                }
            }
            _ => Shown::Nothing,
        }
    }
}

/// The functions of all processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Functions {
    processes: BTreeMap<i32, Process>,
    /// What is asked of the host.
    requested: BTreeMap<i32, Vec<TaskId>>,
}

impl Functions {
    /// What the function of each candidate shows between two samples.
    pub(super) fn progress(
        &mut self,
        before: &HostSample,
        now: &HostSample,
        candidates: &BTreeMap<i32, Candidate>,
    ) -> BTreeMap<i32, Shown> {
        let Some(counted) = &now.functions else {
            *self = Self::default();
            return BTreeMap::new();
        };
        let (at, time) = (now.sample.at, now.sample.at.saturating_sub(before.sample.at));
        for (&process, _) in candidates.iter().filter(|(_, candidate)| candidate.may_search) {
            self.processes.entry(process).or_insert(Process {
                stage: Stage::Waiting,
                since: at,
                seen: at,
            });
        }
        let mut shown = BTreeMap::new();
        self.processes.retain(|id, process| {
            let Some(candidate) = candidates.get(id) else {
                return at.saturating_sub(process.seen) < GONE;
            };
            process.seen = at;
            let host = counted.get(id).cloned().unwrap_or_default();
            shown.insert(*id, process.hear(&host, at, time, candidate.sets_pace));
            true
        });
        self.begin_search(at, candidates);
        let has_room = self.requested.len() < MOST;
        for (id, process) in self.processes.iter().filter(|(id, _)| candidates.contains_key(id)) {
            let waits = match process.stage {
                Stage::Waiting => has_room,
                // Perhaps since a moment ago.
                Stage::Searching { first } => first,
                Stage::Counting(_) | Stage::Resting { .. } => false,
            };
            if waits {
                shown.insert(*id, Shown::Undecided);
            }
        }
        shown
    }

    /// Renews the request to the host, with the next search if none is under way.
    fn begin_search(&mut self, now: Duration, candidates: &BTreeMap<i32, Candidate>) {
        let Self { processes, requested } = self;
        requested.retain(|id, _| processes.get(id).is_some_and(Process::is_probed));
        let searches = |process: &Process| matches!(process.stage, Stage::Searching { .. });
        if requested.len() >= MOST || processes.values().any(searches) {
            return;
        }
        let may = |id: &i32| candidates.get(id).is_some_and(|candidate| candidate.may_search);
        let due = processes.iter_mut().filter(|(id, one)| may(id) && one.is_due(now));
        // A process that waits for its first search, and so for its moves, comes first.
        let next = due.min_by_key(|(_, one)| (one.stage != Stage::Waiting, one.since));
        if let Some((&id, process)) = next {
            let first = process.stage == Stage::Waiting;
            process.stage = Stage::Searching { first };
            requested.insert(id, candidates[&id].tasks.clone());
        }
    }

    /// The bytes of this process show its progress: no function of it is needed.
    pub(super) fn stop(&mut self, id: i32, now: Duration) {
        if let Some(process) = self.processes.get_mut(&id)
            && process.is_probed()
        {
            process.rest(now, "its bytes show its progress", true);
            self.requested.remove(&id);
        }
    }

    /// What is asked of the host.
    pub(super) fn requested(&self) -> &BTreeMap<i32, Vec<TaskId>> {
        &self.requested
    }

    /// The function of a process that is counted.
    pub(super) fn found(&self, process: i32) -> Option<&FoundFunction> {
        match &self.processes.get(&process)?.stage {
            Stage::Counting(counting) => Some(&counting.function),
            _ => None,
        }
    }

    /// Why no function of this process is counted; `None` before the first search has ended.
    pub(super) fn why_none(&self, process: i32) -> Option<&str> {
        match &self.processes.get(&process)?.stage {
            Stage::Resting { why, .. } => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::Sample;
    use proptest::prelude::*;

    fn task(process: i32) -> TaskId {
        TaskId {
            serial: 1,
            process,
            thread: process,
        }
    }

    fn function() -> FoundFunction {
        FoundFunction {
            name: "step".to_owned(),
            file: "solver".to_owned(),
            calls_per_second: 100.0,
            threads: 2,
            spread: 0.1,
            cost: 0.001,
        }
    }

    fn sample(tenths: u32, host: &[(i32, ProcessFunction)]) -> HostSample {
        HostSample {
            sample: Sample {
                at: Duration::from_millis(100) * tenths,
                ..Sample::default()
            },
            functions: Some(host.iter().cloned().collect()),
            ..HostSample::default()
        }
    }

    fn candidates(all: &[i32], sets_pace: bool) -> BTreeMap<i32, Candidate> {
        let candidate = |process| Candidate {
            tasks: vec![task(process)],
            may_search: sets_pace,
            sets_pace,
        };
        all.iter().map(|&process| (process, candidate(process))).collect()
    }

    fn says(search: FunctionSearch, calls: Option<u64>) -> ProcessFunction {
        ProcessFunction { search, calls }
    }

    fn nothing(may_change: bool) -> ProcessFunction {
        let why = "none".to_owned();
        says(FunctionSearch::Nothing { why, may_change }, None)
    }

    /// What is shown of process 7 in the interval that ends at `tenths`, if the host says this.
    fn step(functions: &mut Functions, tenths: u32, host: ProcessFunction, sets_pace: bool) -> Option<Shown> {
        let (before, now) = (sample(tenths - 1, &[]), sample(tenths, &[(7, host)]));
        functions
            .progress(&before, &now, &candidates(&[7], sets_pace))
            .remove(&7)
    }

    /// Process 7 when its function is found, at one second.
    fn counting() -> Functions {
        let mut functions = Functions::default();
        step(&mut functions, 1, ProcessFunction::default(), true);
        assert_eq!(functions.requested(), &BTreeMap::from([(7, vec![task(7)])]));
        let shown = step(&mut functions, 5, says(FunctionSearch::Running, None), true);
        assert_eq!(shown, Some(Shown::Undecided));
        let found = says(FunctionSearch::Found(function()), Some(100));
        assert_eq!(step(&mut functions, 10, found, true), Some(Shown::Undecided));
        functions
    }

    fn found(calls: u64) -> ProcessFunction {
        says(FunctionSearch::Found(function()), Some(calls))
    }

    #[test]
    fn calls_a_second_are_progress_while_the_process_sets_the_pace() {
        let mut functions = counting();
        assert_eq!(step(&mut functions, 11, found(110), true), Some(Shown::Calls(100.0)));
        assert_eq!(step(&mut functions, 12, found(115), false), Some(Shown::Nothing));
        assert_eq!(step(&mut functions, 13, found(130), true), Some(Shown::Calls(150.0)));
        assert_eq!(functions.found(7), Some(&function()));
    }

    #[test]
    fn a_function_that_is_no_longer_called_shows_nothing_and_another_is_looked_for_later() {
        let mut functions = counting();
        assert_eq!(step(&mut functions, 19, found(100), true), Some(Shown::Calls(0.0)));
        assert_eq!(step(&mut functions, 20, found(100), true), Some(Shown::Nothing));
        assert_eq!(
            functions.why_none(7),
            Some("function:step of solver was not called for a second")
        );
        assert!(functions.requested().is_empty());
        // It was a candidate from 0.1 s on.
        for (tenths, is_requested) in [(38, false), (39, true)] {
            step(&mut functions, tenths, ProcessFunction::default(), true);
            assert_eq!(functions.requested().contains_key(&7), is_requested, "{tenths}");
        }
    }

    #[test]
    fn what_cannot_change_is_not_tried_again_and_the_process_is_not_held() {
        for may_change in [false, true] {
            let mut functions = Functions::default();
            step(&mut functions, 1, ProcessFunction::default(), true);
            assert_eq!(
                step(&mut functions, 20, nothing(may_change), true),
                Some(Shown::Nothing)
            );
            let later = step(&mut functions, 999, ProcessFunction::default(), true);
            assert_eq!(later, Some(Shown::Nothing));
            assert_eq!(functions.requested().contains_key(&7), may_change);
        }
    }

    #[test]
    fn bytes_that_begin_to_show_progress_end_the_search_and_the_counting() {
        let mut functions = counting();
        functions.stop(7, Duration::from_secs(2));
        assert!(functions.requested().is_empty());
        assert_eq!(functions.found(7), None);
    }

    #[test]
    fn a_process_that_does_not_work_is_forgotten_after_ten_seconds() {
        let mut functions = counting();
        for (tenths, is_counted) in [(109, true), (110, false)] {
            functions.progress(&sample(tenths - 1, &[]), &sample(tenths, &[]), &BTreeMap::new());
            assert_eq!(functions.found(7).is_some(), is_counted, "{tenths}");
        }
        assert!(functions.requested().is_empty());
    }

    #[test]
    fn a_host_that_finds_no_functions_is_not_waited_for() {
        let mut functions = counting();
        let blind = HostSample::default();
        assert_eq!(
            functions.progress(&blind, &blind, &candidates(&[7], true)),
            BTreeMap::new()
        );
        assert!(functions.requested().is_empty());
    }

    proptest! {
        /// Whatever processes come and go and whatever the host says, one is searched and eight are probed at most.
        #[test]
        fn the_budget_holds(
            intervals in proptest::collection::vec(
                proptest::collection::btree_map(0i32..20, (0u8..4, any::<bool>()), 0..20), 1..60),
        ) {
            let mut functions = Functions::default();
            let mut before = sample(0, &[]);
            for (tenths, interval) in (1..).zip(&intervals) {
                let host = interval.iter().map(|(&process, &(answer, _))| {
                    let says = match answer {
                        0 => says(FunctionSearch::Running, None),
                        1 => found(u64::from(tenths) * 10),
                        2 => nothing(true),
                        _ => nothing(false),
                    };
                    (process, says)
                });
                let now = sample(10 * tenths, &host.collect::<Vec<_>>());
                let mut candidates = BTreeMap::new();
                for (&process, &(_, sets_pace)) in interval {
                    candidates.extend(super::tests::candidates(&[process], sets_pace));
                }
                functions.progress(&before, &now, &candidates);
                before = now;
                let searches = functions.processes.values();
                let searches = searches.filter(|one| matches!(one.stage, Stage::Searching { .. }));
                prop_assert!(searches.count() <= 1);
                prop_assert!(functions.requested().len() <= MOST);
                let probed = functions.processes.iter().filter(|(_, one)| one.is_probed());
                prop_assert!(probed.map(|(id, _)| id).eq(functions.requested().keys()));
            }
        }
    }
}
