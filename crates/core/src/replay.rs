//! What a run on a table of measurements has replayed, for its record.

use crate::RegionId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The program and its arguments, as the table has them.
    pub program: String,
    /// Its regions; empty if the table has times of the whole program only.
    pub regions: Vec<ReplayedRegion>,
    /// The number of its threads.
    pub threads: usize,
    /// The configuration of the unpinned program, in words.
    pub unpinned: String,
    /// Why it is that one.
    pub unpinned_source: UnpinnedSource,
    /// Seconds of one unit of the table's times.
    pub unit: f64,
    /// What moves cost.
    pub moves: MoveCosts,
    /// Completed repetitions of the regions.
    pub repetitions: u64,
    /// How long the program stood still because its threads or pages moved, in seconds.
    pub paused: f64,
    /// The requests of the policy, each different from the one before.
    pub requests: usize,
    /// The requests of which something was refused.
    pub refused: usize,
    /// The requests that were measured on other CPUs, in the same layout.
    pub alike: usize,
    /// Whether the times of the table were simulated, and not measured.
    pub simulated_times: bool,
}

/// A region of a replayed program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayedRegion {
    /// The identity in the record.
    pub region: RegionId,
    /// The name in the table.
    pub name: String,
    /// Its share of the time of a repetition of the unpinned program.
    pub share: f64,
    /// Its executions.
    pub executions: u64,
}

/// Why a row of a table is the unpinned program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnpinnedSource {
    /// It was measured with unpinned threads.
    Measured,
    /// The table marks it as its baseline.
    Baseline,
    /// The table has neither. A system would often place a program like this.
    Assumed,
}

impl fmt::Display for UnpinnedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured without pinning",
            Self::Baseline => "the baseline of the table",
            Self::Assumed => "assumed: the table has no row with unpinned threads, and marks no baseline",
        })
    }
}

/// What moves cost in a replayed program, which stands still meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoveCosts {
    /// Moves of threads.
    pub threads: MoveCost,
    /// Moves of pages.
    pub pages: MoveCost,
}

/// The cost of one kind of moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoveCost {
    /// How long the program stands still, in seconds.
    pub seconds: f64,
    /// Where this comes from.
    pub source: CostSource,
}

/// Where the cost of a move comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The user.
    Given,
    /// The memory of the program, and an assumed bandwidth.
    Footprint,
    /// It is assumed.
    Assumed,
}
