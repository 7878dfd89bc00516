//! The core: its clock, and its speed for instructions whose data are in the L1.

use super::instructions::{ADDITIONS, add};
use super::runs::{Effort, seconds};
use pinfold_core::measurement::Measured;

/// The rounds of a run: some ten microseconds.
const ROUNDS: u64 = 2048;

/// The clock in hertz. A dependent addition of registers takes one cycle on every core. The time stamp counter may have
/// another frequency.
pub(super) fn frequency(effort: Effort) -> Measured {
    let run = || seconds(|| add(ROUNDS));
    effort.least(run).rate((ADDITIONS * ROUNDS) as f64)
}

/// Loops whose instructions are counted and whose data are in the L1, like typical inner loops of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    /// a[i] = s x b[i] + c[i]: the steps are independent.
    Triad,
    /// A sum of floating-point numbers: each step depends on the previous one.
    Sum,
    /// A random number generator (xorshift) with an unpredictable branch on its bits, which is taken in one of eight
    /// steps.
    Branches,
    /// Integer work on registers, four independent operations at a time.
    Registers,
}

impl Loop {
    pub(super) const ALL: [Self; 4] = [Self::Triad, Self::Sum, Self::Branches, Self::Registers];

    /// The seconds of a run.
    pub(super) fn run(self) -> f64 {
        seconds(|| self.go(ROUNDS * 4))
    }

    /// Seconds per instruction.
    pub(super) fn seconds_an_instruction(self, effort: Effort) -> Measured {
        effort
            .least(|| self.run())
            .scaled(1.0 / (ROUNDS * 4 * self.instructions()) as f64)
    }
}
