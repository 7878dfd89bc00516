//! A belief about a program's configurations: the expected time in each, its uncertainty, and the next trial.
//!
//! z, the logarithm of the time over the time in the baseline, is normal over all configurations. `point` describes a
//! configuration as shares of its machine, so that a belief of some machines serves another one. `file` reads a belief,
//! which the Python package learns. `prior` extends it to any configurations: `kernel` says how alike they are to the
//! listed ones. `posterior` conditions it on trials, `worth` weighs a trial against its cost, and `words` explains it.
//! docs/design/belief.md has the formulas, and the interface for policies.

mod file;
mod kernel;
mod normal;
mod point;
mod posterior;
mod prior;
mod words;
mod worth;

pub use file::{BeliefError, MOST_BYTES};
pub use kernel::{Kernel, Lengths};
pub use point::Point;
pub use posterior::{Believed, Lesson, Posterior, Trial, TrialError};
pub use prior::{Belief, Prior};
pub use worth::{Account, BEYOND_BUDGET, Cost, Next, Partial, View, Worth, is_hopeless, next};

#[cfg(test)]
mod examples;
#[cfg(test)]
mod properties;
