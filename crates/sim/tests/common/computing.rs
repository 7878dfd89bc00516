//! A program that computes and accesses no memory.

use pinfold_sim::SimulatedProgram;
use pinfold_sim::window::{Event, Recorded, Stream};

/// One thread that executes this number of instructions.
pub(crate) struct Computing(pub(crate) u32);

impl SimulatedProgram for Computing {
    fn threads(&self) -> usize {
        1
    }

    fn stream(&self, _thread: usize) -> Box<dyn Stream + '_> {
        Box::new(Recorded::new(vec![Event::instructions(self.0)]))
    }

    fn regions(&self) -> Option<u64> {
        None
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &[]
    }

    fn error(&self) -> Option<String> {
        None
    }
}
