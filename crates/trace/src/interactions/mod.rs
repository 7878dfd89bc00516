//! The exchanges between a program's threads, and the metrics that Denoyelle, Goglin, Jeannot and Ropars compute from
//! them ("Data and Thread Placement in NUMA Architectures: A Statistical Learning Approach", ICPP 2019, section 3.2.2
//! and table 2). Exchanges are counted by 64-byte lines, in one pass over the accesses in an order that the recording
//! permits (`order`). `lines` counts, `metrics` has the formulas.

mod lines;
mod metrics;
mod order;

pub use metrics::{Machine, Metrics as InteractionMetrics, PairMetrics};

use crate::{Recording, TraceError};
use lines::Lines;
use order::in_order;

/// Pairs of threads. The row is the thread that wrote, or the first thread. The column is the other.
pub type Matrix = Vec<Vec<u64>>;

/// The largest memory for counts, in bytes.
const MOST_BYTES: usize = 4 << 30;

/// The exchanges between the threads of a recording. Threads are in the order of their creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Interactions {
    /// Communications from the row's thread to the column's: first reads of a line after a write by the other.
    pub communications: Matrix,
    /// Shared accesses of both threads: over all lines, the smaller of their numbers of accesses. Symmetric.
    pub sharing: Matrix,
    /// The accesses of each thread.
    pub accesses: Vec<u64>,
    /// The number of lines that each thread accesses.
    pub lines_by_thread: Vec<u64>,
    /// Accesses to lines that only one thread accesses.
    pub private_accesses: u64,
    /// Statistics over the lines.
    pub lines: LineStatistics,
}

/// Means and standard deviations over lines, and over the lines that two threads or more access.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineStatistics {
    /// The number of accessed lines.
    pub number: u64,
    /// Threads that access a line.
    pub sharing_degree: Spread,
    /// Writes per access to a line.
    pub write_ratio: Spread,
    /// Writes per access to a shared line.
    pub shared_write_ratio: Spread,
    /// Threads that write a line.
    pub write_degree: Spread,
}

/// The mean of numbers and their standard deviation. `None` for an empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: Option<f64>,
    /// The standard deviation of the whole population.
    pub deviation: Option<f64>,
}

impl Interactions {
    /// Reads a whole recording. Errors: the file cannot be read, or the counts of its lines by thread need more than
    /// 4 GiB.
    pub fn of(recording: &Recording) -> Result<Self, TraceError> {
        Self::within(recording, MOST_BYTES)
    }

    /// Like `of`, with another limit of the memory for counts, in bytes.
    pub fn within(recording: &Recording, most_bytes: usize) -> Result<Self, TraceError> {
        let threads = recording.threads().len();
        let mut lines = Lines::new(threads, most_bytes);
        in_order(recording, |thread, accesses| {
            for access in accesses {
                lines.access(thread, access);
            }
            lines.is_full()
        })?;
        if lines.is_full() {
            return Err(TraceError::TooManyLines {
                path: recording.path().to_owned(),
                threads,
                mebibytes: most_bytes >> 20,
            });
        }
        Ok(lines.finish())
    }
}
