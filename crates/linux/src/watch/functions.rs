//! The functions whose calls show the progress of processes.
//!
//! The definitions of probes outlive the daemon if it is killed. Their group is in the journal from the start, so that
//! the next daemon and `pinfold reset` remove what a killed guard has left.

use crate::functions::{FunctionCounters, Probing, SearchRequest};
use crate::journal::{Change, Journal, Target};
use crate::procfs::Procfs;
use crate::tasks::TaskTable;
use pinfold_core::{ProcessFunction, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The functions of watched processes.
pub(super) struct WatchedFunctions {
    counters: FunctionCounters,
    /// The record in the journal.
    noted: Target,
}

impl WatchedFunctions {
    /// Writes the group of all probes into the journal.
    pub(super) fn new(procfs: &Procfs, probing: Probing, journal: &mut Journal) -> io::Result<Self> {
        let change = Change::Probes(probing.group());
        let noted = change.target();
        journal.note(change)?;
        Ok(Self {
            counters: FunctionCounters::new(procfs.clone(), Some(probing)),
            noted,
        })
    }

    /// Looks for functions of these processes and counts their calls, and of no others.
    pub(super) fn count(&mut self, processes: &BTreeMap<i32, Vec<TaskId>>, table: &TaskTable) {
        let known = self.counters.subjects();
        for process in known.iter().filter(|process| !processes.contains_key(process)) {
            self.counters.stop(*process);
        }
        for (&process, working) in processes.iter().filter(|(process, _)| !known.contains(process)) {
            let works: BTreeSet<TaskId> = working.iter().copied().collect();
            let all = table.tasks_of(process).map(|task| task.id);
            let request = SearchRequest {
                working: working.clone(),
                others: all.filter(|id| !works.contains(id)).collect(),
                preferred: None,
            };
            self.counters.search(process, request);
        }
    }

    /// How far the searches are, and the calls so far.
    pub(super) fn read(&self) -> BTreeMap<i32, ProcessFunction> {
        let read = |process| ProcessFunction {
            search: self.counters.state(process),
            calls: self.counters.calls(process),
        };
        let processes = self.counters.subjects().into_iter();
        processes.map(|process| (process, read(process))).collect()
    }

    /// Removes all probes from the kernel.
    pub(super) fn end(mut self, journal: &mut Journal) {
        if self.counters.end() {
            journal.rolled_back(self.noted);
        }
    }
}
