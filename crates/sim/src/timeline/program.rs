//! What a simulated machine runs: a piece of a program, again and again.

use crate::window::{Batch, Event, EventKind, PageProfile, Stream};

/// A piece of a program: some threads, and for each of them what it does. Every repetition does the same.
pub trait Program: Send + Sync {
    /// How many threads it has, at least one, in the order of their creation.
    fn threads(&self) -> usize;

    /// How many of them live at the same time at most.
    fn threads_at_once(&self) -> usize {
        self.threads()
    }

    /// What thread `thread` does in one repetition. Identities of barriers and tokens are below 2^48, and tokens and
    /// barriers are used by all threads alike in each repetition.
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

/// Identities of one repetition are this far from those of the one before.
const IDENTITIES: u64 = 1 << 48;

/// Gives what orders threads the identities of a repetition, counted from 0.
pub(crate) fn in_repetition(repetition: u64, batch: &mut Batch) {
    if repetition == 0 {
        return;
    }
    for event in &mut batch.events {
        if matches!(event.kind, EventKind::Barrier | EventKind::Signal | EventKind::Wait) {
            event.payload += repetition * IDENTITIES;
        }
    }
}

/// One thread's repetitions, one after the other, with a mark between two of them.
pub(crate) struct Repeated<'a> {
    program: &'a dyn Program,
    thread: usize,
    repetitions: u64,
    /// The one that is going on.
    repetition: u64,
    stream: Box<dyn Stream + 'a>,
}

impl<'a> Repeated<'a> {
    pub(crate) fn new(program: &'a dyn Program, thread: usize, repetitions: u64) -> Self {
        Self {
            program,
            thread,
            repetitions,
            repetition: 0,
            stream: program.stream(thread),
        }
    }
}

impl Stream for Repeated<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        if self.stream.next_batch(batch) {
            in_repetition(self.repetition, batch);
            return true;
        }
        if self.repetition + 1 >= self.repetitions {
            return false;
        }
        self.repetition += 1;
        self.stream = self.program.stream(self.thread);
        batch.events.clear();
        batch.events.push(Event::mark(EventKind::Mark, 0));
        true
    }
}
