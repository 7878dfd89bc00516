//! The repetitions of a program, as one endless stream.

use crate::model::Model;
use crate::program::SimulatedProgram;
use crate::window::{Batch, Event, EventKind, StepTable, Stream};
use std::sync::Arc;

/// The endless repetitions of one thread, with a mark after each.
pub(crate) struct Repeated<'a> {
    program: &'a dyn SimulatedProgram,
    thread: usize,
    stream: Box<dyn Stream + 'a>,
}

impl<'a> Repeated<'a> {
    pub(crate) fn new(program: &'a dyn SimulatedProgram, thread: usize) -> Self {
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
