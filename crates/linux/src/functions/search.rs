//! The search for a function that shows progress, step by step. It runs in a thread of its own, because the kernel takes
//! long to open and to close probes.
//!
//! Harm is bounded: the outermost functions are probed first, each is read after two milliseconds and again while the
//! others are opened, and one that is called too often loses its probe at once. The search ends after `HOT` of these,
//! because functions further inside are called even more often.

use super::areas::Areas;
use super::cost;
use super::probes::{Definitions, MOST, Probe};
use super::sampler;
use super::stacks::{FunctionId, Stacks};
use crate::procfs::Procfs;
use pinfold_core::TaskId;
use pinfold_core::function::{Calls, Counted, FoundFunction, FunctionSearch, Rejected, candidates, choose, is_too_hot};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The length of the sampling.
const SAMPLING: Duration = Duration::from_secs(1);

/// At most this many threads are sampled. Each has a buffer of half a mebibyte.
const SAMPLED: usize = 16;

/// The time until a new probe is read for the first time. Even one that is hit all the time takes no more than this time
/// from a thread.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// The search ends after this number of functions that are called too often.
const HOT: usize = 4;

/// The windows in which calls are counted.
const WINDOWS: usize = 10;
const WINDOW: Duration = Duration::from_millis(100);

/// A candidate with its probe.
struct Trial {
    function: FunctionId,
    share: f64,
    probe: Probe,
    /// The calls of each thread when it was last read, in the order of its events.
    before: Vec<(i32, u64)>,
    read: Instant,
}

impl Trial {
    /// The calls of each thread since the last reading, and whether one of them is too hot.
    fn look(&mut self) -> (Vec<u64>, bool) {
        let now: Vec<(i32, u64)> = self.probe.calls().collect();
        let since = self.read.elapsed();
        self.read = Instant::now();
        let before: BTreeMap<i32, u64> = self.before.drain(..).collect();
        let grown = now
            .iter()
            .map(|(thread, calls)| calls - before.get(thread).unwrap_or(&0));
        let grown: Vec<u64> = grown.collect();
        self.before = now;
        let hot = grown.iter().any(|&calls| is_too_hot(calls, since));
        (grown, hot)
    }
}

/// The result of a search.
pub(super) struct Outcome {
    pub(super) search: FunctionSearch,
    /// The open probe of the found function.
    pub(super) probe: Option<Probe>,
    /// Other probes that are still open.
    pub(super) others: Vec<Probe>,
}

/// What the search is about.
pub(super) struct Subject<'a> {
    pub(super) procfs: &'a Procfs,
    /// The working tasks.
    pub(super) working: &'a [TaskId],
    /// Its other threads.
    pub(super) others: &'a [TaskId],
    pub(super) preferred: Option<&'a str>,
}

/// Waits, or returns early and false if the search has to end.
pub(super) type Wait<'a> = &'a dyn Fn(Duration) -> bool;

/// A search without a result.
fn nothing(why: impl Into<String>, may_change: bool) -> Outcome {
    Outcome {
        search: FunctionSearch::Nothing {
            why: why.into(),
            may_change,
        },
        probe: None,
        others: vec![],
    }
}

/// The steps. All probes that are open at the end are in the outcome.
pub(super) fn search(definitions: &mut Definitions, subject: &Subject<'_>, wait: Wait<'_>) -> Outcome {
    let hit = match cost::of_a_call(subject.procfs, definitions) {
        Ok(hit) => hit,
        Err(why) => return nothing(why, false),
    };
    let stacks = match sampled(subject, wait) {
        Ok(stacks) => stacks,
        Err(why) => return nothing(why, true),
    };
    let mut trials = vec![];
    let hot = screened(definitions, subject, &stacks, &mut trials, wait);
    let mut outcome = measured(definitions, subject, &stacks, &mut trials, hit, hot, wait);
    outcome.others = trials.into_iter().map(|trial| trial.probe).collect();
    outcome
}

/// Samples the stacks of the working threads.
fn sampled(subject: &Subject<'_>, wait: Wait<'_>) -> Result<Stacks, String> {
    let threads: Vec<(i32, i32)> = subject
        .working
        .iter()
        .take(SAMPLED)
        .map(|task| (task.process, task.thread))
        .collect();
    let mut areas = BTreeMap::new();
    for &(process, _) in &threads {
        if let Some(read) = Areas::read(subject.procfs, process) {
            areas.insert(process, read);
        }
    }
    let samples = sampler::sample(&threads, &areas, SAMPLING, wait)
        .map_err(|error| format!("the threads' stacks cannot be sampled ({error})"))?;
    Ok(Stacks::read(subject.procfs, &samples, &areas))
}

/// Probes the candidates that are not called too often. Returns the number of those that are.
fn screened(
    definitions: &mut Definitions,
    subject: &Subject<'_>,
    stacks: &Stacks,
    trials: &mut Vec<Trial>,
    wait: Wait<'_>,
) -> usize {
    let mut hot = 0;
    // One definition is left for the next search, while the last probe of this one is closed.
    for candidate in candidates(&stacks.samples, MOST - 1) {
        let (file, start) = candidate.function;
        let Ok(mut probe) = definitions.define(&stacks.files[file].file, start) else {
            continue;
        };
        let read = Instant::now();
        for task in subject.working.iter().chain(subject.others) {
            // A thread that has ended is not counted.
            let _ = probe.count(task.thread);
        }
        trials.push(Trial {
            function: candidate.function,
            share: candidate.share,
            probe,
            before: vec![],
            read,
        });
        if !wait(FIRST_LOOK) {
            break;
        }
        hot += drop_hot(definitions, trials);
        if hot >= HOT {
            break;
        }
    }
    hot
}

/// Closes the probes that are hit too often. Returns their number.
fn drop_hot(definitions: &mut Definitions, trials: &mut Vec<Trial>) -> usize {
    let hot: Vec<Trial> = trials.extract_if(.., |trial| trial.look().1).collect();
    let number = hot.len();
    for trial in hot {
        definitions.remove(trial.probe);
    }
    number
}

/// Counts the calls of all that is left for a second, and chooses.
fn measured(
    definitions: &mut Definitions,
    subject: &Subject<'_>,
    stacks: &Stacks,
    trials: &mut Vec<Trial>,
    hit: Duration,
    mut hot: usize,
    wait: Wait<'_>,
) -> Outcome {
    hot += drop_hot(definitions, trials);
    let ran = || -> Duration {
        let time = |task: &TaskId| Some(subject.procfs.times(task.process, task.thread)?.used);
        subject.working.iter().filter_map(time).sum()
    };
    let (begun, ran_before) = (Instant::now(), ran());
    let mut calls: BTreeMap<FunctionId, Calls> = BTreeMap::new();
    let mut at = begun;
    for _ in 0..WINDOWS {
        if !wait(WINDOW) {
            return nothing("the program ended while pinfold looked", false);
        }
        let lasted = at.elapsed();
        at = Instant::now();
        let mut cooled = vec![];
        for mut trial in trials.drain(..) {
            let (grown, is_hot) = trial.look();
            if is_hot {
                hot += 1;
                calls.remove(&trial.function);
                definitions.remove(trial.probe);
                continue;
            }
            let calls = calls.entry(trial.function).or_insert_with(|| Calls {
                windows: vec![],
                by_thread: vec![vec![]; grown.len()],
                weights: trial.before.iter().map(|(thread, _)| stacks.share(*thread)).collect(),
            });
            calls.windows.push(lasted);
            for (counts, grown) in calls.by_thread.iter_mut().zip(grown) {
                counts.push(grown);
            }
            cooled.push(trial);
        }
        *trials = cooled;
    }
    let busy = ran().saturating_sub(ran_before).as_secs_f64() / begun.elapsed().as_secs_f64();
    let identity = |function: FunctionId| FoundFunction {
        name: stacks.name(function).to_owned(),
        file: stacks.files[function.0].name.clone(),
        calls_per_second: 0.0,
        threads: 0,
        spread: 0.0,
        cost: 0.0,
    };
    let counted: Vec<Counted> = trials
        .iter()
        .map(|trial| Counted {
            identity: identity(trial.function).identity(),
            share: trial.share,
            calls: calls.remove(&trial.function).expect("each open probe was read"),
        })
        .collect();
    match choose(&counted, busy, hit, subject.preferred) {
        Ok(chosen) => {
            let trial = trials.remove(chosen.position);
            let found = FoundFunction {
                calls_per_second: chosen.calls_per_second,
                threads: chosen.threads,
                spread: chosen.spread,
                cost: chosen.cost,
                ..identity(trial.function)
            };
            Outcome {
                search: FunctionSearch::Found(found),
                probe: Some(trial.probe),
                others: vec![],
            }
        }
        Err(rejected) => nothing(why_none(&rejected, hot, stacks), true),
    }
}

/// Why no function was chosen: a clause.
fn why_none(rejected: &Rejected, hot: usize, stacks: &Stacks) -> String {
    let often = rejected.often + hot;
    let mut reasons = vec![];
    let mut reason = |number: usize, why: &str| {
        if number > 0 {
            reasons.push(format!("{number} {why}"));
        }
    };
    reason(often, "called too often");
    reason(rejected.seldom, "called too seldom or by too few threads");
    let expensive = rejected.least_cost.map_or_else(String::new, |cost| {
        format!(
            "called so often that to count would take {:.1} % of the time",
            100.0 * cost
        )
    });
    reason(rejected.expensive, &expensive);
    let mut why = match (stacks.samples.is_empty(), reasons.is_empty()) {
        (true, _) => "the threads hardly ran while pinfold looked for a function".to_owned(),
        (false, true) => {
            "no function that can be probed takes a fifth of the time of threads with half of the work".to_owned()
        }
        (false, false) => format!(
            "no function is called 20 to 2,000 times a second by threads with half of the work; of those with a fifth of \
             the time, pinfold counted {}",
            reasons.join(", ")
        ),
    };
    if let Some((share, name)) = &stacks.compiled {
        let name = name
            .as_ref()
            .map_or_else(String::new, |name| format!(", most of it in {name}"));
        let _ = write!(
            why,
            "; {:.0} % of the time is in code without a file, as JIT compilers make it, which cannot be probed{name}",
            100.0 * share
        );
    }
    why
}
