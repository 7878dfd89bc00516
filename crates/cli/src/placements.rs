//! `pinfold placements`: the pinnings of a thread count up to the machine's symmetries.
//!
//! Output is written as the placements are found, so that `pinfold placements … | head` ends at once on a machine with
//! more of them than could ever be printed. A reader that goes away is no error.

use anyhow::Result;
use clap::Args;
use pinfold_core::placement::Placements;
use pinfold_core::{ObjectId, ObjectKind, Pinning, PuId, PuSet, Topology};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// List or count the placements of a number of threads: the pinnings up to the symmetries of the machine.
///
/// A line has the CPU list by rank, a tab, and how many threads run in each last-level-cache domain, with `|` between
/// packages. Threads get a PU each.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// How many threads are placed.
    #[arg(long, value_name = "N")]
    threads: usize,

    /// Print only how many placements there are.
    #[arg(long, conflicts_with = "limit")]
    count: bool,

    /// List at most this many placements; the count is still that of all.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Print JSON: `machine`, `threads`, `count` (a number where it fits 64 bits, else a string) and, without
    /// `--count`, `placements` with `pus` by rank and `llc_loads`, one list for each package.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topology = arguments.machine.topology()?;
    let placements = Placements::new(&topology, arguments.threads)?;
    let listed = match (arguments.count, arguments.limit) {
        (true, _) => None,
        (false, limit) => Some(placements.iter().take(limit.unwrap_or(usize::MAX))),
    };
    let domains = Domains::new(&topology);

    let mut out = BufWriter::new(io::stdout().lock());
    let written = match (arguments.json, listed) {
        (false, None) => writeln!(out, "{}", placements.count()),
        (false, Some(listed)) => print_lines(&mut out, &domains, listed),
        (true, listed) => print_json(&mut out, &topology, arguments.threads, &placements, &domains, listed),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}

fn print_lines(out: &mut impl Write, domains: &Domains, listed: impl Iterator<Item = Pinning>) -> io::Result<()> {
    for pinning in listed {
        writeln!(out, "{pinning}\t{}", domains.loads(&pinning))?;
    }
    Ok(())
}

/// One placement in JSON.
#[derive(Serialize)]
struct Listed<'a> {
    pus: &'a [PuId],
    llc_loads: Loads,
}

/// Written by hand as far as the array goes, since its elements are never all there.
fn print_json(
    out: &mut impl Write,
    topology: &Topology,
    threads: usize,
    placements: &Placements,
    domains: &Domains,
    listed: Option<impl Iterator<Item = Pinning>>,
) -> io::Result<()> {
    let machine = serde_json::to_string(topology.name())?;
    let count = placements.count();
    write!(out, r#"{{"machine":{machine},"threads":{threads},"count":"#)?;
    match u64::try_from(&count) {
        Ok(count) => write!(out, "{count}")?,
        Err(_) => write!(out, r#""{count}""#)?,
    }
    if let Some(listed) = listed {
        write!(out, r#","placements":["#)?;
        let mut separator = "\n";
        for pinning in listed {
            out.write_all(separator.as_bytes())?;
            let listed = Listed {
                pus: pinning.pus(),
                llc_loads: domains.loads(&pinning),
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
        let mut packages: BTreeMap<Option<ObjectId>, Vec<PuSet>> = BTreeMap::new();
        for domain in topology.llc_domains() {
            let pus = topology.object(domain).pus.intersection(topology.allowed_pus());
            if let Some(pu) = pus.first() {
                let is_package = |id: &ObjectId| topology.object(*id).kind == ObjectKind::Package;
                let package = topology.path_to(pu).into_iter().find(is_package);
                packages.entry(package).or_default().push(pus);
            }
        }
        Self(packages.into_values().collect())
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
