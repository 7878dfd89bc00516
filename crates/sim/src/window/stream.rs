//! What a thread did: its accesses, the instructions between them, and what orders it against other threads. The
//! simulator pulls this in batches from a `Stream`, which a recording's reader or a generator implements.

use crate::model::LINE_BYTES;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// Loads `size` bytes from the address `payload`.
    Read,
    /// Stores `size` bytes to the address `payload`.
    Write,
    /// The load of an atomic instruction on `size` bytes at the address `payload`: it takes the line as a store does, after
    /// all earlier accesses have completed and before any later one begins.
    Locked,
    /// Only instructions.
    Instructions,
    /// Arrives at the barrier `payload` of `size` members, and goes on when all of them have arrived. The identity may
    /// be used again as soon as the barrier has opened.
    Barrier,
    /// Lets those go on who wait for the token `payload`: a futex wake, a thread's creation, a thread's end.
    Signal,
    /// Goes on when the token `payload` has been signalled, at once where that has happened already: a futex wait that
    /// slept, a thread's begin, a join. A token is signalled once. With a `size` above 0 it polls before it sleeps.
    Wait,
    /// Asks something of the kernel.
    SystemCall,
    /// Enters the region `payload`.
    RegionBegin,
    /// Leaves the region `payload`.
    RegionEnd,
    /// Goes on when all threads of its program have come here. What has been counted by then is a result of its own, and
    /// identities of tokens may be used again.
    Mark,
}

/// One event, of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// An address or an identity, by the kind.
    pub payload: u64,
    /// Instructions since the event before, this one's own included.
    pub instructions: u32,
    /// Bytes of an access, members of a barrier, 0 otherwise.
    pub size: u16,
    /// What it is.
    pub kind: EventKind,
    /// Of an access, which instruction made it: a hash of its address, or 0 where that is not known.
    pub site: u8,
}

impl Event {
    /// A load, `instructions` after the event before.
    pub fn read(address: u64, size: u16, instructions: u32) -> Self {
        Self {
            payload: address,
            instructions,
            size,
            kind: EventKind::Read,
            site: 0,
        }
    }

    /// A store, `instructions` after the event before.
    pub fn write(address: u64, size: u16, instructions: u32) -> Self {
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
    pub fn locked(address: u64, size: u16, instructions: u32) -> Self {
        Self {
            kind: EventKind::Locked,
            ..Self::read(address, size, instructions)
        }
    }

    /// Arrival at a barrier.
    pub fn barrier(identity: u64, members: u16) -> Self {
        Self {
            kind: EventKind::Barrier,
            ..Self::read(identity, members, 0)
        }
    }

    /// The line, by virtual address, of an access's first byte.
    #[inline]
    pub(crate) fn first_line(&self) -> u64 {
        self.payload / LINE_BYTES
    }

    /// The line of its last byte.
    pub(crate) fn last_line(&self) -> u64 {
        (self.payload + u64::from(self.size.max(1)) - 1) / LINE_BYTES
    }

    /// Whether an access is to more than one line.
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

/// Events on their way from a stream to the simulator.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In the thread's order.
    pub events: Vec<Event>,
}

/// One thread's events.
pub trait Stream {
    /// Clears `batch` and fills it with the next events, usually some thousands; whether there were any.
    fn next_batch(&mut self, batch: &mut Batch) -> bool;
}

/// A stream of events that are all in memory.
#[derive(Clone, Debug)]
pub struct Recorded {
    events: Vec<Event>,
    next: usize,
}

/// Events of a batch: enough that fetching it costs little beside simulating it, and few enough for the host's L2.
pub const BATCH_EVENTS: usize = 4096;

impl Recorded {
    /// These events.
    pub fn new(events: Vec<Event>) -> Self {
        Self { events, next: 0 }
    }
}

impl Stream for Recorded {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        batch.events.clear();
        let end = (self.next + BATCH_EVENTS).min(self.events.len());
        batch.events.extend_from_slice(&self.events[self.next..end]);
        self.next = end;
        !batch.events.is_empty()
    }
}

/// A stream that a function makes up, event by event, until it gives none.
#[derive(Debug)]
pub struct Generated<F>(F);

impl<F: FnMut() -> Option<Event>> Generated<F> {
    /// The events that `next` gives.
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
