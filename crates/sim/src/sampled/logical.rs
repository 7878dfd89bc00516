//! A program's threads in an order that does not depend on a machine: each instruction takes one unit of time.
//!
//! 1. The thread with the lowest time executes a slice of instructions, or up to the next event that orders threads.
//! 2. Barriers and tokens order threads as in the simulation of a window. An event for which a thread waits is executed
//!    when the wait ends.
//! 3. After each slice the execution may be cut: the position of each thread is the number of its executed events. No
//!    thread then waits, before the cut, for an event after it.
//!
//! Where only one thread can run, the others wait for it, so the cut is at the same place on each machine: there the
//! threads meet. This holds for barriers of all threads, and for the begins and ends of parallel regions.

use crate::timeline::Program;
use crate::window::{Batch, Event, EventKind, Stream, Waiting};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Instructions of a slice. Short enough that threads stay close together, compared with a piece that is simulated.
const SLICE: u64 = 256;

/// How events were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// In order.
    Ordered,
    /// The thread waited for an event that the program lacks, and continued when no thread could run.
    Released,
}

/// One thread.
struct Runner<'a> {
    stream: Box<dyn Stream + 'a>,
    batch: Batch,
    next: usize,
    time: u64,
    /// Whether it waits for the event `next`.
    waits: bool,
    ended: bool,
}

/// The execution.
pub(super) struct Logical<'a> {
    threads: Vec<Runner<'a>>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Waiting,
    /// Threads that can run.
    running: usize,
}

/// What a slice was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    /// All threads met at its end.
    Meeting,
    /// It ended anywhere.
    Part,
}

impl<'a> Logical<'a> {
    pub(super) fn new(program: &'a dyn Program) -> Self {
        let threads: Vec<Runner<'a>> = (0..program.threads())
            .map(|thread| Runner {
                stream: program.stream(thread),
                batch: Batch::default(),
                next: 0,
                time: 0,
                waits: false,
                ended: false,
            })
            .collect();
        Self {
            queue: (0..threads.len()).map(|thread| Reverse((0, thread))).collect(),
            running: threads.len(),
            waiting: Waiting::default(),
            threads,
        }
    }

    /// Executes one slice, and passes each executed part to `observe` with its thread; `None` at the end.
    pub(super) fn slice(&mut self, mut observe: impl FnMut(usize, &[Event], Manner)) -> Option<Slice> {
        loop {
            let Some(Reverse((_, thread))) = self.queue.pop() else {
                let released = self.waiting.release_all();
                if released.is_empty() {
                    return None;
                }
                for thread in released {
                    self.pass(thread, 0, Manner::Released, &mut observe);
                }
                continue;
            };
            if !self.threads[thread].fetch() {
                self.threads[thread].ended = true;
                self.running -= 1;
                continue;
            }
            return Some(self.run(thread, &mut observe));
        }
    }

    fn run(&mut self, thread: usize, observe: &mut impl FnMut(usize, &[Event], Manner)) -> Slice {
        let runner = &mut self.threads[thread];
        let end = runner.time + SLICE;
        let begin = runner.next;
        let mut ordering = None;
        while let Some(event) = runner.batch.events.get(runner.next) {
            if orders(event.kind) {
                ordering = Some(*event);
                break;
            }
            runner.time += u64::from(event.instructions);
            runner.next += 1;
            if runner.time >= end {
                break;
            }
        }
        if runner.next > begin {
            observe(thread, &runner.batch.events[begin..runner.next], Manner::Ordered);
        }
        let alone = self.running == 1;
        match ordering {
            Some(event) => self.order(thread, event, observe),
            None => self.queue.push(Reverse((self.threads[thread].time, thread))),
        }
        if ordering.is_some() && alone && self.running > 0 {
            Slice::Meeting
        } else {
            Slice::Part
        }
    }

    /// Executes an event that orders threads, or lets the thread wait for it.
    fn order(&mut self, thread: usize, event: Event, observe: &mut impl FnMut(usize, &[Event], Manner)) {
        let now = self.threads[thread].time + u64::from(event.instructions);
        self.threads[thread].time = now;
        let waits = match event.kind {
            EventKind::Barrier => match self.waiting.arrive(event.payload, usize::from(event.step), thread) {
                Some(members) => {
                    for member in members {
                        if member != thread {
                            self.pass(member, now, Manner::Ordered, observe);
                        }
                    }
                    false
                }
                None => true,
            },
            EventKind::Signal => {
                for waiter in self.waiting.signal(event.payload, now) {
                    self.pass(waiter, now, Manner::Ordered, observe);
                }
                false
            }
            EventKind::Wait => match self.waiting.wait(event.payload, thread) {
                Some(since) => {
                    self.threads[thread].time = now.max(since);
                    false
                }
                None => true,
            },
            _ => false,
        };
        if waits {
            self.threads[thread].waits = true;
            self.running -= 1;
        } else {
            self.pass(thread, now, Manner::Ordered, observe);
        }
    }

    /// The thread executes its next event, which may have waited until `time`.
    fn pass(&mut self, thread: usize, time: u64, manner: Manner, observe: &mut impl FnMut(usize, &[Event], Manner)) {
        let runner = &mut self.threads[thread];
        observe(thread, std::slice::from_ref(&runner.batch.events[runner.next]), manner);
        runner.next += 1;
        runner.time = runner.time.max(time);
        if std::mem::take(&mut runner.waits) {
            self.running += 1;
        }
        self.queue.push(Reverse((runner.time, thread)));
    }
}

impl Runner<'_> {
    /// Whether there is a next event that does something.
    fn fetch(&mut self) -> bool {
        loop {
            match self.batch.events.get(self.next) {
                Some(event) if matches!(event.kind, EventKind::RecordedBegin | EventKind::RecordedEnd) => {
                    self.next += 1;
                }
                Some(_) => return true,
                None => {
                    if !self.stream.next_batch(&mut self.batch) {
                        return false;
                    }
                    self.next = 0;
                }
            }
        }
    }
}

/// Whether an event orders threads, or is the border of a region.
fn orders(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Barrier | EventKind::Signal | EventKind::Wait | EventKind::RegionBegin | EventKind::RegionEnd
    )
}
