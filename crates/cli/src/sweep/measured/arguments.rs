//! The options of a sweep that measures on this machine.

use crate::run::{duration, number};
use anyhow::{Result, bail};
use clap::Args;
use pinfold_sweep::measured::Extent;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How a program is measured on this machine.
#[derive(Args)]
#[group(skip)]
pub(in super::super) struct Arguments {
    /// Repeat the runs of a configuration until its median time is known to within this share (half of the 95 %
    /// interval) [default: 2%, and without a limit of it if --runs is given alone].
    ///
    /// With --sampled, simulate pieces of a recording until its time is known to within this share [default: 2%].
    // In other commands --interval is a time.
    #[arg(long, alias = "interval", value_parser = number::parse_percent, value_name = "PERCENT")]
    pub(in super::super) precision: Option<f64>,

    /// Run each configuration N times; with --precision at most N times [default: 3 to 20 times, as --precision needs].
    #[arg(short, long, value_parser = number::parse_positive, value_name = "N")]
    runs: Option<usize>,

    /// Start no run after this time. What was measured is written, and the same command goes on with the rest.
    #[arg(long, value_parser = duration::parse_probe, value_name = "TIME")]
    pub(in super::super) time_limit: Option<Duration>,

    /// Run the unpinned program N times before the first measured run, so that files are in memory.
    #[arg(short = 'w', long = "warmup-runs", visible_alias = "warmup", value_parser = number::within(1usize, 1000), value_name = "N", default_value = "1")]
    pub(super) warm_up: usize,

    /// Run this command of the shell after each run. A run whose check ends with another status than 0 has failed.
    ///
    /// Its standard input is the standard output of the run. Its environment has the configuration of the run:
    /// `PINFOLD_THREADS`, `PINFOLD_PINNING` (`unpinned` for the unpinned program), `PINFOLD_PAGE_MAP` and
    /// `PINFOLD_PREFETCH`; and with --output-dir `PINFOLD_OUTPUT_DIR`. They are absent after a warm-up run.
    #[arg(long, value_name = "COMMAND")]
    pub(super) check: Option<OsString>,

    /// Run this command of the shell before each run. Its time does not count.
    #[arg(long, value_name = "COMMAND")]
    pub(super) before: Option<OsString>,

    /// Give each run a folder of its own in DIR. `{output}` in the command, and the variable `PINFOLD_OUTPUT_DIR`, name it.
    ///
    /// The standard output of a run is in its file `stdout`, and its standard error in `stderr`.
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,

    /// The standard input of each run [default: empty].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,

    /// Options of `pinfold run --page-options` for the configurations that place pages, such as profile=a.pft for the
    /// page maps locality and balance.
    #[arg(long, value_name = "LIST")]
    pub(super) page_options: Option<String>,

    /// The seed of the random order.
    #[arg(long, value_name = "SEED", value_parser = number::within(0u64, u64::MAX), default_value = "0")]
    pub(in super::super) seed: u64,

    #[command(flatten)]
    pub(in super::super) journals: crate::journals::Arguments,
}

impl Arguments {
    /// The first option that was given besides these, if any.
    pub(in super::super) fn given_besides(&self, these: &[&'static str]) -> Option<&'static str> {
        self.all()
            .into_iter()
            .find(|(given, option)| *given && !these.contains(option))
            .map(|(_, option)| option)
    }

    /// The options, and whether each was given.
    fn all(&self) -> [(bool, &'static str); 10] {
        [
            (self.precision.is_some(), "--precision"),
            (self.runs.is_some(), "--runs"),
            (self.time_limit.is_some(), "--time-limit"),
            (self.warm_up != 1, "--warmup-runs"),
            (self.check.is_some(), "--check"),
            (self.before.is_some(), "--before"),
            (self.output_dir.is_some(), "--output-dir"),
            (self.input.is_some(), "--input"),
            (self.page_options.is_some(), "--page-options"),
            (self.seed != 0, "--seed"),
        ]
    }

    /// The first option that was given for whole runs, and is not for a program that runs once.
    pub(in super::super) fn of_whole_runs(&self) -> Option<&'static str> {
        self.given_besides(&["--precision", "--time-limit", "--seed"])
    }

    /// How often each configuration runs.
    pub(super) fn extent(&self) -> Result<Extent> {
        /// The usual numbers of runs.
        const LEAST: usize = 3;
        const MOST: usize = 20;
        /// The usual interval.
        const INTERVAL: f64 = 0.02;
        if self.precision == Some(0.0) {
            bail!("--precision 0 cannot be reached; give --runs N for a number of runs");
        }
        Ok(match (self.runs, self.precision) {
            (Some(runs), None) => Extent {
                least: runs,
                most: runs,
                interval: None,
            },
            (runs, precision) => Extent {
                least: LEAST.min(runs.unwrap_or(MOST)),
                most: runs.unwrap_or(MOST),
                interval: Some(precision.unwrap_or(INTERVAL)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn extent(words: &[&str]) -> Extent {
        let command = Arguments::augment_args(Command::new("sweep").no_binary_name(true));
        let matches = command.get_matches_from(words);
        Arguments::from_arg_matches(&matches).unwrap().extent().unwrap()
    }

    #[test]
    fn runs_alone_are_the_number_and_with_an_interval_the_most() {
        assert_eq!(
            (extent(&[]).least, extent(&[]).most, extent(&[]).interval),
            (3, 20, Some(0.02))
        );
        let runs = extent(&["--runs", "5"]);
        assert_eq!((runs.least, runs.most, runs.interval), (5, 5, None));
        let both = extent(&["--runs", "2", "--precision", "1%"]);
        assert_eq!((both.least, both.most, both.interval), (2, 2, Some(0.01)));
    }
}
