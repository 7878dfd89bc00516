//! `pinfold topo`: the machine as pinfold sees it.

mod drawing;
mod json;

use crate::console;
use anyhow::Result;
use clap::Args;
use pinfold_core::{Distances, Topology, summary};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Show the machine as pinfold sees it.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: crate::machine::Arguments,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topology = arguments.machine.topology()?;
    let text = if arguments.json {
        format!("{:#}\n", json::of(&topology))
    } else {
        for_a_person(&topology)
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The summary, the tree, and where there are any the kinds of cores and the distances.
fn for_a_person(topology: &Topology) -> String {
    let mut text = format!("{}\n\n{}", summary(topology), drawing::tree(topology));
    if !topology.core_kinds().is_empty() {
        text.push_str("\nKinds of cores, the most power-efficient first:\n");
        text.push_str(&core_kinds(topology));
    }
    if let Some(distances) = topology.distances()
        && distances.nodes.len() > 1
    {
        text.push_str("\nRelative latency from node (rows) to node (columns):\n");
        text.push_str(&matrix(distances));
    }
    let all_pus = &topology.object(topology.root()).pus;
    text.push_str("\nThe numbers after a colon are PUs");
    if topology.allowed_pus().len() < all_pus.len() || topology.allowed_nodes().len() < topology.nodes().len() {
        text.push_str("; what is in [brackets] may not be used");
    }
    text.push_str(".\n");
    text
}

fn core_kinds(topology: &Topology) -> String {
    let mut text = String::new();
    for kind in topology.core_kinds() {
        let info: Vec<String> = kind
            .info
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let _ = writeln!(text, "  {}: {}", info.join(", "), drawing::list(&kind.pus));
    }
    text
}

fn matrix(distances: &Distances) -> String {
    let numbers = distances.values.iter().flatten().copied();
    let nodes = distances.nodes.iter().map(|node| u64::from(node.0));
    let width = numbers.chain(nodes).max().unwrap_or(0).to_string().len();
    let mut text = " ".repeat(2 + width);
    for node in &distances.nodes {
        let _ = write!(text, "  {:>width$}", node.0);
    }
    text.push('\n');
    for (node, row) in distances.nodes.iter().zip(&distances.values) {
        let _ = write!(text, "  {:>width$}", node.0);
        for value in row {
            let _ = write!(text, "  {value:>width$}");
        }
        text.push('\n');
    }
    text
}
