//! `pinfold trace metrics --paper denoyelle`: the exchanges between threads, and the metrics that the paper has of
//! them.

use crate::{console, machine};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use pinfold_core::{ObjectKind, PuId, Topology};
use pinfold_trace::{InteractionMetrics, Interactions, Machine, Matrix};
use serde::Serialize;
use std::collections::BTreeMap;

/// The metrics, and the recording.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) file: super::File,

    /// The metrics of a paper instead. `denoyelle`: table 2 of Denoyelle et al. (ICPP 2019), by 64-byte lines.
    /// `clusterSD` and `hop_element` need --machine, on which threads are in their default placement, compact.
    #[arg(long, value_enum, value_name = "PAPER")]
    pub(super) paper: Option<Paper>,

    #[command(flatten)]
    pub(super) machine: machine::Arguments,
}

/// A paper with metrics of recordings.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Paper {
    /// Data and Thread Placement in NUMA Architectures: A Statistical Learning Approach.
    Denoyelle,
}

#[derive(Serialize)]
struct Document<'a> {
    metrics: BTreeMap<&'a str, Option<f64>>,
    communications: &'a Matrix,
    sharing: &'a Matrix,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let topology = arguments.machine.machine.as_ref().map(|_| arguments.machine.topology());
    let topology = topology.transpose()?;
    let recording = arguments.file.open()?;
    let found = Interactions::of(&recording)?;
    let threads = found.accesses.len();
    let metrics = match topology {
        None => InteractionMetrics::of(&found, None),
        Some(topology) => {
            let places = compact(&topology, threads)?;
            let nodes: Vec<usize> = places.iter().map(|&pu| node(&topology, pu)).collect();
            let hops = |one: usize, other: usize| topology.hops(places[one], places[other]);
            let machine = Machine {
                nodes: &nodes,
                hops: &hops,
            };
            InteractionMetrics::of(&found, Some(&machine))
        }
    };
    let named = metrics.named();
    if arguments.file.json {
        let document = Document {
            metrics: named.iter().map(|(name, value)| (name.as_str(), *value)).collect(),
            communications: &found.communications,
            sharing: &found.sharing,
        };
        super::print_json(&recording, &document)
    } else {
        console::stream(|out| pinfold_view::recording::interactions(out, &named))?;
        Ok(())
    }
}

/// The PU of each thread in the default placement: one on each core in order, and from the beginning again if there are
/// more threads than cores.
fn compact(topology: &Topology, threads: usize) -> Result<Vec<PuId>> {
    let cores = topology.objects_of(ObjectKind::Core);
    let first: Vec<PuId> = cores.filter_map(|(_, core)| core.pus.first()).collect();
    if first.is_empty() {
        bail!(
            "the machine `{}` has no cores, on which threads could be placed",
            topology.name()
        );
    }
    Ok((0..threads).map(|thread| first[thread % first.len()]).collect())
}

fn node(topology: &Topology, pu: PuId) -> usize {
    let of = topology.nodes().iter().position(|node| node.pus.contains(pu));
    of.unwrap_or(0)
}
