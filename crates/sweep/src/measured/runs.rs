//! All runs of a measured sweep: its data set, and the file of a shard.
//!
//! The rows need no more of the plan than `Sheet` has, so that the shards of several computers become one data set in
//! the same way as a sweep without shards: the runs of all are put together, and the drift of each session, which is
//! another level on another computer, is removed.

use super::course::{Course, Extent};
use super::drift::Drift;
use super::estimate::TimeEstimate;
use super::plan::{MeasuredMachine, MeasuredPlan, MeasuredProgram};
use super::run::MeasuredRun;
use super::state::joint;
use crate::journal::framed;
use crate::shard::Shard;
use anyhow::Result;
use pinfold_core::MetricColumn;
use pinfold_core::measurement::Median;
use pinfold_dataset::{
    ConfigurationColumns, DataSet, JoinedColumns, MeasuredColumns, ProgramColumns, Row, SamplingColumns, TimeUnit,
    TrafficColumns, WindowColumns,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// The first bytes of a shard file.
pub(crate) const MAGIC: &[u8] = b"pinfold shard of runs 1\n";

/// What the rows need of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// The machine.
    pub machine: MeasuredMachine,
    /// The program.
    pub program: MeasuredProgram,
    /// The configurations, with their keys in hexadecimal digits.
    jobs: Vec<(String, ConfigurationColumns)>,
    references: Vec<usize>,
    varies_threads: bool,
}

/// The first record of a shard file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) shard: Shard,
    pub(crate) sheet: Sheet,
    /// The configurations of the shard.
    pub(crate) jobs: Vec<usize>,
    /// The number of records that follow, one for each run.
    pub(crate) runs: usize,
}

/// The runs of a sweep.
#[derive(Clone, Debug)]
pub struct Runs {
    sheet: Sheet,
    /// With the position of the configuration, in the order in which they were made.
    runs: Vec<(usize, MeasuredRun)>,
}

impl Sheet {
    fn new(plan: &MeasuredPlan) -> Self {
        let job = |job: &super::plan::MeasuredJob| (format!("{:032x}", job.key.0), job.columns());
        Self {
            machine: plan.machine.clone(),
            program: plan.program.clone(),
            jobs: plan.jobs.iter().map(job).collect(),
            references: plan.references.clone(),
            varies_threads: plan.varies_threads,
        }
    }

    /// The number of configurations.
    pub fn configurations(&self) -> usize {
        self.jobs.len()
    }

    /// Whether both have the same configurations.
    pub(crate) fn has_configurations_of(&self, other: &Self) -> bool {
        self.jobs == other.jobs && self.references == other.references
    }

    /// The configuration that others are compared with.
    fn baseline(&self) -> Option<usize> {
        self.references.last().copied()
    }
}

impl Runs {
    /// The runs of a plan, each with the position of its configuration.
    pub fn new(plan: &MeasuredPlan, runs: Vec<(usize, MeasuredRun)>) -> Self {
        Self::of_sheet(Sheet::new(plan), runs)
    }

    pub(crate) fn of_sheet(sheet: Sheet, runs: Vec<(usize, MeasuredRun)>) -> Self {
        Self { sheet, runs }
    }

    /// All runs, with the positions of their configurations.
    pub fn runs(&self) -> &[(usize, MeasuredRun)] {
        &self.runs
    }

    /// The configurations, the program and the machine.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// The drift of the runs that count, and the estimates by configuration.
    pub fn estimates(&self) -> (Drift, Vec<Option<TimeEstimate>>) {
        let mut course = self.course();
        for (job, run) in &self.runs {
            course.restore(*job, run);
        }
        (course.drift(), course.estimates())
    }

    fn course(&self) -> Course {
        let extent = Extent {
            least: 0,
            most: 0,
            interval: None,
        };
        let all: Vec<usize> = (0..self.sheet.jobs.len()).collect();
        Course::new(all.len(), &all, &self.sheet.references, extent, 0)
    }

    /// The runs of a configuration that count.
    fn counted(&self, job: usize) -> Vec<&MeasuredRun> {
        let runs = self.runs.iter().filter(|(of, run)| *of == job && run.counts);
        runs.map(|(_, run)| run).collect()
    }

    /// The data set: a row for each configuration that has a run, in the order of the plan.
    pub fn data_set(&self) -> DataSet {
        let mut units: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, unit, _) in self.runs.iter().flat_map(|(_, run)| &run.metrics) {
            units.insert(name, unit);
        }
        let (_, estimates) = self.estimates();
        let row = |(job, estimate): (usize, &Option<TimeEstimate>)| Some(self.row(job, &(*estimate)?, &units));
        DataSet {
            schema: "sweep".to_owned(),
            metrics: units
                .iter()
                .map(|(&name, &unit)| MetricColumn {
                    name: name.to_owned(),
                    unit: unit.to_owned(),
                })
                .collect(),
            models: BTreeMap::new(),
            topologies: BTreeMap::from([(self.sheet.machine.name.clone(), self.sheet.machine.topology.clone())]),
            time_unit: TimeUnit::Seconds,
            rows: estimates.iter().enumerate().filter_map(row).collect(),
        }
    }

    fn row(&self, job: usize, estimate: &TimeEstimate, units: &BTreeMap<&str, &str>) -> Row {
        let Sheet { machine, program, .. } = &self.sheet;
        let runs = self.counted(job);
        let metric = |name: &&str| {
            let values = runs
                .iter()
                .filter_map(|run| run.metrics.iter().find(|(known, ..)| known == name));
            Median::of(values.map(|(_, _, value)| value.0)).map(|median| median.value)
        };
        Row {
            program: ProgramColumns {
                machine: machine.name.clone(),
                program: program.name.clone(),
                region: None,
                simulated: false,
                command: program.command.clone(),
                recording: Some(program.identity.clone()),
            },
            configuration: self.sheet.jobs[job].1.clone(),
            time: estimate.time,
            window: WindowColumns {
                llc_bytes: machine.llc_bytes,
                ..WindowColumns::default()
            },
            sampling: SamplingColumns {
                time_error: estimate.error,
                simulated_share: None,
            },
            measured: Some(MeasuredColumns {
                runs: Some(runs.len()),
                spread: estimate.spread,
                state: joint(runs.iter().map(|run| &run.state)),
            }),
            traffic: TrafficColumns::default(),
            joined: self.sheet.varies_threads.then(|| JoinedColumns {
                command: program.command.clone(),
                region_object: None,
                region_offset: None,
                region_complete: true,
                baseline: self.sheet.baseline() == Some(job),
            }),
            metrics: units.keys().map(metric).collect(),
        }
    }

    /// Writes the file of a shard, which has these configurations.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_shard(&self, shard: Shard, jobs: &[usize], file: &mut impl Write) -> Result<()> {
        let head = Head {
            shard,
            sheet: self.sheet.clone(),
            jobs: jobs.to_vec(),
            runs: self.runs.len(),
        };
        file.write_all(MAGIC)?;
        file.write_all(&framed(&head)?)?;
        for run in &self.runs {
            file.write_all(&framed(run)?)?;
        }
        Ok(())
    }
}
