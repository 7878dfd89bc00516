//! The daemon's state: the document that it gives, and that `pinfold top` shows (docs/formats.md).

use pinfold_core::{ObjectKind, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything, as of one reading of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The version of pinfold.
    pub pinfold: String,
    /// The daemon's process.
    pub process: u32,
    /// Since it began, in seconds.
    pub at: f64,
    /// In seconds.
    pub interval: f64,
    /// The source of the rates.
    pub metric: String,
    /// Whether the rates are assumed and not measured.
    pub assumed: bool,
    /// Whether moves are reported and not made.
    pub dry_run: bool,
    /// When children of pinned tasks get back what their creator had: see `freed`.
    pub children: String,
    /// What rates are compared with, by name.
    pub thresholds: BTreeMap<String, f64>,
    /// The machine's shape.
    pub machine: Machine,
    /// The tasks that work, by process and thread.
    pub tasks: Vec<Task>,
    /// Counts.
    pub totals: Totals,
}

/// When children of pinned tasks get back what their creator had.
pub fn freed(at_birth: bool) -> &'static str {
    if at_birth { "at_birth" } else { "when_met" }
}

/// The machine's shape, as far as it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its packages; one where it has none.
    pub packages: Vec<Package>,
}

/// A package; the machine itself where it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// The operating system's index.
    pub index: Option<u32>,
    /// NUMA nodes whose PUs are all in it.
    pub nodes: Vec<u32>,
    /// Its cores; one for each PU where it has none.
    pub cores: Vec<Core>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// The operating system's index.
    pub index: Option<u32>,
    /// Those that may be used.
    pub pus: Vec<u32>,
}

/// A task that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its process.
    pub process: i32,
    /// Its thread.
    pub thread: i32,
    /// Its name.
    pub name: String,
    /// Where it last ran.
    pub pu: Option<u32>,
    /// Where the daemon has pinned it.
    pub pinned: Option<u32>,
    /// Where it may run, as a CPU list.
    pub allowed: String,
    /// Why it is not moved; `null` where it may be.
    pub left_alone: Option<String>,
    /// Which share of the last interval it ran, from 0 to 1.
    pub busy: Option<f64>,
    /// Rates by their names; `null` where one could not be had.
    pub rates: BTreeMap<String, Option<f64>>,
    /// Its last move.
    pub last_move: Option<LastMove>,
}

/// Why and when a task was moved last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastMove {
    /// In the daemon's time, in seconds.
    pub at: f64,
    /// The PU where it ran.
    pub from: u32,
    /// The PU where it was to run.
    pub to: u32,
    /// Why: `coherence`, `remote_memory`, `bandwidth` or `undo`.
    pub reason: String,
    /// Whether it only made room for another task.
    pub makes_room: bool,
    /// What was too much.
    pub activity: String,
    /// How much it was.
    pub value: f64,
    /// What that was compared with.
    pub threshold: f64,
    /// `made`, `shown`, `refused` or `partner_stays`.
    pub outcome: String,
}

/// Counts since the daemon began, and of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Tasks that are watched.
    pub watched: u64,
    /// Tasks that work.
    pub working: u64,
    /// Working tasks that are pinned by the daemon.
    pub pinned: u64,
    /// Working tasks that are not moved, by reason.
    pub left_alone: BTreeMap<String, u64>,
    /// Moves by reason and outcome.
    pub moves: Vec<Moves>,
    /// How often the tasks were read.
    pub beats: u64,
    /// How often nothing was decided, because the time since the reading before was too long or too short.
    pub beats_skipped: u64,
    /// Time from the begin of readings to the end of the last move.
    pub beat_seconds: f64,
    /// Processor time of the daemon.
    pub processor_seconds: Option<f64>,
    /// Tasks that were found.
    pub met: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// New tasks that inherited a mask of the daemon's and got back their creator's own.
    pub freed: u64,
    /// Masks that another program changed after the daemon.
    pub changed_by_others: u64,
    /// Tasks whose counters could not be opened.
    pub not_counted: u64,
    /// Tasks that the daemon may not move.
    pub not_movable: u64,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// How often the configuration was read again.
    pub reloads: u64,
    /// How often the configuration was wrong and the old one stayed.
    pub reloads_refused: u64,
}

/// How many moves there were of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Why: `coherence`, `remote_memory`, `bandwidth` or `undo`.
    pub reason: String,
    /// `made`, `shown`, `gone`, `refused` or `partner_stays`.
    pub outcome: String,
    /// How many.
    pub count: u64,
}

impl Machine {
    /// The packages, cores and PUs of a topology.
    pub fn of(topology: &Topology) -> Self {
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
    pub fn package_of(&self, pu: u32) -> Option<usize> {
        let has = |package: &Package| package.cores.iter().any(|core| core.pus.contains(&pu));
        self.packages.iter().position(has)
    }
}

impl Package {
    /// What the package is called: its number, or that of the machine.
    pub fn label(&self) -> String {
        self.index
            .map_or_else(|| "machine".to_owned(), |index| index.to_string())
    }
}
