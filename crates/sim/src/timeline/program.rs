//! What a simulated machine runs: repetitions of a program's region of interest.

use crate::window::{Batch, Event, EventKind, PageProfile, Stream};

/// A program's region of interest: some threads, and for each of them what it does. Every repetition does the same.
pub trait Program: Send + Sync {
    /// How many threads it has, at least one, in the order of their creation.
    fn threads(&self) -> usize;

    /// How many of them live at the same time at most.
    fn threads_at_once(&self) -> usize {
        self.threads()
    }

    /// What thread `thread` does in one repetition. Addresses, and identities of barriers and tokens, are below 2^48, and
    /// tokens and barriers are used by all threads alike in each repetition.
    fn stream(&self, thread: usize) -> Box<dyn Stream + '_>;

    /// How many parallel regions end in one repetition; `None` where they are not known.
    fn regions(&self) -> Option<u64>;

    /// Each page and the thread that touches it first.
    fn page_owners(&self) -> &[(u64, u32)];

    /// What went wrong while a stream was read, which gives no more events then. It stays there for others who read the
    /// program at the same time.
    fn error(&self) -> Option<String>;

    /// Who accesses which page, from reading all streams.
    fn page_profile(&self) -> PageProfile {
        let mut streams: Vec<_> = (0..self.threads()).map(|thread| self.stream(thread)).collect();
        PageProfile::of(&mut streams)
    }
}

/// One thread's repetitions, one after the other without end, with a mark after each.
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
        // What cannot be read to its end would be repeated in no time.
        if self.program.error().is_some() {
            return false;
        }
        self.stream = self.program.stream(self.thread);
        batch.events.clear();
        batch.events.push(Event::mark(EventKind::Mark, 0));
        true
    }
}
