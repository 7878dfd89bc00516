//! `hints:rules`: a learned policy chooses an affinity hint after one sample, and a known program gets its best hint at once
//! (Moore and Childers, "Automatic Generation of Program Affinity Policies Using Machine Learning", CC 2012, section 2
//! and figure 3).
//!
//! 1. A program that is known with this number of threads starts in the placement of its hint, and stays there.
//! 2. Any other program starts unpinned. With `observe` it starts in the placement of that hint; the paper's programs
//!    start distributed (section 3). When its threads work it is sampled once, for `t`: the counts of all metrics, per
//!    thread and second (section 3.1).
//! 3. The rules choose a hint from that sample, and the hint's placement is applied.
//!
//! Beyond the paper:
//!
//! - The move is verified, if `verify` is set: after a warm-up of `w` the rate is measured for `t` again. If it is
//!   significantly lower, the threads go back to their PUs. Threads that were not pinned before go back unless the rate
//!   is higher.
//! - If other threads work than before, the hint is applied for their number: a hint does not depend on it.
//! - Each run reports its sample (`Finding::Sampled`), so that a database can use it in later runs.
//!
//! Without rules nothing is moved: the program is sampled and stays unpinned.

mod policy;

pub use policy::{HintOptions, Hints, Known, NoHintError};
