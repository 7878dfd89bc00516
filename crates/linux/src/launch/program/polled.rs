//! The polled processes of the program: those that trace or are traced (`stepping_aside`), and those that create too
//! many threads (`births`).
//!
//! They do not end with pinfold, so their masks are in the journal. If there is no journal yet, the first of them
//! starts it. Without a journal they are not pinned.

use super::Program;
use crate::journal::{Directory, Journal};
use crate::launch::executable::Executables;
use crate::launch::polling::{Cause, Polling, ThreadChange};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// The data about polled processes.
#[derive(Default)]
pub(super) struct Polled {
    polling: Polling,
    executables: Executables,
    /// The directory for the journal, if there is none yet.
    journals: Option<PathBuf>,
    /// The reported causes.
    noted: BTreeSet<Cause>,
}

impl Program {
    /// Sets the directory for the journal that is created when a process is polled.
    pub(in crate::launch) fn with_journals_in(mut self, journals: Option<PathBuf>) -> Self {
        self.polled.journals = journals;
        self
    }

    /// Whether a thread belongs to a process that is polled.
    pub(in crate::launch) fn is_polled(&self, thread: i32) -> bool {
        self.process_of(thread)
            .is_some_and(|process| self.polled.polling.has(process))
    }

    pub(in crate::launch) fn is_in_nested_namespace(&self, process: i32) -> bool {
        self.reader.procfs().is_in_nested_namespace(process)
    }

    /// Whether and why the program that `process` has just executed traces, unless the agent asks for it.
    pub(in crate::launch) fn traces(&mut self, process: i32, has_agent: bool) -> Option<Cause> {
        let procfs = self.reader.procfs();
        self.polled.executables.tracing(procfs, process, has_agent)
    }

    /// Starts to poll a process, and returns its threads. `because` is the thread that makes it necessary. Does nothing
    /// if the process is already polled.
    pub(in crate::launch) fn poll(&mut self, process: i32, because: i32, why: Cause) -> Vec<i32> {
        if self.polled.polling.has(process) || !self.table.has_process(process) {
            return vec![];
        }
        self.polled.polling.add(self.reader.procfs(), process);
        self.note_polling(process, because, why);
        self.create_journal();
        let tasks: Vec<(u64, i32)> = self
            .table
            .tasks_of(process)
            .map(|task| (task.id.serial, task.id.thread))
            .collect();
        // Pinned threads are written to the journal, or get their masks back if there is no journal.
        for &(serial, _) in &tasks {
            self.place(serial);
        }
        tasks.into_iter().map(|(_, thread)| thread).collect()
    }

    fn note_polling(&mut self, process: i32, because: i32, why: Cause) {
        if !self.polled.noted.insert(why) {
            return;
        }
        let name = |thread: i32| {
            let process = self.process_of(thread).unwrap_or(thread);
            let stat = self.reader.procfs().stat(process, process);
            format!(
                "process {process} ({})",
                stat.map_or_else(|| "ended".to_owned(), |stat| stat.name)
            )
        };
        let reason = match why {
            Cause::TracesItself => "it traces itself to find leaks, and Linux permits one tracer".to_owned(),
            Cause::Traces if self.process_of(because) == Some(process) => {
                "it traces or is traced, and Linux permits one tracer".to_owned()
            }
            Cause::Traces => format!("{} traces it, and Linux permits one tracer", name(because)),
            Cause::ManyThreads => "it creates threads too fast to stop each at its start".to_owned(),
        };
        self.note(format!(
            "P{} was let go: {reason}. pinfold follows it and others like it by reading /proc, so it sees a thread \
             some 10 ms after its start, and misses a thread that lives shorter.",
            &name(process)[1..]
        ));
    }

    fn create_journal(&mut self) {
        if self.journal.is_some() {
            return;
        }
        let Some(path) = &self.polled.journals else { return };
        match Directory::new(path).and_then(|directory| Journal::create(&directory)) {
            Ok(journal) => self.journal = Some(journal),
            Err(error) => self.note(format!(
                "Processes that pinfold lets go of are not pinned, because nothing would restore their masks after a kill of \
                 pinfold: {error}."
            )),
        }
    }

    /// Whether a thread may be pinned: it ends with pinfold, or its mask is in the journal.
    pub(super) fn may_be_pinned(&self, process: i32) -> bool {
        self.journal.is_some() || !self.polled.polling.has(process)
    }

    /// Whether a thread's number still names the thread in the table.
    pub(super) fn is_same(&self, process: i32, thread: i32) -> bool {
        self.polled.polling.is_same(self.reader.procfs(), process, thread)
    }

    /// The time when the polled processes should be read again.
    pub(super) fn next_reading(&self) -> Option<Instant> {
        self.polled.polling.next()
    }

    /// Reads the polled processes, if they are due.
    pub(super) fn read_polled_if_due(&mut self) {
        let table = &self.table;
        let followed = |process| table.tasks_of(process).map(|task| task.id.thread).collect();
        let changes = self.polled.polling.changes_if_due(self.reader.procfs(), followed);
        for found in changes {
            match found {
                ThreadChange::Started {
                    creator,
                    process,
                    thread,
                } => {
                    if !self.has_thread(thread) {
                        self.add_new_task(creator, process, thread);
                        if process != creator {
                            self.polled.polling.add(self.reader.procfs(), process);
                        }
                    }
                }
                ThreadChange::Ended { thread } => {
                    if self.has_thread(thread) {
                        self.end(thread);
                    }
                }
            }
        }
    }

    /// Restores the masks of polled processes, and of their children that were not found.
    pub(super) fn release_polled(&mut self) {
        if self.polled.noted.is_empty() {
            return;
        }
        if let Some(journal) = &mut self.journal {
            let problems = journal.roll_back_masks(self.reader.procfs(), true).problems();
            self.notes.extend(problems);
        }
    }

    /// Stops polling all processes.
    pub(in crate::launch) fn end_polling(&mut self) {
        self.polled.polling = Polling::default();
    }

    /// Counts a new thread of a process, and starts to poll the process if there are too many.
    pub(super) fn count_birth(&mut self, process: i32) {
        let births = self.table.process_mut(process).map(|process| &mut process.births);
        if births.is_some_and(|births| births.count(Instant::now())) {
            self.poll(process, process, Cause::ManyThreads);
        }
    }

    /// The processes, except for those whose number may name another process by now.
    pub(in crate::launch) fn processes_to_end(&self) -> Vec<i32> {
        let processes = self.processes().into_iter();
        processes.filter(|&process| self.is_same(process, process)).collect()
    }

    /// Whether a process is not followed any more, or only waits for its parent.
    pub(in crate::launch) fn has_ended(&self, process: i32) -> bool {
        let stat = self.reader.procfs().stat(process, process);
        !self.has_process(process) || stat.is_none_or(|stat| matches!(stat.state, 'Z' | 'X'))
    }
}
