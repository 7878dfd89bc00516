//! Reads the accesses of all threads in an order that the recording permits.
//!
//! A recording orders the events of all threads, and each thread's accesses between its events. Two accesses of
//! different threads are ordered only if events are between them. This module spreads a thread's accesses evenly over
//! the time between two of its events. The unit of time is the position in the order of events. So threads that run at
//! the same time take turns. The first pass counts accesses between events, and the second one reads them.

use crate::{Access, Batch, Recording, ThreadReader, TraceError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most accesses of a turn.
const TURN: usize = 256;

/// The number of parts of the time between two neighbouring events.
const PARTS: u64 = 1 << 16;

/// Calls `take` with the number of a thread, in the order of creation, and some of its accesses. Stops after the last
/// access, or when `take` returns true.
pub(super) fn in_order(
    recording: &Recording,
    mut take: impl FnMut(usize, &[Access]) -> bool,
) -> Result<(), TraceError> {
    let mut cursors = vec![];
    for thread in recording.threads() {
        let stretches = stretches(recording.read(thread))?;
        cursors.push(Cursor::new(recording.read(thread), stretches));
    }
    let begin = |(number, cursor): (usize, &Cursor)| Reverse((cursor.time(), number));
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = cursors.iter().enumerate().map(begin).collect();
    while let Some(Reverse((_, number))) = queue.pop() {
        let cursor = &mut cursors[number];
        let Some(turn) = cursor.turn()? else { continue };
        if take(number, &cursor.batch.accesses[turn]) {
            break;
        }
        queue.push(Reverse((cursor.time(), number)));
    }
    Ok(())
}

/// A thread's accesses up to an event.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    accesses: u64,
    /// The position of the event. The last stretch has the position of the thread's last event.
    until: u64,
}

fn stretches(mut reader: ThreadReader) -> Result<Vec<Stretch>, TraceError> {
    let mut found = vec![Stretch { accesses: 0, until: 0 }];
    let mut batch: Batch = Batch::default();
    while reader.next_batch(&mut batch)? {
        let mut before = 0;
        for (place, event) in &batch.events {
            add(&mut found, place - before, Some(event.sequence));
            before = *place;
        }
        add(&mut found, batch.accesses.len() - before, None);
    }
    Ok(found)
}

/// Adds accesses to the last stretch, and ends it with an event.
fn add(found: &mut Vec<Stretch>, accesses: usize, event: Option<u64>) {
    let Some(last) = found.last_mut() else { return };
    last.accesses += accesses as u64;
    if let Some(sequence) = event {
        last.until = sequence;
        found.push(Stretch {
            accesses: 0,
            until: sequence,
        });
    }
}

/// The reading position of a thread.
struct Cursor {
    reader: ThreadReader,
    batch: Batch,
    /// The number of accesses taken from the batch.
    taken: usize,
    stretches: Vec<Stretch>,
    stretch: usize,
    /// The number of accesses taken from the stretch.
    done: u64,
    /// The position of the event before the stretch.
    since: u64,
}

impl Cursor {
    fn new(reader: ThreadReader, stretches: Vec<Stretch>) -> Self {
        let mut cursor = Self {
            reader,
            batch: Batch::default(),
            taken: 0,
            stretches,
            stretch: 0,
            done: 0,
            since: 0,
        };
        cursor.pass_empty();
        cursor
    }

    /// The next accesses of the batch, up to the next event. `None` after the last.
    fn turn(&mut self) -> Result<Option<std::ops::Range<usize>>, TraceError> {
        while self.taken == self.batch.accesses.len() {
            self.taken = 0;
            if !self.reader.next_batch(&mut self.batch)? {
                return Ok(None);
            }
        }
        let left = self.stretches[self.stretch].accesses - self.done;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let turn = TURN.min(left).min(self.batch.accesses.len() - self.taken);
        let begin = self.taken;
        self.taken += turn;
        self.done += turn as u64;
        self.pass_empty();
        Ok(Some(begin..self.taken))
    }

    /// Advances to the first stretch with accesses left.
    fn pass_empty(&mut self) {
        while self.stretch + 1 < self.stretches.len() && self.done == self.stretches[self.stretch].accesses {
            self.since = self.stretches[self.stretch].until;
            self.stretch += 1;
            self.done = 0;
        }
    }

    /// The time of its next access.
    fn time(&self) -> u64 {
        let stretch = self.stretches[self.stretch];
        let lasts = u128::from(stretch.until.saturating_sub(self.since)) * u128::from(PARTS);
        let done = lasts * u128::from(self.done) / u128::from(stretch.accesses.max(1));
        u64::try_from(u128::from(self.since) * u128::from(PARTS) + done).unwrap_or(u64::MAX)
    }
}
