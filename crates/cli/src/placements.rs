//! `pinfold placements`: the pinnings of a thread count up to the machine's symmetries.
//!
//! Output is written as the placements are found, so that `pinfold placements … | head` ends at once on a machine with
//! more of them than could ever be printed. It is not an error when a reader closes the pipe.

use crate::console;
use crate::run::number;
use anyhow::Result;
use clap::Args;
use pinfold_core::hint::{AffinityHint, Destinations};
use pinfold_core::placement::{Placements, Threads, ToolForm};
use pinfold_core::{ObjectId, Pinning, PuId, PuSet, Topology};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::iter;
use std::process::ExitCode;

/// List or count the placements of a number of threads: the pinnings up to the symmetries of the machine.
///
/// A line has the CPU list by rank, a tab, and how many threads run in each last-level-cache domain, with `|` between
/// packages; with --leeway another tab, and the affinity hints. Threads get a PU each.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold placements --threads 4
      all pinnings of four threads that differ on this machine
  pinfold placements --machine e5-4650x4 --threads 32 --count
      how many there are for 32 threads on a machine of four packages
  pinfold placements --machine e5-4650x4 --threads 8 --hint SLP
      the one that is called distributed
  eval $(pinfold placements --threads 8 --hint SLP --format OMP_PLACES | sed 's/^/export /')
      for OpenMP programs that are started without pinfold")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// The number of threads.
    #[arg(long, value_parser = number::parse_threads, value_name = "N")]
    threads: usize,

    /// Print only the number of placements.
    #[arg(long, conflicts_with = "limit")]
    count: bool,

    /// List at most this many placements; the count still includes all.
    #[arg(long, value_parser = number::within(0usize, usize::MAX), value_name = "N")]
    limit: Option<usize>,

    /// List only the placement that this affinity hint leads to: three letters, capital for yes, of S (many packages),
    /// L (last-level caches apart) and P (packages before caches), such as slp for packed and SLP for distributed.
    #[arg(long, value_name = "SLP", conflicts_with_all = ["count", "limit"])]
    hint: Option<AffinityHint>,

    /// Say of each placement from how many hints' placements at most N threads must move to another last-level cache.
    #[arg(long, value_parser = number::within(0usize, number::MOST_THREADS), value_name = "N", conflicts_with = "count")]
    leeway: Option<usize>,

    /// Print each placement as another tool takes it: hwloc-calc, taskset, likwid, numactl, slurm, `OMP_PLACES`,
    /// `KMP_AFFINITY` or `GOMP_CPU_AFFINITY`.
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["count", "leeway", "json"])]
    format: Option<ToolForm>,

    /// Print JSON: `machine`, `threads`, `count` (a number where it fits 64 bits, else a string) and, without
    /// `--count`, `placements` with `pus` by rank, `llc_loads`, one list for each package, and with `--leeway` the
    /// `hints`.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topology = arguments.machine.topology()?;
    let placements = Placements::new(&topology, arguments.threads)?;
    let listed: Option<Box<dyn Iterator<Item = Pinning>>> = match (arguments.count, arguments.hint) {
        (true, _) => None,
        (false, Some(hint)) => Some(Box::new(iter::once(hint.pinning(&topology, arguments.threads)?))),
        (false, None) => Some(Box::new(placements.iter().take(arguments.limit.unwrap_or(usize::MAX)))),
    };
    let destinations = arguments
        .leeway
        .map(|_| Destinations::new(&topology, arguments.threads));
    let show = Show {
        domains: Domains::new(&topology),
        destinations: destinations.transpose()?.zip(arguments.leeway),
        topology: &topology,
    };

    console::stream(|out| match (arguments.json, listed) {
        (false, None) => writeln!(out, "{}", placements.count()),
        (false, Some(listed)) => print_lines(out, &show, arguments.format, listed),
        (true, listed) => print_json(out, arguments, &placements, &show, listed),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The description of a placement.
struct Show<'a> {
    domains: Domains,
    /// The placements of hints, and the leeway.
    destinations: Option<(Destinations, usize)>,
    topology: &'a Topology,
}

impl Show<'_> {
    fn hints(&self, pinning: &Pinning) -> Option<Vec<AffinityHint>> {
        let (destinations, leeway) = self.destinations.as_ref()?;
        Some(destinations.hints(self.topology, pinning, *leeway))
    }
}

fn print_lines(
    out: &mut dyn Write,
    show: &Show<'_>,
    format: Option<ToolForm>,
    listed: impl Iterator<Item = Pinning>,
) -> io::Result<()> {
    for pinning in listed {
        if let Some(text) = format.and_then(|format| format.of(Threads::Pinned(&pinning))) {
            writeln!(out, "{text}")?;
            continue;
        }
        write!(out, "{pinning}\t{}", show.domains.loads(&pinning))?;
        match show.hints(&pinning).as_deref() {
            None => writeln!(out)?,
            Some([]) => writeln!(out, "\t-")?,
            Some(hints) => {
                let hints: Vec<String> = hints.iter().map(AffinityHint::to_string).collect();
                writeln!(out, "\t{}", hints.join(" "))?;
            }
        }
    }
    Ok(())
}

/// One placement in JSON.
#[derive(Serialize)]
struct Listed<'a> {
    pus: &'a [PuId],
    llc_loads: Loads,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<Vec<AffinityHint>>,
}

/// The array is written by hand, because its elements are made one after the other.
fn print_json(
    out: &mut dyn Write,
    arguments: &Arguments,
    placements: &Placements,
    show: &Show<'_>,
    listed: Option<impl Iterator<Item = Pinning>>,
) -> io::Result<()> {
    let machine = serde_json::to_string(show.topology.name())?;
    let count = placements.count();
    write!(out, r#"{{"machine":{machine},"threads":{},"count":"#, arguments.threads)?;
    match u64::try_from(&count) {
        Ok(count) => write!(out, "{count}")?,
        Err(_) => write!(out, r#""{count}""#)?,
    }
    if let Some(hint) = arguments.hint {
        write!(out, r#","hint":"{hint}""#)?;
    }
    if let Some(leeway) = arguments.leeway {
        write!(out, r#","leeway":{leeway}"#)?;
    }
    if let Some(listed) = listed {
        write!(out, r#","placements":["#)?;
        let mut separator = "\n";
        for pinning in listed {
            out.write_all(separator.as_bytes())?;
            let listed = Listed {
                pus: pinning.pus(),
                llc_loads: show.domains.loads(&pinning),
                hints: show.hints(&pinning),
            };
            serde_json::to_writer(&mut *out, &listed)?;
            separator = ",\n";
        }
        write!(out, "\n]")?;
    }
    writeln!(out, "}}")
}

/// The last-level-cache domains of each package that have PUs which may be used. Domains outside packages are together.
struct Domains(Vec<Vec<PuSet>>);

impl Domains {
    fn new(topology: &Topology) -> Self {
        let pus = |package: Vec<(ObjectId, PuSet)>| package.into_iter().map(|(_, pus)| pus).collect();
        Self(topology.llc_domains_by_package().into_iter().map(pus).collect())
    }

    fn loads(&self, pinning: &Pinning) -> Loads {
        let load = |domain: &PuSet| pinning.pus().iter().filter(|&&pu| domain.contains(pu)).count();
        Loads(
            self.0
                .iter()
                .map(|package| package.iter().map(load).collect())
                .collect(),
        )
    }
}

/// Threads by package and last-level-cache domain.
#[derive(Serialize)]
#[serde(transparent)]
struct Loads(Vec<Vec<usize>>);

impl fmt::Display for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let package = |loads: &Vec<usize>| loads.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        f.write_str(&self.0.iter().map(package).collect::<Vec<_>>().join(" | "))
    }
}
