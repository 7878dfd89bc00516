//! `pinfold sweep`: programs through spaces of configurations, into one data set.
//!
//! With `--within-run`, a program is measured while it runs once (`within`). With `--machine`, recordings are simulated
//! (`simulated`). Without it, a program is measured on this machine (`measured`). `pinfold sweep merge` (`merge`) makes the
//! data set of all shards.

mod measured;
mod merge;
mod simulated;
mod within;

use crate::console;
use crate::progress::{Progress, ProgressUnit};
use crate::run::number;
use anyhow::{Result, bail};
use clap::{ArgMatches, Args, FromArgMatches, Subcommand, ValueEnum};
use pinfold_files::output::open_growing;
use pinfold_sweep::{Journal, JournalContent, Kept, Shard, spaces};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Measure a program in many configurations, here or on simulated machines.
///
/// Without --machine, each configuration is a run of the program here: pinned, with its pages placed and its prefetchers
/// set, as `pinfold run` does it. Configurations run in random order, in blocks that each have the unpinned program and
/// the baseline, until their median times are known well enough. A row of the Parquet file is the program in one
/// configuration.
///
/// With --within-run, the program runs once, and all configurations are measured meanwhile.
///
/// With --machine, recordings are simulated. A row is one program, or one parallel region of it, in one configuration on
/// one machine, in its second repetition, when caches are warm.
///
/// Finished work is kept beside the file: after an interruption the same command goes on from there. Several computers
/// share the work: each does one part with --shard, and `pinfold sweep merge` joins the parts.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_long_help = "\
Examples:
  pinfold sweep --space threads -o threads.parquet -- ./solver input.dat
      measure all placements of the program's threads here
  pinfold sweep --space numa --check 'grep -q converged' --time-limit 8h -o numa.parquet -- ./solver input.dat
      nodes, thread maps and page maps, only runs that converged, within a night
  pinfold sweep --within-run --space numa -o regions.parquet -- ./solver input.dat
      each parallel region of the program in all configurations, while it runs once
  pinfold sweep --machine e5-4650x4 --space hints -o hints.parquet solver.pft
      simulate a recording in the placements of the eight affinity hints
  pinfold sweep --machine e5-4650x4 --space placement --threads 32 -o placement.parquet -- ./solver input.dat
      simulate a program with 32 threads, which is recorded first
  pinfold sweep --machine e5-4650x4 --space numa --shard 1/8 -o part1.parquet solver.pft
      one of eight parts, such as one job of a cluster
  pinfold sweep merge -o numa.parquet part1.parquet part2.parquet part3.parquet
      join parts"
)]
pub(crate) struct Command {
    // Before the action, which takes the subcommand out of what was parsed.
    #[command(flatten)]
    arguments: OfSweep,

    #[command(subcommand)]
    action: Option<Action>,
}

/// The arguments of a sweep; `None` with a subcommand. clap's own `Option` of arguments needs a group of them, and has none
/// of structures with further structures.
struct OfSweep(Option<Arguments>);

impl Args for OfSweep {
    fn augment_args(command: clap::Command) -> clap::Command {
        Arguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Arguments::augment_args_for_update(command)
    }
}

impl FromArgMatches for OfSweep {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let arguments = match matches.subcommand_name() {
            Some(_) => None,
            None => Some(Arguments::from_arg_matches(matches)?),
        };
        Ok(Self(arguments))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Subcommand)]
enum Action {
    Merge(merge::Arguments),
}

#[derive(Args)]
struct Arguments {
    /// Simulate on these machines, instead of measuring here: models by name, or FILE.toml. Repeat for more, or separate
    /// by commas.
    #[arg(long, value_name = "MACHINE", value_delimiter = ',')]
    machine: Vec<String>,

    #[arg(long, value_name = "SPACE", required = true, help = space_names(), long_help = space_help())]
    space: Vec<String>,

    /// The data set; with --shard, the file of the shard.
    #[arg(short, long, value_name = "DATA.parquet")]
    output: PathBuf,

    /// Do only part I of N of the configurations, and write it for `pinfold sweep merge`.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,

    /// Of the placements of `--space threads` take at most N, the most different ones.
    #[arg(long, value_parser = number::parse_positive, value_name = "N")]
    limit: Option<usize>,

    /// The program has N threads: OMP_NUM_THREADS, if that is not set, and `{threads}` in the command [default: as many
    /// as it has unpinned].
    #[arg(long, value_parser = number::parse_threads, value_name = "N", conflicts_with = "recordings")]
    threads: Option<usize>,

    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,

    /// Write a summary of the sweep to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,

    /// How progress is shown: as a bar on a terminal, or as lines for a program that calls this one.
    #[arg(long, value_enum, default_value_t, hide = true)]
    progress: Shown,

    #[command(flatten, next_help_heading = "Measured on this machine")]
    measured: measured::Arguments,

    #[command(flatten, next_help_heading = "Measured within one run")]
    within: within::Options,

    #[command(flatten, next_help_heading = "Simulated machines")]
    simulated: simulated::Arguments,

    /// The recordings to simulate.
    #[arg(
        help_heading = None::<&str>,
        value_name = "FILE.pft",
        required_unless_present_any = ["command", "within_run"],
        conflicts_with = "command"
    )]
    recordings: Vec<PathBuf>,

    /// The program and its arguments. With --machine it is recorded first.
    #[arg(last = true, help_heading = None::<&str>, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// A bar on a terminal.
    #[default]
    Bar,
    /// A line such as 3/288 after each configuration.
    Lines,
}

fn space_names() -> String {
    let names: Vec<&str> = spaces::described().map(|(name, _)| name).collect();
    format!("The configurations: {}, or a FILE.toml", names.join(", "))
}

fn space_help() -> String {
    let lines: Vec<String> = spaces::described()
        .map(|(name, about)| format!("- {name}: {about}"))
        .collect();
    format!(
        "The configurations: one of these, or a FILE.toml (docs/formats/data-sets.md). Repeat for more.\n{}",
        lines.join("\n")
    )
}

impl Arguments {
    fn say(&self, text: impl fmt::Display) {
        if !self.quiet {
            console::say(text);
        }
    }

    /// A file beside the output.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.output.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }

    /// Whether the sweep measures on this machine. Options of the other kind of sweep are refused.
    fn measures(&self) -> Result<bool> {
        if !self.machine.is_empty() {
            self.check_precision_of_simulation()?;
            if let Some(option) = self.measured.given_besides(&["--precision"]) {
                bail!("{option} is about runs on this machine, and with --machine nothing runs here; leave one out");
            }
            return Ok(false);
        }
        if let Some(recording) = self.recordings.first() {
            bail!(
                "`{}` would be simulated: name a machine with --machine (`pinfold machines` lists them), or put -- before a \
                 program that is to be measured here",
                recording.display()
            );
        }
        if let Some(option) = self.simulated.given() {
            bail!("{option} is about simulated machines; name one with --machine, or leave it out");
        }
        Ok(true)
    }

    fn check_precision_of_simulation(&self) -> Result<()> {
        match self.measured.precision {
            Some(_) if !self.simulated.is_sampled() => bail!(
                "--precision is about runs on this machine and about pieces of recordings: give --sampled with it, or leave it \
                 out: the simulation of a whole recording has no error of sampling"
            ),
            Some(0.0) => bail!("--precision 0 cannot be reached by a sample; leave out --sampled to simulate all"),
            _ => Ok(()),
        }
    }

    fn show_progress(&self, counted: ProgressUnit, done: usize, total: usize) -> Progress {
        match self.progress {
            Shown::Bar => Progress::new(self.quiet, counted, done, total),
            Shown::Lines => Progress::lines(done, total),
        }
    }
}

pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    match (&command.action, &command.arguments.0) {
        (Some(Action::Merge(arguments)), _) => merge::run(arguments),
        (None, Some(arguments)) if arguments.within.within_run => within::sweep(arguments),
        (None, Some(arguments)) if arguments.measures()? => measured::sweep(arguments),
        (None, Some(arguments)) => simulated::sweep(arguments),
        // clap refuses this, because arguments are missing.
        (None, None) => bail!("nothing to sweep: `pinfold sweep --help` lists the arguments"),
    }
}

/// The error of an output that exists, unless it may be replaced.
fn check_absent(output: &Path, force: bool) -> Result<()> {
    if output.exists() && !force {
        bail!(
            "{} exists: --force replaces it when the sweep is done, or choose another output",
            output.display()
        );
    }
    Ok(())
}

/// A number that no other start of the command has.
fn session() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() << 22 | u64::from(std::process::id() & 0x3f_ffff)
}

/// The journal of the sweep, with the results of an earlier run.
fn open_journal<T: Kept>(arguments: &Arguments) -> Result<(Journal<T>, JournalContent<T>)> {
    let opened = Journal::open(&arguments.beside(".partial"), |path| {
        let mut options = fs::OpenOptions::new();
        Ok(open_growing(
            path,
            options.read(true).write(true).create(true).truncate(false),
        )?)
    })?;
    if opened.1.torn > 0 {
        arguments.say("the last result of an earlier run was cut off, and is done again");
    }
    Ok(opened)
}
