//! The events of a thread: its accesses, the instructions between them, and what orders it against other threads. The
//! simulator pulls them in batches from a `Stream`. A recording's reader and generators implement this trait.

use super::steps::StepTable;
use crate::model::{LINE_BYTES, Model};
use std::sync::Arc;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// Loads `size` bytes from the address `payload`.
    Read,
    /// Stores `size` bytes to the address `payload`.
    Write,
    /// The load of an atomic instruction on `size` bytes at the address `payload`. It takes the line as a store does,
    /// after all earlier accesses have completed and before any later one begins.
    Locked,
    /// Only instructions.
    Instructions,
    /// Arrives at the barrier `payload` of `step` members, and continues when all of them have arrived. The identity
    /// may be used again as soon as the barrier has opened.
    Barrier,
    /// Releases the threads that wait for the token `payload`: a futex wake, a thread's creation, a thread's end.
    Signal,
    /// Continues when the token `payload` has been signalled, at once where that has already happened: a futex wait
    /// that slept, a thread's begin, a join. A token is signalled once. With a `size` above 0 the thread polls before
    /// it sleeps.
    Wait,
    /// Makes a system call.
    SystemCall,
    /// Enters the region `payload`.
    RegionBegin,
    /// Leaves the region `payload`.
    RegionEnd,
    /// Begins its share of the region `payload`: with a `RegionPlan` the thread goes to its PU of that region. Streams
    /// have it only where they are asked for it.
    ShareBegin,
    /// The first one of a thread starts its counting, and the second one ends it. Nothing waits for accesses in flight.
    Count,
    /// Continues when all threads of its program have reached this event. The counts until then are a separate result,
    /// and identities of tokens may be used again.
    Mark,
    /// The recording has instructions of the thread again.
    RecordedBegin,
    /// The thread has executed its last recorded instruction. What it did then is not in the recording.
    RecordedEnd,
}

/// One event, of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// An address or an identity, depending on the kind.
    pub payload: u64,
    /// Instructions since the event before, including this one.
    pub instructions: u32,
    /// Of an access: its step, a row of its stream's `StepTable`; 0 if unknown. Of a barrier: its members.
    pub step: u16,
    /// Bytes of an access, 0 otherwise.
    pub size: u8,
    /// The kind.
    pub kind: EventKind,
}

impl Event {
    /// A load, `instructions` after the event before.
    pub fn read(address: u64, size: u8, instructions: u32) -> Self {
        Self {
            payload: address,
            instructions,
            size,
            kind: EventKind::Read,
            step: 0,
        }
    }

    /// A store, `instructions` after the event before.
    pub fn write(address: u64, size: u8, instructions: u32) -> Self {
        Self {
            kind: EventKind::Write,
            ..Self::read(address, size, instructions)
        }
    }

    /// Instructions without accesses.
    pub fn instructions(number: u32) -> Self {
        Self {
            kind: EventKind::Instructions,
            ..Self::read(0, 0, number)
        }
    }

    /// The load of an atomic instruction, `instructions` after the event before.
    pub fn locked(address: u64, size: u8, instructions: u32) -> Self {
        Self {
            kind: EventKind::Locked,
            ..Self::read(address, size, instructions)
        }
    }

    /// Arrival at a barrier.
    pub fn barrier(identity: u64, members: u16) -> Self {
        Self {
            kind: EventKind::Barrier,
            step: members,
            ..Self::read(identity, 0, 0)
        }
    }

    /// The line of an access's first byte, by virtual address.
    #[inline]
    pub(crate) fn first_line(&self) -> u64 {
        self.payload / LINE_BYTES
    }

    /// The line of an access's last byte, by virtual address.
    pub(crate) fn last_line(&self) -> u64 {
        (self.payload + u64::from(self.size.max(1)) - 1) / LINE_BYTES
    }

    /// Whether an access touches more than one line.
    #[inline]
    pub(crate) fn straddles(&self) -> bool {
        self.payload % LINE_BYTES + u64::from(self.size) > LINE_BYTES
    }

    /// One of the events that have only an identity.
    pub fn mark(kind: EventKind, identity: u64) -> Self {
        Self {
            kind,
            ..Self::read(identity, 0, 0)
        }
    }
}

/// Events that a stream hands to the simulator.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events in the thread's order.
    pub events: Vec<Event>,
}

impl Batch {
    /// Clears itself and takes the next of `events`, from the position `next` on. Returns whether there were any.
    pub(crate) fn take(&mut self, events: &[Event], next: &mut usize) -> bool {
        let end = (*next + BATCH_EVENTS).min(events.len());
        self.events.clear();
        self.events.extend_from_slice(&events[*next..end]);
        *next = end;
        !self.events.is_empty()
    }
}

/// One thread's events.
pub trait Stream {
    /// Clears `batch` and fills it with the next events, usually some thousands. Returns whether there were any.
    fn next_batch(&mut self, batch: &mut Batch) -> bool;

    /// What its steps cost on a model; `None` if its code is unknown.
    fn steps(&self, _model: &Model) -> Option<Arc<StepTable>> {
        None
    }
}

/// A stream whose events are all in memory.
#[derive(Clone, Debug)]
pub struct Recorded {
    events: Vec<Event>,
    next: usize,
}

/// Events of a batch: enough that fetching it costs little compared with simulating it, and few enough for the host's
/// L2.
pub const BATCH_EVENTS: usize = 4096;

impl Recorded {
    /// A stream of these events.
    pub fn new(events: Vec<Event>) -> Self {
        Self { events, next: 0 }
    }
}

impl Stream for Recorded {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        batch.take(&self.events, &mut self.next)
    }
}

/// A stream that a function generates, event by event, until it returns `None`.
#[derive(Debug)]
pub struct Generated<F>(F);

impl<F: FnMut() -> Option<Event>> Generated<F> {
    /// A stream of the events that `next` returns.
    pub fn new(next: F) -> Self {
        Self(next)
    }
}

impl<F: FnMut() -> Option<Event>> Stream for Generated<F> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        batch.events.clear();
        while batch.events.len() < BATCH_EVENTS {
            match (self.0)() {
                Some(event) => batch.events.push(event),
                None => break,
            }
        }
        !batch.events.is_empty()
    }
}
