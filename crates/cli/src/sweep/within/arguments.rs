//! The options of a sweep within one run.

use crate::run::{duration, number};
use clap::{Args, ValueEnum};
use pinfold_policy::survey::By;
use std::time::Duration;

/// How a program is measured while it runs.
#[derive(Args)]
#[group(skip)]
pub(in super::super) struct Arguments {
    /// Measure all configurations while the program runs once.
    ///
    /// Threads, pages and prefetchers change at the borders of parallel regions, and each region is measured by itself;
    /// a program without regions that repeat is measured by its metric (docs/metrics.md). When everything is measured,
    /// the program runs on unpinned. If it ends before, what was measured is written, and the same command measures the
    /// rest in another run.
    #[arg(long)]
    pub(in super::super) within_run: bool,

    /// Measure each configuration N times at most [default: 3 to 12 times, as --precision needs].
    #[arg(long, value_parser = number::within(1usize, 1000), value_name = "N", requires = "within_run")]
    pub(super) rounds: Option<usize>,

    /// What is measured by itself: parallel regions, or the whole program.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT", requires = "within_run")]
    pub(super) by: Subjects,

    /// The metric of a program that is measured as a whole, as `pinfold run --metric` takes it.
    #[arg(long, default_value = "auto", value_name = "METRIC", requires = "within_run")]
    pub(super) metric: String,

    /// How long the program initialises; nothing is measured before.
    #[arg(long, value_parser = duration::parse, default_value = "2s", value_name = "TIME", requires = "within_run")]
    pub(super) initialise: Duration,

    /// End the program by SIGTERM when everything is measured. By default it runs on.
    #[arg(long, requires = "within_run")]
    pub(super) end: bool,

    #[command(flatten)]
    pub(super) claims: crate::claims::Arguments,
}

/// What is measured by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Subjects {
    /// Parallel regions where some repeat, and otherwise the program.
    #[default]
    Auto,
    /// Parallel regions.
    Regions,
    /// The whole program.
    Program,
}

impl Subjects {
    pub(super) fn by(self) -> By {
        match self {
            Self::Auto => By::Auto,
            Self::Regions => By::Regions,
            Self::Program => By::Program,
        }
    }
}

impl Arguments {
    /// The fewest and the most measurements of a configuration.
    pub(super) fn extent(&self) -> (usize, usize) {
        /// The usual numbers.
        const FEWEST: usize = 3;
        const MOST: usize = 12;
        let most = self.rounds.unwrap_or(MOST);
        (FEWEST.min(most), most)
    }
}
