//! Whole runs as measurements: for a program that counts nothing while it runs, the wall time of a run tells how fast
//! the program was in its placement.
//!
//! 1. `area`: the placements of whole runs, and where they are on a machine.
//! 2. `times`: what the runs in one placement took.
//! 3. `work`: runs that do the same work, and which placement is the fastest for it.
//! 4. `history`: all runs of a program, which work each did, and what trials may cost. `summary` has it for people.
//! 5. `plan`: what the next run does.
//! 6. `policy`: one run in its placement.
//!
//! `History` and its parts are data: the behaviour database keeps them as JSON. They know no clock and no machine.

mod area;
mod history;
mod plan;
mod policy;
mod summary;
mod times;
mod work;

#[cfg(test)]
mod tests;

pub use area::{Area, AreaError, Candidate, candidates};
pub use history::{History, How, Run};
pub use plan::{Gained, Place, Plan, SHORTEST};
pub use policy::{WholeRun, WholeRunOptions};
pub use summary::{PlacementSummary, WorkSummary};
