//! A recording as a program that a simulated machine runs.
//!
//! A recording holds what the threads did under QEMU, on some other machine. How they waited there is not part of the
//! program. So waiting is removed and replaced by its cause (`order`). Accesses, the instructions between them, and the
//! events that order threads remain.
//!
//! 1. The whole recording is read once, for its events and for the thread that touches each page first.
//! 2. `order` decides for each event what the simulation does in its place.
//! 3. Every stream reads its thread's part of the file again and inserts these events.
//!
//! In a recording with windows, the parts between the windows take no time.

mod code;
mod cuts;
mod footprint;
mod order;
mod owners;
mod synchronisation;

pub use code::ProgramCode;
pub use footprint::Coverage;

use crate::model::{LINE_BYTES, Model};
use crate::timeline::Program;
use crate::window::{Batch, Event, StepTable, Stream};
use code::{Learning, Stepper};
use cuts::Work;
use order::Orders;
use owners::{Touched, touched};
use pinfold_trace::{EventKind as RecordedKind, Recording, ThreadReader, TraceError, Window};
use std::sync::{Arc, Mutex, PoisonError};
use synchronisation::ThreadEvents;

/// A recording that runs on simulated machines.
pub struct RecordedProgram {
    recording: Recording,
    orders: Vec<Orders>,
    owners: Vec<(u64, u32)>,
    coverage: Coverage,
    regions: u64,
    threads_at_once: usize,
    error: Mutex<Option<String>>,
    code: Arc<ProgramCode>,
}

/// Why a recording cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It is empty.
    #[error("the recording has no thread that can run; record a program that runs until its end")]
    Empty,
}

impl RecordedProgram {
    /// Reads the recording once.
    pub fn new(recording: Recording) -> Result<Self, RecordedError> {
        Self::read(recording, false)
    }

    /// Like `new`, for a machine that places the threads of each parallel region by itself.
    pub fn with_regions(recording: Recording) -> Result<Self, RecordedError> {
        Self::read(recording, true)
    }

    fn read(recording: Recording, shares: bool) -> Result<Self, RecordedError> {
        if recording.threads().is_empty() {
            return Err(RecordedError::Empty);
        }
        let mut events = vec![];
        let mut worked = vec![];
        let mut learning = Learning::new(&recording);
        for thread in recording.threads() {
            let mut mine = ThreadEvents {
                number: thread.number,
                events: vec![],
            };
            let mut work = Work::default();
            let mut reader = recording.read(thread);
            let mut batch: pinfold_trace::Batch = pinfold_trace::Batch::default();
            while reader.next_batch(&mut batch)? {
                learning.batch(&batch);
                work.batch(&batch);
                mine.events.extend(batch.events.iter().map(|&(_, event)| event));
            }
            learning.end_thread();
            events.push(mine);
            worked.push(work.before);
        }
        let mut orders = order::orders(&events, recording.header().window.is_some(), shares);
        // Another window ends where the program has finished something: all its waiting is its own.
        if matches!(recording.header().window, Some(Window::Instructions { .. })) {
            cuts::mark(&mut orders, &events, &worked);
        }
        let regions = events
            .iter()
            .flat_map(|thread| &thread.events)
            .filter(|event| matches!(event.kind, RecordedKind::RegionEnd { .. }))
            .count() as u64;
        let Touched { owners, lines } = touched(&recording, &events, &orders)?;
        let whole = recording.header().window.is_none();
        let accessed: Vec<u64> = owners.iter().map(|&(page, _)| page).collect();
        let coverage = Coverage {
            window_bytes: lines * LINE_BYTES,
            footprint_bytes: recording
                .knows_first_touches()
                .then(|| footprint::bytes(&events, &accessed)),
            threads: events.len() as u64,
            whole,
        };
        Ok(Self {
            recording,
            orders,
            owners,
            coverage,
            regions,
            threads_at_once: threads_at_once(&events),
            error: Mutex::new(None),
            code: Arc::new(learning.finish()),
        })
    }

    /// How much of the program's memory the recorded window accesses.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn reader(&self, thread: usize) -> ThreadReader {
        self.recording.read(&self.recording.threads()[thread])
    }

    fn fail(&self, error: &TraceError) {
        let mut kept = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| error.to_string());
    }
}

/// The highest number of threads that live at the same time.
fn threads_at_once(threads: &[ThreadEvents]) -> usize {
    let mut changes: Vec<(u64, bool)> = threads
        .iter()
        .flat_map(|thread| &thread.events)
        .filter_map(|event| match event.kind {
            RecordedKind::ThreadBegin { .. } => Some((event.sequence, true)),
            RecordedKind::ThreadEnd { .. } => Some((event.sequence, false)),
            _ => None,
        })
        .collect();
    changes.sort_unstable();
    let (mut living, mut most) = (0usize, 0);
    for (_, begins) in changes {
        living = if begins { living + 1 } else { living.saturating_sub(1) };
        most = most.max(living);
    }
    most
}

impl Program for RecordedProgram {
    fn threads(&self) -> usize {
        self.recording.threads().len()
    }

    fn threads_at_once(&self) -> usize {
        self.threads_at_once
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        Box::new(RecordedStream {
            program: self,
            orders: &self.orders[thread],
            reader: self.reader(thread),
            batch: pinfold_trace::Batch::default(),
            next_event: 0,
            stepper: self.code.stepper(),
        })
    }

    fn regions(&self) -> Option<u64> {
        (self.regions > 0).then_some(self.regions)
    }

    fn code(&self) -> Option<Arc<ProgramCode>> {
        Some(Arc::clone(&self.code))
    }

    fn knows_cuts(&self) -> bool {
        self.recording.is_complete()
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One thread of a recording.
struct RecordedStream<'a> {
    program: &'a RecordedProgram,
    orders: &'a Orders,
    reader: ThreadReader,
    batch: pinfold_trace::Batch<Event>,
    /// Position among the thread's events.
    next_event: usize,
    stepper: Stepper,
}

impl Stream for RecordedStream<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> bool {
        batch.events.clear();
        // A batch of the recording may contain nothing that the simulation needs.
        while batch.events.is_empty() {
            match self.reader.next_batch_in(&mut self.batch, &mut self.stepper) {
                Ok(true) => self.translate(&mut batch.events),
                Ok(false) => return false,
                Err(error) => {
                    self.program.fail(&error);
                    return false;
                }
            }
        }
        true
    }

    fn steps(&self, model: &Model) -> Option<Arc<StepTable>> {
        self.program.code.table(model)
    }
}

impl RecordedStream<'_> {
    fn translate(&mut self, into: &mut Vec<Event>) {
        let batch = &mut self.batch;
        let mut done = 0;
        if batch.events.is_empty() && into.is_empty() && !self.orders.silent(self.next_event) {
            std::mem::swap(into, &mut batch.accesses);
            put_instructions(batch.instructions, into);
            return;
        }
        for &(before, event) in &batch.events {
            if !self.orders.silent(self.next_event) {
                into.extend_from_slice(&batch.accesses[done..before]);
            }
            done = before;
            put_event(self.orders, &mut self.next_event, event.instructions, into);
        }
        if !self.orders.silent(self.next_event) {
            into.extend_from_slice(&batch.accesses[done..]);
            put_instructions(batch.instructions, into);
        }
    }
}

/// Adds the instructions before a recorded event, and the simulation's substitute for the event.
fn put_event(orders: &Orders, next: &mut usize, instructions: u64, into: &mut Vec<Event>) {
    if !orders.silent(*next) {
        put_instructions(instructions, into);
    }
    into.extend_from_slice(orders.in_place_of(*next));
    *next += 1;
}

fn put_instructions(mut instructions: u64, into: &mut Vec<Event>) {
    while instructions > 0 {
        let some = u32::try_from(instructions).unwrap_or(u32::MAX);
        into.push(Event::instructions(some));
        instructions -= u64::from(some);
    }
}
