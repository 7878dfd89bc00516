//! Tables of measurements as machines: a program's times were measured in many configurations, and are replayed.
//!
//! 1. [`TableProgram`] takes the rows of one program, or of one of its parallel regions, out of a table, and indexes
//!    them once by placement, pages and prefetchers (`placement`, `program`).
//! 2. One row is the unpinned program's (`unpinned`).
//! 3. [`TableMachine`] replays the program: its regions run in turn, each as long as the row of the present
//!    configuration says, with the spread of that row as noise (`clock`).
//! 4. A policy's request becomes rows (`request`). What the table does not have is refused. Moves of threads and pages
//!    stop the program (`moves`).
//!
//! Known limits: the noise of executions is independent, so a drift of the machine is not replayed. Threads move
//! together with their pages, because the table has no time of threads apart from their pages. Events are not counted.

mod clock;
mod machine;
mod measured;
mod moves;
mod pages;
mod placement;
mod program;
mod request;
mod row;
#[cfg(test)]
mod tests;
mod unpinned;

pub use machine::{TableMachine, TableSettings};
pub use moves::GivenCosts;
pub use program::{TableError, TableProgram};
pub use row::{RowConfiguration, TableRow};
