//! What is believed of a program's configurations: how long the program takes in each of them, how certain that is, and
//! which one is worth a trial.
//!
//! z, the logarithm of the time over the time in the baseline, is normal over all configurations. `point` describes a
//! configuration as shares of its machine, so that what was learned on some machines serves another one. `file` reads a
//! belief, which the Python package learns, and `prior` is what it says of any configurations, by `kernel` where it
//! lists others. `posterior` conditions it on trials, `worth` weighs a trial against its cost, and `words` says what was
//! believed before and after a trial. docs/design/belief.md has the formulas, and what a policy passes and gets.

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
pub use worth::{Account, Cost, Next, Partial, View, Worth, is_hopeless, next};

#[cfg(test)]
mod examples;
#[cfg(test)]
mod properties;
