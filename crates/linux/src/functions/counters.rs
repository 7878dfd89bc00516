//! Functions of several subjects: each is looked for, and its calls are counted. A subject is the launched program, or a
//! process of the machine.
//!
//! One thread does what takes the kernel long, one job after the other: it closes probes, and then it looks for the next
//! function. So at most one subject is sampled and probed by candidates at any time. The thread ends when nothing is
//! left to do.

use super::Probing;
use super::probes::{self, Definitions, Probe};
use super::search::{self, Subject};
use crate::procfs::Procfs;
use pinfold_core::TaskId;
use pinfold_core::function::FunctionSearch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A search for the function of a subject.
pub(crate) struct SearchRequest {
    /// The working tasks, the busiest first.
    pub(crate) working: Vec<TaskId>,
    /// The other tasks of the subject.
    pub(crate) others: Vec<TaskId>,
    /// The identity of the function of an earlier run.
    pub(crate) preferred: Option<String>,
}

/// The searches, and the functions that were found. A subject has a number of the caller's choice.
pub(crate) struct FunctionCounters {
    procfs: Procfs,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// `State::interrupted` or `State::ending` has changed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    subjects: BTreeMap<i32, Counted>,
    queue: VecDeque<(i32, SearchRequest)>,
    /// Probes that are no longer needed.
    closing: Vec<Probe>,
    /// The subject whose function is being looked for.
    searching: Option<i32>,
    /// Whether that search has to end.
    interrupted: bool,
    /// Whether everything has to end. Then nothing waits for the kernel.
    ending: bool,
    /// Whether the thread works. Then it has the definitions.
    working: bool,
    /// All definitions; `None` before the first search.
    definitions: Option<Definitions>,
}

/// A subject.
struct Counted {
    search: FunctionSearch,
    /// The probe of the found function.
    probe: Option<Probe>,
}

/// What the thread does next.
enum Job {
    Close(Probe),
    Search(i32, SearchRequest),
}

impl State {
    fn next_job(&mut self) -> Option<Job> {
        if self.ending {
            return None;
        }
        if let Some(probe) = self.closing.pop() {
            return Some(Job::Close(probe));
        }
        let (subject, request) = self.queue.pop_front()?;
        (self.searching, self.interrupted) = (Some(subject), false);
        Some(Job::Search(subject, request))
    }

    fn set(&mut self, subject: i32, search: FunctionSearch) {
        if let Some(counted) = self.subjects.get_mut(&subject) {
            counted.search = search;
        }
    }

    fn end_search(&mut self, subject: i32, outcome: search::Outcome) {
        self.searching = None;
        self.closing.extend(outcome.others);
        match self.subjects.get_mut(&subject) {
            Some(counted) if !self.interrupted && !self.ending => {
                (counted.search, counted.probe) = (outcome.search, outcome.probe);
            }
            _ => self.closing.extend(outcome.probe),
        }
    }

    /// Takes all probes out.
    fn take_probes(&mut self) -> Vec<Probe> {
        let mut probes = std::mem::take(&mut self.closing);
        probes.extend(self.subjects.values_mut().filter_map(|counted| counted.probe.take()));
        probes
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves a consistent state, because each change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, or returns early and false if the search has to end.
    fn wait(&self, duration: Duration) -> bool {
        let ends = Instant::now() + duration;
        let mut state = self.lock();
        while !state.interrupted && !state.ending {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// The thread.
    fn work(&self, procfs: &Procfs) {
        let kept = self.lock().definitions.take();
        let mut definitions = match kept.map_or_else(Definitions::new, Ok) {
            Ok(definitions) => definitions,
            Err(why) => return self.fail(&why, false),
        };
        loop {
            let job = {
                let mut state = self.lock();
                let Some(job) = state.next_job() else {
                    state.definitions = Some(definitions);
                    state.working = false;
                    return;
                };
                job
            };
            match job {
                Job::Close(probe) => definitions.remove(probe),
                Job::Search(subject, request) => {
                    let about = Subject {
                        procfs,
                        working: &request.working,
                        others: &request.others,
                        preferred: request.preferred.as_deref(),
                    };
                    let outcome = search::search(&mut definitions, &about, &|duration| self.wait(duration));
                    self.lock().end_search(subject, outcome);
                }
            }
        }
    }

    /// No search that was requested can be made.
    fn fail(&self, why: &str, may_change: bool) {
        let mut state = self.lock();
        for (subject, _) in std::mem::take(&mut state.queue) {
            let why = why.to_owned();
            state.set(subject, FunctionSearch::Nothing { why, may_change });
        }
        state.working = false;
    }
}

impl FunctionCounters {
    /// Without `probing`, the right to define probes is asked for when the first function is looked for.
    pub(crate) fn new(procfs: Procfs, probing: Option<Probing>) -> Self {
        let state = State {
            definitions: probing.map(|probing| probing.0),
            ..State::default()
        };
        Self {
            procfs,
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            thread: None,
        }
    }

    /// Begins a search in the background, unless one runs or has found a function.
    pub(crate) fn search(&mut self, subject: i32, request: SearchRequest) {
        if matches!(self.state(subject), FunctionSearch::Running | FunctionSearch::Found(_)) {
            return;
        }
        {
            let mut state = self.shared.lock();
            let search = FunctionSearch::Running;
            state.subjects.insert(subject, Counted { search, probe: None });
            state.queue.push_back((subject, request));
        }
        self.work();
    }

    /// Ends the search, and stops to count. The kernel's part goes on in the background.
    pub(crate) fn stop(&mut self, subject: i32) {
        {
            let mut state = self.shared.lock();
            let Some(counted) = state.subjects.remove(&subject) else {
                return;
            };
            state.closing.extend(counted.probe);
            state.queue.retain(|(queued, _)| *queued != subject);
            state.interrupted |= state.searching == Some(subject);
            self.shared.changed.notify_all();
            if state.closing.is_empty() {
                return;
            }
        }
        self.work();
    }

    /// Starts the thread, unless it works.
    fn work(&mut self) {
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        // A thread that panicked has not said that it ended.
        if std::mem::replace(&mut self.shared.lock().working, true) && !is_over {
            return;
        }
        let (shared, procfs) = (Arc::clone(&self.shared), self.procfs.clone());
        let run = move || shared.work(&procfs);
        match thread::Builder::new().name("functions".into()).spawn(run) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let why = format!("no thread of pinfold can start to look for a function ({error})");
                self.shared.fail(&why, true);
            }
        }
    }

    /// The subjects.
    pub(crate) fn subjects(&self) -> Vec<i32> {
        self.shared.lock().subjects.keys().copied().collect()
    }

    /// How far the search is.
    pub(crate) fn state(&self, subject: i32) -> FunctionSearch {
        let state = self.shared.lock();
        state
            .subjects
            .get(&subject)
            .map_or(FunctionSearch::NotBegun, |counted| counted.search.clone())
    }

    /// The calls of the found function since it was found to be a candidate, by all threads; `None` without one.
    pub(crate) fn calls(&self, subject: i32) -> Option<u64> {
        let state = self.shared.lock();
        let probe = state.subjects.get(&subject)?.probe.as_ref()?;
        Some(probe.calls().map(|(_, calls)| calls).sum())
    }

    /// Ends everything, and leaves the open probes to a process that closes them.
    fn leave(&mut self) {
        self.shared.lock().ending = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let open = self.shared.lock().take_probes();
        probes::leave(open);
    }

    /// Ends everything, and waits until the kernel has removed all probes. Returns whether it has.
    pub(crate) fn end(&mut self) -> bool {
        self.leave();
        let definitions = self.shared.lock().definitions.take();
        definitions.is_none_or(Definitions::remove_all)
    }
}

/// Removes all probes, without waiting until the kernel has done it.
impl Drop for FunctionCounters {
    fn drop(&mut self) {
        self.leave();
        // The guard removes the definitions.
        self.shared.lock().definitions = None;
    }
}
