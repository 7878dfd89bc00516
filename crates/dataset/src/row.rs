//! One row of a data set. The columns of a subject are one type.

use serde::{Deserialize, Serialize};

/// One program, or one parallel region of it, in one configuration on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The program and the machine.
    pub program: ProgramColumns,
    /// The placement and the settings.
    pub configuration: ConfigurationColumns,
    /// The time in the data set's unit: of a repetition, of a run, or of a unit of the program's progress.
    pub time: f64,
    /// How much of the program the row represents.
    pub window: WindowColumns,
    /// How much of it was simulated, and how certain the time is.
    pub sampling: SamplingColumns,
    /// How the row was measured. `None` for a simulated row.
    pub measured: Option<MeasuredColumns>,
    /// The bytes by node and by link.
    pub traffic: TrafficColumns,
    /// The connection to rows with other numbers of threads. `None` unless the number of threads belongs to the
    /// configuration.
    pub joined: Option<JoinedColumns>,
    /// One value for each metric of the data set; `None` if it is not available.
    pub metrics: Vec<Option<f64>>,
}

/// The program and the machine of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramColumns {
    /// The machine's name.
    pub machine: String,
    /// The program's file name.
    pub program: String,
    /// The region's address, as hexadecimal digits; `None` for the whole program.
    pub region: Option<String>,
    /// Whether the row is simulated.
    pub simulated: bool,
    /// The program and its arguments.
    pub command: String,
    /// The identity of the recording or the binary; `None` if it is not known.
    pub recording: Option<String>,
}

/// The configuration of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationColumns {
    /// The number of placed threads.
    pub num_threads: usize,
    /// The layout of the threads on nodes. `None` if the threads had no given layout.
    pub layout: Option<Layout>,
    /// The page mapping.
    pub page_map: String,
    /// The prefetchers that are off.
    pub prefetch: String,
    /// The PU of each rank; `None` if the threads were not pinned.
    pub pinning: Option<String>,
}

/// The layout of threads on nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The number of nodes.
    pub num_nodes: usize,
    /// The most ranks on one core. 1: no rank is on a sibling of another's PU. `None` if it is not known.
    pub threads_per_core: Option<usize>,
    /// `compact` or `scatter` if the threads follow one of them.
    pub thread_map: Option<String>,
}

/// How much of the program the simulated window represents: the memory that it accesses, in bytes, and its waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowColumns {
    /// The cache lines that the window accesses.
    pub window_bytes: Option<u64>,
    /// The memory that the program uses.
    pub footprint_bytes: Option<u64>,
    /// All last-level caches of the machine together.
    pub llc_bytes: Option<u64>,
    /// Whether the window accesses enough memory to represent the program; `None` if it is not known.
    pub covers: Option<bool>,
    /// The share of the threads' time that they spent waiting for events outside the recording; `None` if it is not
    /// known.
    pub unrecorded_wait_share: Option<f64>,
}

/// How much of the program was simulated, and how certain its time is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingColumns {
    /// Half the width of the 95 % confidence interval of the time, over the time. For a measured row: of the median of
    /// the runs' times.
    pub time_error: Option<f64>,
    /// The share of the accesses that was simulated; `None` for a measured row.
    pub simulated_share: Option<f64>,
}

/// How a row was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredColumns {
    /// The number of runs, or of executions of the region, whose median is the time.
    pub runs: Option<usize>,
    /// The robust relative standard deviation of the times of the runs: 1.4826 times the median absolute deviation, over
    /// the median. `None` for a single run.
    pub spread: Option<f64>,
    /// The machine during these runs.
    pub state: MachineState,
}

/// The state of a machine while a row was measured; `None` if it is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineState {
    /// The number of PUs that other programs kept busy, as a mean.
    pub load_of_others: Option<f64>,
    /// The share of the processor time that the hypervisor took.
    pub steal_share: Option<f64>,
    /// The mean frequency of the used PUs, in hertz.
    pub frequency_hz: Option<f64>,
    /// Whether a package reduced its frequency because of its temperature.
    pub throttled: Option<bool>,
    /// By node, the memory that was free before the runs, in bytes.
    pub free_memory_bytes: Option<Vec<u64>>,
}

/// The bytes that each memory and each link carried; `None` if they were not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficColumns {
    /// By node: the bytes that its memory read and wrote.
    pub node_bytes: Option<Vec<u64>>,
    /// By link, in the machine's order: the bytes that crossed it.
    pub link_bytes: Option<Vec<u64>>,
}

/// The connection of a row to the rows of the same program and region with other numbers of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedColumns {
    /// The program and its arguments, with `{threads}` in place of the number of threads.
    pub command: String,
    /// The name of the file with the region's code; `None` for the whole program, and for code outside files.
    pub region_object: Option<String>,
    /// The region's offset in this file, as hexadecimal digits.
    pub region_offset: Option<String>,
    /// Whether the data set has rows with all numbers of threads.
    pub region_complete: bool,
    /// Whether other configurations are compared with this one.
    pub baseline: bool,
}
