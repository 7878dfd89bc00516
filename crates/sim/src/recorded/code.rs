//! The code of a recorded program: the steps of its accesses, and their cost on each model.
//!
//! 1. When the recording is opened, each access gets its step, and a sample is kept (`pinfold_code::Learner`).
//! 2. When a stream begins on a model, the sample is executed once for that model's core.
//! 3. While a stream is read, each access is looked up again and names its step.
//!
//! A recording of a format version without code has no steps: an access names a hash of its instruction.

use crate::model::Model;
use crate::window::{Event, EventKind, StepTable, UNKNOWN};
use pinfold_code::{Code, Cursor, Learner, Steps};
use pinfold_trace::{Access, Batch, Context, FromAccess, Recording};
use std::sync::{Arc, Mutex, PoisonError};

/// Learns the steps while the recording is read for the first time.
pub(super) struct Learning {
    learner: Option<Learner>,
    cursor: Cursor,
}

impl Learning {
    pub(super) fn new(recording: &Recording) -> Self {
        let code = recording.code().filter(|blocks| !blocks.is_empty());
        Self {
            learner: code.map(|blocks| {
                let blocks = blocks.iter().map(|block| (block.address, &block.bytes[..]));
                Learner::new(Code::new(blocks))
            }),
            cursor: Cursor::default(),
        }
    }

    /// The next accesses of a thread.
    pub(super) fn batch(&mut self, batch: &Batch) {
        let Some(learner) = &mut self.learner else { return };
        let mut events = batch.events.iter().peekable();
        for (index, access) in batch.accesses.iter().enumerate() {
            while events.next_if(|(before, _)| *before <= index).is_some() {
                self.cursor.interrupted();
            }
            learner.access(
                &mut self.cursor,
                access.pc,
                access.write,
                access.instructions,
                access.address,
            );
        }
        if events.peek().is_some() || batch.instructions > 0 {
            self.cursor.interrupted();
        }
    }

    pub(super) fn end_thread(&mut self) {
        self.cursor.interrupted();
        if let Some(learner) = &mut self.learner {
            learner.end_piece();
        }
    }

    pub(super) fn finish(self) -> ProgramCode {
        ProgramCode {
            steps: self.learner.map(|learner| Arc::new(learner.finish())),
            tables: Mutex::new(vec![]),
        }
    }
}

/// What a table depends on.
#[derive(Clone, PartialEq)]
struct Key {
    microarchitecture: Option<String>,
    latency: f64,
    reorder_buffer: u32,
    pace: f64,
    threads_per_core: usize,
    smt_throughput: Option<f64>,
    reorder_buffer_beside_others: u64,
}

impl Key {
    fn of(model: &Model) -> Self {
        let core = &model.core;
        Self {
            microarchitecture: core.microarchitecture.as_ref().map(|name| name.value().0),
            latency: model.caches[0].latency.value().cycles(model.frequency()),
            reorder_buffer: core.reorder_buffer.value().0,
            pace: core.base_cpi.value().0,
            threads_per_core: model.threads_per_core(),
            smt_throughput: core.smt_throughput.as_ref().map(|throughput| throughput.value().0),
            reorder_buffer_beside_others: model.entries_beside_others(u64::from(core.reorder_buffer.value().0)),
        }
    }
}

/// The steps of a recording, and the tables that were made of them.
pub struct ProgramCode {
    steps: Option<Arc<Steps>>,
    tables: Mutex<Vec<(Key, Arc<StepTable>)>>,
}

impl ProgramCode {
    /// What the steps cost on a model; `None` without code.
    pub(crate) fn table(&self, model: &Model) -> Option<Arc<StepTable>> {
        let steps = self.steps.as_ref()?;
        let key = Key::of(model);
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = tables.iter().find(|(known, _)| *known == key) {
            return Some(Arc::clone(table));
        }
        let table = Arc::new(StepTable::decoded(model, steps));
        tables.push((key, Arc::clone(&table)));
        Some(table)
    }

    pub(super) fn stepper(&self) -> Stepper {
        Stepper {
            steps: self.steps.clone(),
            cursor: Cursor::default(),
        }
    }
}

/// Finds the step of each access of a thread.
pub struct Stepper {
    steps: Option<Arc<Steps>>,
    cursor: Cursor,
}

impl Stepper {
    #[inline]
    fn step(&mut self, access: &Access) -> u16 {
        let Some(steps) = &self.steps else {
            return hash(access.pc, access.write);
        };
        match steps.step(&mut self.cursor, access.pc, access.write, access.instructions) {
            Some(step) => step + UNKNOWN,
            None => hash(access.pc, access.write),
        }
    }
}

impl Context for Stepper {
    fn interrupted(&mut self) {
        self.cursor.interrupted();
    }
}

/// A hash of an instruction's address and of whether it stores, from 1 to 255 (Fibonacci hashing: Knuth, The Art of
/// Computer Programming 3, section 6.4). A copy instruction has one stride for its loads and one for its stores.
fn hash(pc: u64, write: bool) -> u16 {
    let [.., highest] = (pc << 1 | u64::from(write))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_le_bytes();
    highest.max(1).into()
}

impl FromAccess for Event {
    type Context = Stepper;

    #[inline]
    fn from_access(access: &Access, stepper: &mut Stepper) -> Self {
        Self {
            payload: access.address,
            instructions: access.instructions,
            step: stepper.step(access),
            size: access.size,
            kind: match (access.write, access.locked) {
                // The store of an atomic instruction, after its load. QEMU reports some of them as one access.
                (_, true) if access.instructions > 0 => EventKind::Locked,
                (true, _) => EventKind::Write,
                (false, _) => EventKind::Read,
            },
        }
    }

    #[inline]
    fn at(self, address: u64) -> Self {
        Self {
            payload: address,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Ratio, builtin};

    #[test]
    fn loads_and_stores_of_an_instruction_have_separate_strides() {
        let hashes = [0x40_1000, 0x40_1004].map(|pc| [hash(pc, false), hash(pc, true)]);
        let [[a, b], [c, d]] = hashes;
        assert!(a != b && c != d && a != c, "{hashes:?}");
    }

    #[test]
    fn machines_whose_siblings_differ_have_tables_of_their_own() {
        const NOP: &[u8] = &[0x90];
        let code = ProgramCode {
            steps: Some(Arc::new(Learner::new(Code::new([(0x1000, NOP)])).finish())),
            tables: Mutex::new(vec![]),
        };
        let mut model = builtin("gold-6142x2").unwrap();
        let pace = |model: &Model| code.table(model).unwrap().row(0).pace;
        let [alone, beside] = pace(&model);
        model.core.smt_throughput = model.core.smt_throughput.map(|throughput| throughput.with(Ratio(1.0)));
        let [same, slower] = pace(&model);
        assert_eq!(same, alone);
        assert!(slower > beside, "{slower} {beside}");
    }
}
