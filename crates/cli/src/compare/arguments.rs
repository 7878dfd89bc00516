//! The command line of `pinfold compare`.

use super::passed::Passed;
use crate::machine::Selected;
use crate::run::{BALANCING_OF_A_REAL_MACHINE, KERNEL_OF_A_REAL_MACHINE, duration, number};
use anyhow::{Result, bail};
use clap::Args;
use pinfold_compare::Extent;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Run a program alone, under pinfold without pinning, and under policies, in turns, and compare the times.
///
/// Each variant is run as you would run it: the program itself, and `pinfold run --policy POLICY` with it. The variants
/// take turns, so that a machine that becomes slower in the meantime does so for all of them. Times are wall times of
/// whole runs; the search of a policy is part of them. A difference is reported as such if it is significant (Welch's
/// t-test, 1 %).
///
/// The exit status is 0 after a complete comparison, 128+n after signal n, 127 when the program was not found, 126 when
/// it could not be executed, 125 when a run failed or the options are wrong. What was measured until then is reported in any case.
#[derive(Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) machine: crate::machine::Arguments,

    /// The policies, with commas between several [default: all that work here].
    ///
    /// They are as `pinfold run --policy` takes them. A policy with its options is a text with spaces, such as "autopin
    /// --search racing". Repeat for more. The default is all policies that decide something and need no further files.
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Vec<String>,

    #[command(flatten, next_help_heading = "Runs")]
    extent: Rounds,

    #[command(flatten, next_help_heading = "Runs")]
    pub(super) surroundings: Surroundings,

    #[command(flatten, next_help_heading = "Results")]
    pub(super) exports: Exports,

    #[command(flatten, next_help_heading = "Simulated machines")]
    pub(super) simulated: Simulated,

    #[command(flatten)]
    pub(super) passed: Passed,

    /// The program and its arguments. It is run directly, without a shell.
    #[arg(last = true, help_heading = None::<&str>, value_name = "CMD", required_unless_present_any = ["recording", "machine"])]
    pub(super) command: Vec<OsString>,
}

const USAGE: &str = "\
pinfold compare [OPTIONS] [--] CMD [ARGUMENT]...
       pinfold compare [OPTIONS] --machine MACHINE {FILE.pft | --program PROGRAM}
       pinfold compare [OPTIONS] --machine MACHINE [--] CMD [ARGUMENT]...";

const EXAMPLES: &str = "\
Examples:
  pinfold compare -- ./solver input.dat
      alone, unpinned, and under each policy that works here, ten runs of each
  pinfold compare --policy autopin,hint:SLP -t 2s --warm-up 1s --initialise 1s --threads 4 -- ./solver input.dat
      two policies, with the times of `pinfold run` for a program of about a minute
  pinfold compare --policy autopin --policy 'autopin --search racing' --runs 5 -- ./solver input.dat
      one policy with and without an option
  pinfold compare --policy 'none --interleave all' --export-json times.json -- ./solver input.dat
      pages interleaved over all nodes, and the result as JSON
  pinfold compare --machine e5-2660v2x2 solver.pft
      on a simulated machine, with a recording that `pinfold record` wrote
  pinfold compare --machine data:measured.parquet --program lu
      a program whose times were measured in many configurations: they are replayed";

/// How often everything runs.
#[derive(Args)]
#[group(skip)]
struct Rounds {
    /// Run each variant N times.
    #[arg(short, long, help_heading = None::<&str>, value_name = "N", value_parser = number::parse_positive, conflicts_with_all = ["min_runs", "max_runs"])]
    runs: Option<usize>,

    /// Run each variant at least N times. Short programs are run more often, until all runs together have taken 3 s
    /// [default: 10].
    #[arg(long, value_name = "N", value_parser = number::parse_positive)]
    min_runs: Option<usize>,

    /// Run each variant at most N times.
    #[arg(short = 'M', long, value_name = "N", value_parser = number::parse_positive)]
    max_runs: Option<usize>,

    /// Run each variant N times before the first measured run, so that files are in memory.
    #[arg(short = 'w', long, visible_alias = "warmup", value_name = "N", value_parser = number::within(0usize, usize::MAX), default_value = "0")]
    warmup_runs: usize,
}

/// What is around a run.
#[derive(Args)]
#[group(skip)]
pub(super) struct Surroundings {
    /// Run this command of the shell before each run. Its time does not count.
    #[arg(long, value_name = "COMMAND")]
    pub(super) prepare: Option<OsString>,

    /// The standard input of each run [default: empty].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,

    /// The standard output of each run: null discards it, inherit shows it, anything else is a file that each run
    /// replaces.
    #[arg(long, value_name = "WHERE", default_value = "null")]
    pub(super) stdout: Output,

    /// Show the standard output and the standard error of each run.
    #[arg(long)]
    pub(super) show_output: bool,

    /// Count runs that end with another status than 0 too.
    #[arg(long)]
    pub(super) ignore_failure: bool,

    /// Print the result and errors only, and no progress.
    #[arg(short, long, help_heading = None::<&str>)]
    pub(super) quiet: bool,
}

impl Surroundings {
    /// Whether the program's output is shown between pinfold's.
    pub(super) fn shows_output(&self) -> bool {
        self.show_output || self.stdout == Output::Inherit
    }
}

/// Where standard output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Null,
    Inherit,
    File(PathBuf),
}

impl FromStr for Output {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "null" => Self::Null,
            "inherit" => Self::Inherit,
            file => Self::File(file.into()),
        })
    }
}

/// Where the result is written, beside standard output.
#[derive(Args)]
#[group(skip)]
pub(super) struct Exports {
    /// Write the result with all times to this file, as JSON.
    ///
    /// Programs that read hyperfine's JSON can read it. docs/formats/run.md has its form.
    #[arg(long = "export-json", help_heading = None::<&str>, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write the result to this file, as CSV; times are in seconds.
    #[arg(long = "export-csv", value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Write the table to this file, as Markdown.
    #[arg(long = "export-markdown", value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,
}

/// The options of simulated machines.
#[derive(Args)]
#[group(skip)]
pub(super) struct Simulated {
    /// On a simulated machine: the recording to run, instead of a program.
    #[arg(help_heading = None::<&str>, value_name = "FILE.pft", conflicts_with = "command")]
    pub(super) recording: Option<PathBuf>,

    /// On a simulated machine or a table: repeat what was recorded or measured N times in each run [default: as
    /// --simulated-time says].
    #[arg(long, value_name = "N", value_parser = number::within(1u64, u64::MAX), conflicts_with = "time")]
    pub(super) repeat: Option<u64>,

    /// On a simulated machine or a table: repeat it as often as the program needs, alone, to run for about this time.
    #[arg(long = "simulated-time", value_name = "TIME", value_parser = duration::parse_probe, default_value = "10m")]
    pub(super) time: Duration,

    /// On a simulated machine or a table: the seed of the first round; each later round has the next one. All variants of a round
    /// have the same seed [default: 0].
    #[arg(long, value_name = "SEED", value_parser = number::within(0u64, u64::MAX))]
    pub(super) seed: Option<u64>,
}

impl Arguments {
    /// Whether the program is simulated or replayed.
    pub(super) fn is_simulated(&self) -> bool {
        self.machine.machine.is_some()
    }

    /// Whether a table of measurements is replayed.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.machine.selected(), Ok(Selected::Table(_)))
    }

    /// Refuses options of simulated machines on this machine, and a minimum of runs above the maximum.
    pub(super) fn check(&self) -> Result<()> {
        if let (Some(least), Some(most)) = (self.extent.min_runs, self.extent.max_runs)
            && most < least
        {
            bail!("--max-runs {most} is less than --min-runs {least}; exchange them, or give --runs {most}");
        }
        let is_given = self.simulated.recording.is_some() || !self.command.is_empty();
        match (self.is_simulated(), self.is_table(), is_given) {
            (true, true, true) => bail!(
                "the table says what runs: name one of its programs with --program, and leave out the recording or the command"
            ),
            (true, false, false) => {
                bail!("there is nothing to compare: name a recording (FILE.pft), or a program after --")
            }
            (true, ..) => return Ok(()),
            (false, ..) => {}
        }
        if let Some(recording) = &self.simulated.recording {
            bail!(
                "`{}` would be run on a simulated machine: name one with --machine (`pinfold machines` lists them), or put -- \
                 before a program that is to run here",
                recording.display()
            );
        }
        if self.passed.kernel.is_some() {
            bail!("{KERNEL_OF_A_REAL_MACHINE}");
        }
        if self.passed.balances {
            bail!("{BALANCING_OF_A_REAL_MACHINE}");
        }
        let given = [
            (self.simulated.repeat.is_some(), "--repeat"),
            (self.simulated.seed.is_some(), "--seed"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, option)) => {
                bail!("{option} is about a simulated machine; name one with --machine, or leave it out")
            }
            None => Ok(()),
        }
    }

    /// How often everything runs.
    pub(super) fn extent(&self) -> Extent {
        /// All runs together of short programs take this time, in seconds.
        const TIME: f64 = 3.0;
        const LEAST: usize = 10;
        let Rounds {
            runs,
            min_runs,
            max_runs,
            warmup_runs,
        } = self.extent;
        Extent {
            warm_up: warmup_runs,
            least: runs.or(min_runs).unwrap_or(LEAST.min(max_runs.unwrap_or(LEAST))),
            most: runs.or(max_runs),
            time: if runs.is_some() { 0.0 } else { TIME },
        }
    }
}
