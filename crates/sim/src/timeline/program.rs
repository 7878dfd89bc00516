//! A program for a simulated machine: repetitions of its region of interest.

use crate::model::Model;
use crate::recorded::ProgramCode;
use crate::window::{Batch, Event, EventKind, PageProfile, StepTable, Stream};
use std::sync::Arc;

/// A program's region of interest: its threads and their events. Every repetition does the same.
pub trait Program: Send + Sync {
    /// The number of threads, at least one, in the order of their creation.
    fn threads(&self) -> usize;

    /// The highest number of threads that live at the same time.
    fn threads_at_once(&self) -> usize {
        self.threads()
    }

    /// The events of thread `thread` in one repetition. Addresses, and identities of barriers and tokens, are below
    /// 2^48. All threads use the same tokens and barriers in each repetition.
    fn stream(&self, thread: usize) -> Box<dyn Stream + '_>;

    /// The number of parallel regions that end in one repetition; `None` if unknown.
    fn regions(&self) -> Option<u64>;

    /// The known dependences of its accesses; `None` if it is not a recording.
    fn code(&self) -> Option<Arc<ProgramCode>> {
        None
    }

    /// Whether it is known which threads the recording cuts in their work (`EventKind::RecordedEnd`).
    fn knows_cuts(&self) -> bool {
        true
    }

    /// Each page and the thread that touches it first.
    fn page_owners(&self) -> &[(u64, u32)];

    /// The error of a stream, which then gives no more events. It is kept for others who read the program at the same
    /// time.
    fn error(&self) -> Option<String>;

    /// The accesses of each thread to each page, from all streams.
    fn page_profile(&self) -> PageProfile {
        let mut streams: Vec<_> = (0..self.threads()).map(|thread| self.stream(thread)).collect();
        PageProfile::of(&mut streams)
    }
}

/// One thread's repetitions without end, with a mark after each.
pub(crate) struct Repeated<'a> {
    program: &'a dyn Program,
    thread: usize,
    stream: Box<dyn Stream + 'a>,
}

impl<'a> Repeated<'a> {
    pub(crate) fn new(program: &'a dyn Program, thread: usize) -> Self {
        Self {
            program,
            thread,
            stream: program.stream(thread),
        }
    }
}

impl Stream for Repeated<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        if self.stream.next_batch(batch) {
            return true;
        }
        // A stream that cannot be read to its end would be repeated in no time.
        if self.program.error().is_some() {
            return false;
        }
        self.stream = self.program.stream(self.thread);
        batch.events.clear();
        batch.events.push(Event::mark(EventKind::Mark, 0));
        true
    }

    fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
        self.stream.steps(model)
    }
}
