//! What the daemon tells of itself: the document that it gives and `pinfold top` shows (docs/formats.md).

use pinfold_core::{ObjectKind, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything, as of one beat of the loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The version of pinfold.
    pub(crate) pinfold: String,
    /// The daemon's process.
    pub(crate) process: u32,
    /// Since it began, in seconds.
    pub(crate) at: f64,
    /// In seconds.
    pub(crate) interval: f64,
    /// What tells who shares with whom.
    pub(crate) metric: String,
    /// Whether that is an assumption and nothing that was measured.
    pub(crate) assumed: bool,
    /// Whether moves are told and not made.
    pub(crate) dry_run: bool,
    /// When children of pinned tasks get back what their creator had: see `freed`.
    pub(crate) children: String,
    pub(crate) thresholds: BTreeMap<String, f64>,
    pub(crate) machine: Machine,
    /// The tasks that work, by process and thread.
    pub(crate) tasks: Vec<Task>,
    pub(crate) totals: Totals,
}

/// When children of pinned tasks get back what their creator had.
pub(crate) fn freed(at_birth: bool) -> &'static str {
    if at_birth { "at_birth" } else { "when_met" }
}

/// The machine's shape, as far as it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) packages: Vec<Package>,
}

/// A package; the machine itself where it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Package {
    pub(crate) index: Option<u32>,
    /// NUMA nodes whose PUs are all in it.
    pub(crate) nodes: Vec<u32>,
    pub(crate) cores: Vec<Core>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Core {
    pub(crate) index: Option<u32>,
    /// Those that may be used.
    pub(crate) pus: Vec<u32>,
}

/// A task that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) process: i32,
    pub(crate) thread: i32,
    pub(crate) name: String,
    pub(crate) pu: Option<u32>,
    /// Where the daemon has pinned it.
    pub(crate) pinned: Option<u32>,
    /// Where it may run, as a CPU list.
    pub(crate) allowed: String,
    /// Why it is not moved; `null` where it may be.
    pub(crate) left_alone: Option<String>,
    /// Which share of the last interval it ran, from 0 to 1.
    pub(crate) busy: Option<f64>,
    /// Rates by their names; `null` where one could not be had.
    pub(crate) rates: BTreeMap<String, Option<f64>>,
    pub(crate) last_move: Option<LastMove>,
}

/// Why and when a task was moved last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastMove {
    /// In the daemon's time, in seconds.
    pub(crate) at: f64,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) reason: String,
    /// Whether it only made room for another task.
    pub(crate) makes_room: bool,
    /// What was too much, how much it was, and what it was compared with.
    pub(crate) activity: String,
    pub(crate) value: f64,
    pub(crate) threshold: f64,
    /// `made`, `shown`, `refused` or `partner_stays`.
    pub(crate) outcome: String,
}

/// Counts since the daemon began, and of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) watched: u64,
    pub(crate) working: u64,
    pub(crate) pinned: u64,
    /// Working tasks that are not moved, by reason.
    pub(crate) left_alone: BTreeMap<String, u64>,
    /// Moves by reason and outcome.
    pub(crate) moves: Vec<Moves>,
    pub(crate) beats: u64,
    pub(crate) beats_skipped: u64,
    pub(crate) beat_seconds: f64,
    pub(crate) processor_seconds: Option<f64>,
    pub(crate) met: u64,
    pub(crate) ended: u64,
    pub(crate) freed: u64,
    pub(crate) changed_by_others: u64,
    pub(crate) not_counted: u64,
    pub(crate) not_movable: u64,
    pub(crate) log_lines_lost: u64,
    pub(crate) reloads: u64,
    pub(crate) reloads_refused: u64,
}

/// How many moves there were of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moves {
    pub(crate) reason: String,
    pub(crate) outcome: String,
    pub(crate) count: u64,
}

impl Machine {
    /// The packages, cores and PUs of a topology.
    pub(crate) fn of(topology: &Topology) -> Self {
        let mut packages: Vec<_> = topology
            .objects_of(ObjectKind::Package)
            .map(|(_, object)| object)
            .collect();
        if packages.is_empty() {
            packages.push(topology.object(topology.root()));
        }
        let packages = packages.into_iter().map(|package| {
            let nodes = topology.nodes().iter();
            let within = nodes.filter(|node| !node.pus.is_empty() && node.pus.is_subset(&package.pus));
            let mut cores: Vec<Core> = topology
                .objects_of(ObjectKind::Core)
                .filter(|(_, core)| core.pus.is_subset(&package.pus))
                .map(|(_, core)| Core {
                    index: core.os_index,
                    pus: core
                        .pus
                        .intersection(topology.allowed_pus())
                        .iter()
                        .map(|pu| pu.0)
                        .collect(),
                })
                .collect();
            if cores.is_empty() {
                let pus = package.pus.intersection(topology.allowed_pus());
                cores = pus
                    .iter()
                    .map(|pu| Core {
                        index: None,
                        pus: vec![pu.0],
                    })
                    .collect();
            }
            Package {
                index: package.os_index,
                nodes: within.map(|node| node.id.0).collect(),
                cores,
            }
        });
        Self {
            name: topology.name().to_owned(),
            packages: packages.collect(),
        }
    }

    /// In which package a PU is, as a position.
    pub(crate) fn package_of(&self, pu: u32) -> Option<usize> {
        let has = |package: &Package| package.cores.iter().any(|core| core.pus.contains(&pu));
        self.packages.iter().position(has)
    }
}

impl Package {
    /// What the package is called: its number, or that of the machine.
    pub(crate) fn label(&self) -> String {
        self.index
            .map_or_else(|| "machine".to_owned(), |index| index.to_string())
    }
}
