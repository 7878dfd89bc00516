//! The command line of `pinfold run`. Options that belong together are one structure.

use super::{duration, number, pages, policies, simulated, table};
use crate::daemon::With;
use clap::{ArgAction, Args};
use pinfold_core::DeviceName;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Run a program, or attach to a running one, try pinnings while it runs, and keep the best.
///
/// Threads get ranks in the order of their creation. Standard output belongs to the program; pinfold writes to standard
/// error. The exit status is the program's, 128+n when signal n killed it, 127 when it was not found, 126 when it could
/// not be executed, 125 when pinfold itself failed or the options are wrong. With --pid it is 0 unless pinfold itself
/// failed.
#[derive(Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) machine: crate::machine::Arguments,

    #[command(flatten)]
    pub(super) running: Running,

    #[command(flatten)]
    pub(super) policies: policies::Arguments,

    #[command(flatten)]
    pub(super) search: Search,

    #[command(flatten)]
    pub(super) times: Timing,

    #[command(flatten)]
    pub(super) reports: Reports,

    // A heading holds for what follows.
    #[command(flatten, next_help_heading = "Which threads and CPUs")]
    pub(super) limits: Limits,

    #[command(flatten, next_help_heading = "Pages")]
    pub(super) pages: pages::Arguments,

    #[command(flatten, next_help_heading = "Changes of the program")]
    pub(super) changes: Changes,

    #[command(flatten, next_help_heading = "Files")]
    pub(super) journals: crate::journals::Arguments,

    #[command(flatten, next_help_heading = "Files")]
    pub(super) claims: crate::claims::Arguments,

    #[command(flatten, next_help_heading = "Files")]
    pub(super) behaviour: crate::behaviour::Arguments,

    #[command(flatten, next_help_heading = "Simulated machines")]
    pub(super) simulated: simulated::Arguments,

    #[command(flatten, next_help_heading = "Tables of measurements")]
    pub(super) table: table::Arguments,

    /// The program and its arguments: the first word that is no option, and all words after it.
    #[arg(last = true, help_heading = None::<&str>, required_unless_present_any = ["list_events", "machine", "recordings", "pid"], value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

const USAGE: &str = "\
pinfold run [OPTIONS] [--] CMD [ARGUMENT]...
       pinfold run [OPTIONS] -p PID
       pinfold run [OPTIONS] --machine MACHINE {FILE.pft... | --program PROGRAM}";

const EXAMPLES: &str = "\
Examples:
  pinfold run -- ./solver input.dat
      measure the program as it is, try better placements while it runs, keep what is faster, and remember it
  pinfold run --json run.json -- ./solver input.dat
      the same, with a record for `pinfold explain run.json` and `pinfold report run.json -o run.html`
  pinfold run -p 4711 --for 10m
      a program that runs already, for ten minutes
  pinfold run --policy scatter --interleave all -- ./solver input.dat
      threads on all NUMA nodes in turn and pages on all of them, without a search
  pinfold run --policy autopin --metric uprobe:solve_step -t 5s -- ./solver input.dat
      the search of autopin, which compares calls of a function in a second
  pinfold run --near cuda:0 -- ./solver input.dat
      on the CPUs and in the memory near the first GPU
  pinfold run --machine e5-4650x4 -- ./solver input.dat
      on a simulated machine of four packages: the program is recorded here first
  pinfold run --machine data:measured.parquet --program lu --region rhs
      a region whose times were measured in many configurations: they are replayed

`pinfold run --help-experiments` shows options that vary one part of a policy, for studies.";

/// A program that runs already.
#[derive(Args)]
#[group(skip)]
pub(super) struct Running {
    /// Attach to this running process, instead of starting a program.
    ///
    /// Its threads and descendants are placed, too. At the end of the process, at Ctrl-C or SIGTERM to pinfold, or
    /// after --for, its masks are as they were, and it runs on. What only a program has that pinfold starts (agent,
    /// heartbeats, parallel regions, a memory policy) is not there; --initialise is 0 by default.
    #[arg(
        short,
        long,
        value_parser = number::within(1i32, i32::MAX),
        value_name = "PID",
        conflicts_with_all = [
            "command", "recordings", "machine", "overrides", "outlive", "keep_pinned", "membind", "interleave",
            "weighted_interleave", "preferred", "localalloc", "numa_balancing", "near"
        ]
    )]
    pub(super) pid: Option<i32>,

    /// With --pid: let the process go after this time.
    #[arg(long = "for", help_heading = TIMES, value_parser = duration::parse_probe, value_name = "TIME")]
    pub(super) lasts: Option<Duration>,
}

/// The headings of options that stand in several structures.
const TIMES: &str = "Times";
const COMPARED: &str = "What is compared";

/// What pinnings are compared by, and which.
#[derive(Args)]
#[group(skip)]
pub(super) struct Search {
    /// Make candidates for N threads, instead of counting those that work.
    #[arg(long, value_parser = number::parse_threads, value_name = "N")]
    pub(super) threads: Option<usize>,

    /// What to compare pinnings by: auto, heartbeat, regions, barriers, mpi, io, function, uprobe:SYMBOL,
    /// uprobe:PATH:SYMBOL, event:NAME, or run for whole runs of the program (docs/metrics.md). With --policy sam and
    /// without hardware counters: which events of the kernel stand for SAM's activities, such as
    /// memory_bandwidth=page-faults, and for progress, with commas between several.
    #[arg(long, help_heading = COMPARED, default_value = "auto", value_name = "METRIC", conflicts_with = "event")]
    pub(super) metric: String,

    /// Compare pinnings by this event, a libpfm4 name; more of them are counted beside the first.
    #[arg(short, long, help_heading = COMPARED, value_name = "EVENT")]
    pub(super) event: Vec<String>,

    /// List the events that can be counted, as `pinfold events` does.
    #[arg(short = 'L', help_heading = COMPARED)]
    pub(super) list_events: bool,

    /// A candidate: the CPU of each rank in turn, such as 0,1,6,7; with --threads also packed, distributed, close,
    /// spread, compact, scatter or an affinity hint such as SLP. Repeat for more; the variable SCHEDULE of autopin is
    /// understood too. Without either, candidates come from the topology.
    #[arg(long, help_heading = COMPARED, value_name = "LIST")]
    pub(super) schedule: Vec<String>,
}

/// How long each step of a search takes.
#[derive(Args)]
#[group(skip)]
pub(super) struct Timing {
    /// Measure each candidate for this long; auto finds the time itself.
    ///
    /// After the choice the rate is measured once in this time. With --policy auto it is the longest time for a
    /// candidate, 5 s where it is not given.
    #[arg(short = 't', long, default_value = "30s", value_parser = duration::parse_probe, value_name = "TIME")]
    pub(super) probe: Duration,

    /// Let threads and caches settle for this long after each re-pinning [default: half of --probe].
    #[arg(long, help_heading = TIMES, value_parser = duration::parse, value_name = "TIME")]
    pub(super) warm_up: Option<Duration>,

    /// Let the program initialise for this long before the first measurement [default: as --warm-up].
    #[arg(long, help_heading = TIMES, value_parser = duration::parse, value_name = "TIME")]
    pub(super) initialise: Option<Duration>,

    /// Read the metric this often; with --policy sam, look at threads and move them this often.
    #[arg(long, help_heading = TIMES, default_value = "100ms", value_parser = duration::parse_probe, value_name = "TIME")]
    pub(super) interval: Duration,
}

/// Which threads are placed, and where they may run.
#[derive(Args)]
#[group(skip)]
pub(super) struct Limits {
    /// Leave these threads alone: positions in the order of creation, name patterns or both, such as 1,omp-monitor*.
    #[arg(long, value_name = "LIST")]
    pub(super) skip: Option<String>,

    /// Use only these CPUs, such as 0-3,8, or all.
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(super) physcpubind: Option<String>,

    /// Begin on the CPUs near this device, with its memory.
    ///
    /// The default policy compares this with the whole machine, and keeps the faster one; to any other policy the CPUs
    /// are a limit. The device is one of: cuda:N and rocm:N (the Nth GPU of NVIDIA and of AMD, in the order of PCI
    /// addresses, from 0), net:NAME (netdev:NAME as for numactl), block:NAME, pci:ADDRESS. `pinfold topo` shows them.
    /// Pages are preferred on the node near it, unless another option places them. Repeat it for the CPUs near any of
    /// several devices.
    #[arg(long, help_heading = None::<&str>, value_name = "DEVICE")]
    pub(super) near: Vec<DeviceName>,

    /// Use only the CPUs of these NUMA nodes, such as 0-1, or all. `-c` and --cpubind are older names of it, as in
    /// numactl.
    #[arg(short = 'N', long, short_alias = 'c', alias = "cpubind", value_name = "NODES")]
    pub(super) cpunodebind: Option<String>,
}

impl Limits {
    /// Whether the program may run on some CPUs only, which nobody else would see to.
    pub(super) fn are_given(&self) -> bool {
        self.physcpubind.is_some() || self.cpunodebind.is_some() || !self.near.is_empty()
    }
}

/// What pinfold changes of the program, and for how long.
#[derive(Args)]
#[group(skip)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct Changes {
    /// Place threads although variables such as OMP_PROC_BIND tell the program to bind them itself, and move pages
    /// although the program has given them a memory policy.
    #[arg(long = "override")]
    pub(super) overrides: bool,

    /// If pinfold is killed, let the program run on without pinning; by default it ends with pinfold.
    #[arg(long)]
    pub(super) outlive: bool,

    /// How threads are placed.
    ///
    /// With `scx` they prefer the last-level caches of the CPUs on which they would be pinned, and no mask is set. That
    /// needs root, and ends with pinfold.
    #[arg(long, value_enum, default_value_t = With::Masks, help_heading = None::<&str>, value_name = "WAY")]
    pub(super) with: With,

    /// Keep processes that outlive the program pinned after pinfold ends; by default they get their masks back.
    #[arg(long)]
    pub(super) keep_pinned: bool,

    /// Print the calls that would be made for the first candidate, and run nothing.
    #[arg(long, help_heading = None::<&str>)]
    pub(super) dry_run: bool,
}

/// Where the run is reported.
#[derive(Args)]
#[group(skip)]
pub(super) struct Reports {
    /// Write a record of the run to this file, for `pinfold explain`.
    ///
    /// Its form is JSON (docs/formats/run.md). `pinfold report` draws it.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Draw the run as an HTML page in this file, as `pinfold report` does.
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,

    /// Write pinfold's lines to the end of this file, and not to standard error. Without this, lines are kept until the
    /// end while the program draws on the whole terminal.
    #[arg(long, help_heading = "Files", value_name = "FILE", conflicts_with = "quiet")]
    pub(super) log: Option<PathBuf>,

    /// Print the result in one line, and errors; twice (-qq): errors only.
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "verbose")]
    pub(super) quiet: u8,

    /// Print errors, and at the end one line with this name, the policy and the result. For launchers, such as the
    /// plugin for Slurm.
    #[arg(long, hide = true, value_name = "NAME", conflicts_with_all = ["quiet", "verbose", "log"])]
    pub(super) account_as: Option<String>,

    /// Also print each trial, each move of pages, after the choice the rate once in each --probe, and a summary at the
    /// end.
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// How much a run says. Errors are said in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Nothing,
    /// The result in one line.
    Result,
    /// The machine, the metric, what is changed, and the result.
    Changes,
    /// Everything.
    Everything,
}

impl Reports {
    pub(super) fn detail(&self) -> Detail {
        match self.quiet {
            // A launcher gets its own line, which has the result.
            _ if self.account_as.is_some() => Detail::Nothing,
            0 if self.verbose => Detail::Everything,
            0 => Detail::Changes,
            1 => Detail::Result,
            _ => Detail::Nothing,
        }
    }
}

impl Arguments {
    /// The first option that was given and that is about the process of a program that really runs.
    pub(super) fn about_real_process(&self) -> Option<&'static str> {
        let given = [
            (self.changes.overrides, "--override"),
            (self.changes.outlive, "--outlive"),
            (self.changes.keep_pinned, "--keep-pinned"),
            (self.changes.dry_run, "--dry-run"),
            (self.changes.with != With::Masks, "--with"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}
