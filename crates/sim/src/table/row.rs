//! The rows of a table, as they were read.

/// One program, or one of its parallel regions, in one configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// The program's name.
    pub program: String,
    /// The program and its arguments.
    pub command: String,
    /// The region; `None` for the whole program.
    pub region: Option<String>,
    /// The configuration.
    pub configuration: RowConfiguration,
    /// The time of one execution, in the table's unit.
    pub time: f64,
    /// The relative standard deviation of the times of several executions; `None` if it is not known.
    pub spread: Option<f64>,
    /// The memory that the program uses, in bytes; `None` if it is not known.
    pub footprint: Option<u64>,
    /// Whether the table compares other rows with this one.
    pub baseline: bool,
    /// Whether the time was simulated, and not measured.
    pub simulated: bool,
}

/// The configuration of a row, with the texts of a data set's columns. `None` is an empty cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowConfiguration {
    /// The number of threads.
    pub threads: usize,
    /// The number of nodes that have threads.
    pub nodes: Option<usize>,
    /// `compact` or `scatter`.
    pub thread_map: Option<String>,
    /// The most threads on one core.
    pub threads_per_core: Option<usize>,
    /// The page mapping.
    pub page_map: String,
    /// The prefetchers that are off.
    pub prefetch: String,
    /// The PU of each rank. Without it and without nodes the threads were not pinned.
    pub pinning: Option<String>,
}
