//! The configurations of a measured sweep, and their identities.
//!
//! 1. The spaces give the points of each number of threads. The unpinned program with that number precedes them.
//! 2. The references run in every block: the unpinned program with the most threads, and the baseline. That is the
//!    space's own baseline, and otherwise the first point with the most threads.
//! 3. The key of a configuration is a hash of everything that its time depends on and that the command knows: the
//!    program's file and arguments, its working directory, the variables of its environment that decide how it works,
//!    the machine, and the configuration. The build of pinfold is not a part of it: days of measurements outlive an
//!    update.

use crate::journal::Key;
use crate::spaces::{Point, page_map_name};
use pinfold_core::content_hash;
use pinfold_dataset::{ConfigurationColumns, Layout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The machine of a measured sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredMachine {
    /// Its name in the data set.
    pub name: String,
    /// The hash of its topology, by which machines of one kind are recognised.
    pub fingerprint: String,
    /// The topology as JSON.
    pub topology: serde_json::Value,
    /// All last-level caches together, in bytes; `None` if they are not known.
    pub llc_bytes: Option<u64>,
    /// The number of PUs that may be used.
    pub pus: usize,
}

/// The program of a measured sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredProgram {
    /// Its file name.
    pub name: String,
    /// The program and its arguments, with `{threads}` in place of the number of threads.
    pub command: String,
    /// The identity of its binary.
    pub identity: String,
    /// What else its time depends on: working directory, variables, input, and commands around a run.
    pub context: Vec<String>,
}

/// One configuration.
#[derive(Clone, Debug)]
pub struct MeasuredJob {
    /// The number of threads.
    pub threads: usize,
    /// The placement; `None` for the unpinned program.
    pub point: Option<Point>,
    /// The identity of its runs.
    pub key: Key,
}

/// All configurations, in the order of the data set's rows.
#[derive(Clone, Debug)]
pub struct MeasuredPlan {
    /// The machine.
    pub machine: MeasuredMachine,
    /// The program.
    pub program: MeasuredProgram,
    /// The configurations.
    pub jobs: Vec<MeasuredJob>,
    /// The positions of those that run in every block.
    pub references: Vec<usize>,
    /// Whether the number of threads is a part of a configuration.
    pub varies_threads: bool,
}

impl MeasuredPlan {
    /// The plan for these points by their number of threads. `is_baseline` recognises the baseline of a space.
    pub fn new(
        machine: MeasuredMachine,
        program: MeasuredProgram,
        points: BTreeMap<usize, Vec<Point>>,
        varies_threads: bool,
        is_baseline: impl Fn(&Point) -> bool,
    ) -> Self {
        let mut jobs = vec![];
        let most = points.keys().next_back().copied().unwrap_or(0);
        for (threads, points) in points {
            let all = std::iter::once(None).chain(points.into_iter().map(Some));
            jobs.extend(all.map(|point| MeasuredJob {
                threads,
                key: key(&machine, &program, threads, point.as_ref()),
                point,
            }));
        }
        let position = |is: &dyn Fn(&MeasuredJob) -> bool| jobs.iter().position(is);
        let unpinned = position(&|job| job.threads == most && job.point.is_none());
        let baseline = position(&|job| job.point.as_ref().is_some_and(&is_baseline))
            .or_else(|| position(&|job| job.threads == most && job.point.is_some()));
        Self {
            references: unpinned.into_iter().chain(baseline).collect(),
            machine,
            program,
            jobs,
            varies_threads,
        }
    }
}

impl MeasuredJob {
    /// Its columns in a data set.
    pub fn columns(&self) -> ConfigurationColumns {
        let Some(point) = &self.point else {
            return ConfigurationColumns {
                num_threads: self.threads,
                layout: None,
                page_map: "first_touch".to_owned(),
                prefetch: "0000".to_owned(),
                pinning: None,
            };
        };
        ConfigurationColumns {
            num_threads: self.threads,
            layout: Some(Layout {
                num_nodes: point.num_nodes,
                threads_per_core: Some(point.threads_per_core),
                thread_map: point.thread_map.map(|map| map.name().to_owned()),
            }),
            page_map: page_map_name(point.pages).to_owned(),
            prefetch: point.prefetchers.to_string(),
            pinning: Some(point.pinning.to_string()),
        }
    }

    /// Its description for the user.
    pub fn described(&self) -> String {
        let columns = self.columns();
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            number => format!("{number} threads"),
        };
        let Some(pinning) = &columns.pinning else {
            return format!("{threads} unpinned");
        };
        let pages = match columns.page_map.as_str() {
            "first_touch" => String::new(),
            pages => format!(", pages {pages}"),
        };
        let prefetch = match columns.prefetch.as_str() {
            "0000" => String::new(),
            bits => format!(", prefetchers {bits}"),
        };
        format!("{threads} on {pinning}{pages}{prefetch}")
    }
}

fn key(machine: &MeasuredMachine, program: &MeasuredProgram, threads: usize, point: Option<&Point>) -> Key {
    // Each type is destructured by name, so that a new field does not compile until somebody decides here whether times
    // depend on it.
    let MeasuredMachine {
        fingerprint,
        // The fingerprint stands for these.
        name: _,
        topology: _,
        llc_bytes: _,
        pus: _,
    } = machine;
    let MeasuredProgram {
        command,
        identity,
        context,
        // The command has it.
        name: _,
    } = program;
    let configuration = point.map(|point| {
        let Point {
            threads: _,
            pinning,
            pages,
            prefetchers,
            // The pinning and the machine determine these.
            num_nodes: _,
            threads_per_core: _,
            thread_map: _,
        } = point;
        (pinning, pages, prefetchers)
    });
    let text = format!("runs 1 {fingerprint} {identity} {command:?} {context:?} {threads} {configuration:?}");
    Key(content_hash(text.as_bytes()))
}
