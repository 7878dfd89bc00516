//! `pinfold pages`: where the pages of a running process are, and moving them.

use crate::console;
use crate::machine::topology_here;
use crate::run::number;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::memory::{MemoryArea, PageGoal, PageMoves, Profiled, Sampled};
use pinfold_core::{NodeId, NodeSet, PageMapping, size_text};
use pinfold_files::output::Output;
use pinfold_linux::memory::{
    Accesses, Areas, Calls, Limits, OtherProcess, ProcessThreads, SampledMachine, Sampling, System, Target, move_pages,
    on_process, page_size,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the NUMA nodes of a running process's pages, and move the pages.
///
/// With a page mapping, such as --interleave all, the pages in memory are moved; pages that the process touches later
/// follow its own memory policy. For locality and balance the process's accesses are sampled first, or taken from a
/// recording (--profile); pages without a seen access stay. Ctrl-C ends the moving and not the process. The exit status
/// is 0 even if some pages had to stay; their number and the reason are printed.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold pages 4711
      on which NUMA nodes the pages of process 4711 are
  pinfold pages --interleave all 4711
      move them to all nodes in turn
  pinfold pages --page-map locality 4711
      move each to the node whose threads access it most")]
pub(crate) struct Arguments {
    /// The process ID.
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = number::within(1i32, i32::MAX))]
    process: i32,

    #[command(flatten)]
    mapping: crate::page_mapping::Arguments,

    #[command(flatten, next_help_heading = "How pages are moved")]
    migration: crate::page_mapping::Migration,

    #[command(flatten, next_help_heading = "How accesses are sampled")]
    sampling: crate::sampling::Arguments,

    /// Also move pages with a memory policy of the program.
    #[arg(long = "override")]
    overrides: bool,

    /// Also write a report to this file, as JSON (docs/formats/run.md).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topology = topology_here(arguments.quiet)?;
    let mapping = arguments.mapping.mapping(&topology)?;
    let selection = arguments.migration.selection(arguments.overrides)?;
    let sampling = arguments.sampling.sampling(mapping)?;
    let profile = arguments.sampling.profile()?;
    let json = Output::optional("--json", arguments.json.as_deref())?;
    let process = OtherProcess::hold(arguments.process)?;
    let system = System::default();
    let mut areas = areas(&process, &system)?;
    let before = on_nodes(&areas);
    let mut moves = None;
    let mut sampled = None;
    let mut profiled = None;
    if let Some(mapping) = mapping {
        let threads = ProcessThreads::new(&topology, &system, arguments.process);
        let mut goal: Box<dyn PageGoal> = if let Some(profile) = &profile {
            let (accesses, summary) = on_process(system.procfs(), profile, arguments.process, &areas, page_size())?;
            if accesses.is_empty() {
                bail!("no memory of the process is that of the recording, so the pages stay where they are: {summary}");
            }
            profiled = Some(summary);
            Box::new(threads.places_from_recording(mapping, &accesses))
        } else if mapping.needs_accesses() {
            let accesses = accesses(&process, &areas, sampling)?;
            sampled = Some(accesses.sampled.clone());
            Box::new(threads.places_from_samples(mapping, &accesses))
        } else {
            address_goal(mapping, &threads)?
        };
        let limits = Limits {
            selection,
            rate: arguments.migration.rate(),
            page_size: page_size(),
        };
        let mut calls = Calls::new(&process, system.procfs(), page_size());
        let mut progress = crate::page_mapping::progress(arguments.quiet);
        let moved = moves.insert(PageMoves::towards(mapping.to_string()));
        move_pages(&mut calls, &areas, goal.as_mut(), limits, moved, &mut progress);
        if moved.broken_off.is_none() {
            areas = self::areas(&process, &system)?;
        }
    }
    let after = on_nodes(&areas);
    if let Some(json) = json {
        json.write_json(&Document {
            pinfold: env!("CARGO_PKG_VERSION"),
            process: arguments.process,
            page_map: mapping,
            before: &before,
            after: &after,
            sampled: sampled.as_ref(),
            profiled: profiled.as_ref(),
            moves: moves.as_ref(),
        })?;
    }
    let profiled = profiled.map_or_else(String::new, |profiled| format!("accesses: {profiled}\n"));
    console::print(&(profiled + &text(&after, sampled.as_ref(), moves.as_ref())))?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` writes (docs/formats/run.md).
#[derive(Serialize)]
struct Document<'a> {
    pinfold: &'static str,
    process: i32,
    page_map: Option<PageMapping>,
    before: &'a BTreeMap<NodeId, u64>,
    after: &'a BTreeMap<NodeId, u64>,
    sampled: Option<&'a Sampled>,
    profiled: Option<&'a Profiled>,
    moves: Option<&'a PageMoves>,
}

/// The goal of a mapping that does not depend on accesses.
fn address_goal(mapping: PageMapping, threads: &ProcessThreads<'_>) -> Result<Box<dyn PageGoal>> {
    match threads.spread(mapping)? {
        Some(spread) => Ok(Box::new(spread)),
        None => bail!("{}", nowhere(mapping, &threads.nodes())),
    }
}

/// Samples the process's accesses.
fn accesses(process: &OtherProcess, areas: &[MemoryArea], sampling: Sampling) -> Result<Accesses> {
    let targets: [(&dyn Target, &[MemoryArea]); 1] = [(process, areas)];
    let mut sampled = SampledMachine::here().sample(&targets, sampling)?;
    let accesses = sampled.pop().context("the process was not sampled")??;
    if accesses.profile.is_empty() {
        bail!(
            "no access to memory was seen within {:?}, so the pages stay where they are: the process may be idle; sample for \
             longer (--sample-time)",
            sampling.lasts
        );
    }
    Ok(accesses)
}

fn areas(process: &OtherProcess, system: &System) -> Result<Vec<MemoryArea>> {
    let areas = Areas::read_held(process, system.procfs(), page_size());
    Ok(areas.with_context(|| format!("process {}", process.process()))??.into())
}

/// The bytes on each node.
fn on_nodes(areas: &[MemoryArea]) -> BTreeMap<NodeId, u64> {
    let mut nodes = BTreeMap::new();
    for (&node, &bytes) in areas.iter().flat_map(|area| &area.resident) {
        *nodes.entry(node).or_default() += bytes;
    }
    nodes
}

/// Why a page mapping moves nothing.
fn nowhere(mapping: PageMapping, threads: &NodeSet) -> String {
    match mapping {
        PageMapping::FirstTouch => {
            "the page mapping first_touch is about pages that are touched for the first time, and moves none; take local, interleave, \
             or name nodes"
                .to_owned()
        }
        _ => format!(
            "the threads may run on the NUMA nodes {threads}, so that no node is local to all of them; pin them to one, or name \
             the pages' node (single:NODE)"
        ),
    }
}

/// The nodes line by line, and the moved pages.
fn text(nodes: &BTreeMap<NodeId, u64>, sampled: Option<&Sampled>, moves: Option<&PageMoves>) -> String {
    let whole: u64 = nodes.values().sum();
    let mut text = String::new();
    if let Some(sampled) = sampled {
        let _ = writeln!(text, "accesses: {sampled}");
    }
    if let Some(moves) = moves {
        let _ = writeln!(text, "{moves}");
    }
    for (node, &bytes) in nodes {
        let share = bytes as f64 / whole as f64 * 100.0;
        let _ = writeln!(text, "node {node}: {} ({share:.1} %)", size_text(bytes));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_listed_with_its_share() {
        let nodes = [(NodeId(0), 3 << 20), (NodeId(2), 1 << 20)].into();
        assert_eq!(
            text(&nodes, None, None),
            "node 0: 3 MiB (75.0 %)\nnode 2: 1 MiB (25.0 %)\n"
        );
    }
}
