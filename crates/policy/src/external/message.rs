//! The conversation with a policy in another process. Each message is one line of JSON.

use super::wanted::Wanted;
use pinfold_core::{Applied, Count, Metric, Sample, Scope, TaskSample, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the loop asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// The decision before the program's first instruction.
    Start {
        /// The machine.
        topology: Box<Topology>,
        /// What each sample counts.
        metrics: Vec<MetricView>,
    },
    /// The decision after a sample.
    Decide {
        /// The counts since the program began.
        sample: SampleView,
        /// What the machine did of the last decision.
        applied: AppliedView,
    },
    /// The sentences for the record. The program has ended.
    End,
}

/// What the policy answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To `Start` and `Decide`.
    Decision(Wanted),
    /// To `End`.
    Notes(Vec<String>),
    /// The policy has failed, for this reason. It is not asked again.
    Failed(String),
}

/// A metric of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricView {
    /// The name that `--metric` takes.
    pub name: String,
    /// What one count is.
    pub unit: String,
    /// Whether each task has a count of its own, or the program has one.
    pub per_task: bool,
}

/// One reading of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleView {
    /// The time since the start of the run, in seconds.
    pub at: f64,
    /// The living tasks, and those that ended since the last sample.
    pub tasks: Vec<TaskView>,
    /// By metric of the whole program, the total since it began; `None` for one that could not be read.
    pub program: BTreeMap<String, Option<u64>>,
}

/// One task in a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its position in the order of creation, from 0.
    pub serial: u64,
    /// The kernel's number of the process.
    pub process: i32,
    /// The kernel's number of the thread.
    pub thread: i32,
    /// The thread's name.
    pub name: String,
    /// Whether it was alive when the sample was taken.
    pub alive: bool,
    /// The processor time that it has used, in seconds.
    pub cpu_time: Option<f64>,
    /// The PU on which it last ran.
    pub pu: Option<u32>,
    /// By metric, the total since the task began; `None` for one that could not be read.
    pub counts: BTreeMap<String, Option<u64>>,
}

/// What the machine did of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedView {
    /// The serials of the tasks whose mask has changed.
    pub moved: Vec<u64>,
    /// What could not be done, and why.
    pub refused: Vec<String>,
}

impl From<&Metric> for MetricView {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name.clone(),
            unit: metric.unit.clone(),
            per_task: metric.scope == Scope::Task,
        }
    }
}

impl SampleView {
    /// A sample with the names of its metrics.
    pub fn new(sample: &Sample, metrics: &[Metric]) -> Self {
        let counts = |values: &[Option<Count>], scope: Scope| -> BTreeMap<String, Option<u64>> {
            let of_scope = metrics.iter().zip(values).filter(|(metric, _)| metric.scope == scope);
            of_scope
                .map(|(metric, count)| (metric.name.clone(), count.map(|count| count.value)))
                .collect()
        };
        let task = |task: &TaskSample| TaskView {
            serial: task.id.serial,
            process: task.id.process,
            thread: task.id.thread,
            name: task.name.clone(),
            alive: task.alive,
            cpu_time: task.cpu_time.map(|time| time.as_secs_f64()),
            pu: task.last_pu.map(|pu| pu.0),
            counts: counts(&task.counts, Scope::Task),
        };
        Self {
            at: sample.at.as_secs_f64(),
            tasks: sample.tasks.iter().map(task).collect(),
            program: counts(&sample.program, Scope::Program),
        }
    }
}

impl From<&Applied> for AppliedView {
    fn from(applied: &Applied) -> Self {
        Self {
            moved: applied.moved.iter().map(|task| task.serial).collect(),
            refused: applied.refused.iter().map(|refusal| refusal.why.clone()).collect(),
        }
    }
}
