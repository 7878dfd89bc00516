//! Finds a function whose calls show the progress of a running program, and counts them.
//!
//! `pinfold_core::function` has the rules. `search` follows them with the kernel's help: `sampler` samples stacks,
//! `areas` and `starts` find the functions there (`stacks`), `jit` names code without a file, `probes` counts calls, and
//! `cost` measures what a counted call costs.

pub(crate) mod areas;
mod cost;
mod jit;
mod probes;
mod sampler;
mod search;
mod stacks;
mod starts;

use crate::procfs::Procfs;
use pinfold_core::TaskId;
use pinfold_core::function::FunctionSearch;
use probes::{Definitions, Probe, Tracefs};
use search::Subject;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Why no function can be found, as a clause for the user; `None` if probes are allowed.
pub fn obstacle() -> Option<String> {
    Tracefs::open().err()
}

/// The time that the kernel takes for a counted call of a function. Fails if functions cannot be probed; the error is a
/// clause for the user.
pub fn cost_of_a_call() -> Result<Duration, String> {
    cost::of_a_call(&Procfs::default(), &mut Definitions::new()?)
}

/// The result of a search.
struct Outcome {
    search: FunctionSearch,
    /// The open probe of the found function.
    probe: Option<Probe>,
    /// Other probes that are still open.
    others: Vec<Probe>,
}

/// A search, or the found function.
pub(crate) struct FunctionCounter {
    procfs: Procfs,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// `State::stop` has changed.
    changed: Condvar,
}

struct State {
    search: FunctionSearch,
    /// Whether the search has to end, and whether that is because the program has ended.
    stop: bool,
    ending: bool,
    /// The probe of the found function, and all definitions; `None` before the first search.
    probe: Option<Probe>,
    definitions: Option<Definitions>,
    /// Probes that are left to `probes::leave`.
    others: Vec<Probe>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked leaves a consistent state, because each change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes probes one by one. The kernel takes long for each, so the end of the program is not awaited: the rest is
    /// kept for `probes::leave`.
    fn close(&self, definitions: &mut Definitions, mut probes: Vec<Probe>) {
        while let Some(probe) = probes.pop() {
            if self.lock().ending {
                probes.push(probe);
                self.lock().others.append(&mut probes);
                return;
            }
            definitions.remove(probe);
        }
    }

    /// Waits, or returns early and false if the search has to end.
    fn wait(&self, duration: Duration) -> bool {
        let ends = Instant::now() + duration;
        let mut state = self.lock();
        while !state.stop {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl FunctionCounter {
    pub(crate) fn new(procfs: Procfs) -> Self {
        Self {
            procfs,
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    search: FunctionSearch::NotBegun,
                    stop: false,
                    ending: false,
                    probe: None,
                    definitions: None,
                    others: vec![],
                }),
                changed: Condvar::new(),
            }),
            thread: None,
        }
    }

    /// Begins a search in the background, unless one runs or has found a function. `working` are the working tasks, the
    /// busiest first, and `others` the other tasks of the program.
    pub(crate) fn search(&mut self, working: Vec<TaskId>, others: Vec<TaskId>, preferred: Option<String>) {
        let is_busy = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_busy || matches!(self.state(), FunctionSearch::Found(_)) {
            return;
        }
        {
            let mut state = self.shared.lock();
            (state.search, state.stop) = (FunctionSearch::Running, false);
        }
        let (shared, procfs) = (Arc::clone(&self.shared), self.procfs.clone());
        let run = move || {
            let kept = shared.lock().definitions.take();
            let mut definitions = match kept.map_or_else(Definitions::new, Ok) {
                Ok(definitions) => definitions,
                Err(why) => {
                    shared.lock().search = FunctionSearch::Nothing { why, may_change: false };
                    return;
                }
            };
            let subject = Subject {
                procfs: &procfs,
                working: &working,
                others: &others,
                preferred: preferred.as_deref(),
            };
            let mut outcome = search::search(&mut definitions, &subject, &|duration| shared.wait(duration));
            {
                let mut state = shared.lock();
                if state.stop {
                    outcome.others.extend(outcome.probe);
                } else {
                    state.search = outcome.search;
                    state.probe = outcome.probe;
                }
            }
            shared.close(&mut definitions, outcome.others);
            shared.lock().definitions = Some(definitions);
        };
        match thread::Builder::new().name("functions".into()).spawn(run) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                self.shared.lock().search = FunctionSearch::Nothing {
                    why: format!("no thread of pinfold can start to look for a function ({error})"),
                    may_change: true,
                };
            }
        }
    }

    /// Ends the search, and stops to count. The kernel's part goes on in the background.
    pub(crate) fn stop(&mut self) {
        let mut state = self.shared.lock();
        state.stop = true;
        state.search = FunctionSearch::NotBegun;
        self.shared.changed.notify_all();
        let probe = state.probe.take();
        drop(state);
        let Some(probe) = probe else { return };
        let (shared, search) = (Arc::clone(&self.shared), self.thread.take());
        let close = move || {
            // The search may still be closing other probes.
            if let Some(search) = search {
                let _ = search.join();
            }
            let definitions = shared.lock().definitions.take();
            if let Some(mut definitions) = definitions {
                shared.close(&mut definitions, vec![probe]);
                shared.lock().definitions = Some(definitions);
            }
        };
        // Without a thread, the probe is closed here and its definition remains until the end.
        self.thread = thread::Builder::new().name("functions".into()).spawn(close).ok();
    }

    /// How far the search is.
    pub(crate) fn state(&self) -> FunctionSearch {
        self.shared.lock().search.clone()
    }

    /// The calls of the found function since it was found to be a candidate, by all threads; `None` without one.
    pub(crate) fn calls(&self) -> Option<u64> {
        let state = self.shared.lock();
        Some(state.probe.as_ref()?.calls().map(|(_, calls)| calls).sum())
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Removes all probes, without waiting until the kernel has done it.
impl Drop for FunctionCounter {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            (state.stop, state.ending) = (true, true);
            self.shared.changed.notify_all();
        }
        self.join();
        let mut state = self.shared.lock();
        let mut open = std::mem::take(&mut state.others);
        open.extend(state.probe.take());
        probes::leave(open);
        // The guard removes the definitions.
        state.definitions = None;
    }
}
