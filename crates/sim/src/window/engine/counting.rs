//! What is counted of each thread between its two `Count` events.
//!
//! Threads reach these at different times, and none waits for the others. Each thread's counts are those between its
//! own two events.

use super::Engine;
use crate::window::counters::Counters;
use crate::window::time::{Ticks, cycles};

/// What is counted of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// When its counting began and ended, in cycles of the base clock.
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) counters: Counters,
    /// Lines of all threads that had crossed a link or a bus at its begin and at its end.
    pub(crate) crossed: [u64; 2],
}

/// A thread's counts at one of its two events.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    time: Ticks,
    counters: Counters,
    crossed: u64,
}

impl<const W: usize> Engine<'_, W> {
    /// A thread has reached a `Count`.
    pub(super) fn count(&mut self, thread: usize) {
        let reading = Reading {
            time: self.threads[thread].clock,
            counters: self.counters(thread),
            crossed: self.crossings(),
        };
        self.readings[thread].push(reading);
    }

    /// The counts of each thread; `None` for one that has not reached both events.
    pub(super) fn counted(&self) -> Vec<Option<ThreadCounts>> {
        let counted = |readings: &Vec<Reading>| {
            let [begin, end] = readings.as_slice() else {
                return None;
            };
            let mut counters = end.counters.clone();
            counters -= &begin.counters;
            Some(ThreadCounts {
                begin: cycles(begin.time),
                end: cycles(end.time),
                counters,
                crossed: [begin.crossed, end.crossed],
            })
        };
        self.readings.iter().map(counted).collect()
    }
}
