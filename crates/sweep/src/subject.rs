//! What the rows of a data set take from the machine and from the job, apart from the job's outcome. Shard files have
//! it.

use crate::joined::{CodePlace, Joined};
use crate::plan::{Job, Plan, SweptMachine};
use crate::spaces::{is_baseline, page_map_name};
use pinfold_core::MetricColumn;
use pinfold_dataset::{ConfigurationColumns, Layout, WindowColumns};
use serde::{Deserialize, Serialize};

/// A machine in a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineEntry {
    /// Its name.
    pub(crate) name: String,
    /// The hash of its model.
    pub(crate) model: String,
    /// The metrics of its counters.
    pub(crate) metrics: Vec<MetricColumn>,
}

/// What all rows of a job have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The position of the machine.
    pub(crate) machine: usize,
    pub(crate) program: String,
    pub(crate) command: String,
    pub(crate) recording: String,
    pub(crate) configuration: ConfigurationColumns,
    pub(crate) window: WindowColumns,
    /// `None` unless the number of threads is a part of the configuration.
    pub(crate) joined: Option<Member>,
}

/// A recording as a member of a run: one program with several numbers of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The program and its arguments, with `{threads}` in place of the number of threads.
    pub(crate) command: String,
    /// The numbers of threads of the machine's configurations.
    pub(crate) counts: Vec<usize>,
    /// Whether other configurations are compared with this one.
    pub(crate) baseline: bool,
    /// The code of each region, by the region's identity in the recording.
    pub(crate) regions: Vec<(u64, CodePlace)>,
}

impl MachineEntry {
    pub(crate) fn new(machine: &SweptMachine) -> Self {
        Self {
            name: machine.model.name.clone(),
            model: format!("{:032x}", machine.content),
            metrics: machine.columns.clone(),
        }
    }
}

impl Subject {
    pub(crate) fn new(plan: &Plan, job: &Job) -> Self {
        let (machine, program) = (&plan.machines[job.machine], &plan.programs[job.program]);
        let point = &job.point;
        let coverage = program.coverage();
        Self {
            machine: job.machine,
            program: program.name.clone(),
            command: program.command.clone(),
            recording: format!("{:032x}", program.content),
            configuration: ConfigurationColumns {
                num_threads: program.threads,
                layout: Some(Layout {
                    num_nodes: point.num_nodes,
                    threads_per_core: Some(point.threads_per_core),
                    thread_map: point.thread_map.map(|map| map.name().to_owned()),
                }),
                page_map: page_map_name(point.pages).to_owned(),
                prefetch: point.prefetchers.to_string(),
                pinning: Some(point.pinning.to_string()),
            },
            window: WindowColumns {
                window_bytes: Some(coverage.window_bytes),
                footprint_bytes: coverage.footprint_bytes,
                llc_bytes: Some(machine.model.llc_bytes()),
                covers: coverage.is_enough(&machine.model),
                // The outcome has it.
                unrecorded_wait_share: None,
            },
            joined: plan.joined.as_ref().map(|joined| Member::new(joined, plan, job)),
        }
    }
}

impl Member {
    fn new(joined: &Joined, plan: &Plan, job: &Job) -> Self {
        let (machine, program) = (&plan.machines[job.machine], &plan.programs[job.program]);
        let regions = program.regions().iter();
        Self {
            command: joined.command(joined.run(job.program)),
            counts: joined.thread_counts(job.machine).to_vec(),
            baseline: is_baseline(&machine.space, &job.point),
            regions: regions
                .map(|region| (region.identity, CodePlace::new(region)))
                .collect(),
        }
    }

    /// The code of a region; `None` if it is in no file.
    pub(crate) fn code(&self, region: u64) -> Option<&CodePlace> {
        let known = self.regions.iter().find(|(identity, _)| *identity == region);
        known.map(|(_, code)| code)
    }
}
