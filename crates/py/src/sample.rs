//! What a policy observes, as Python objects.

use pinfold_policy::external::{MetricView, SampleView, TaskView};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// A metric of the machine.
#[pyclass(frozen, get_all, eq, module = "pinfold")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    name: String,
    unit: String,
    per_task: bool,
}

impl From<MetricView> for Metric {
    fn from(metric: MetricView) -> Self {
        let MetricView { name, unit, per_task } = metric;
        Self { name, unit, per_task }
    }
}

#[pymethods]
impl Metric {
    fn __repr__(&self) -> String {
        format!("Metric(name='{}', unit='{}')", self.name, self.unit)
    }
}

/// One task in a sample.
#[pyclass(frozen, get_all, module = "pinfold")]
#[derive(Clone)]
pub(crate) struct Task {
    serial: u64,
    process: i32,
    thread: i32,
    name: String,
    alive: bool,
    cpu_time: Option<f64>,
    pu: Option<u32>,
    counts: BTreeMap<String, Option<u64>>,
}

#[pymethods]
impl Task {
    fn __repr__(&self) -> String {
        let pu = self.pu.map_or_else(|| "None".to_owned(), |pu| pu.to_string());
        format!(
            "<Task {} of process {}: '{}' on PU {pu}>",
            self.serial, self.process, self.name
        )
    }
}

/// One reading of the program.
#[pyclass(frozen, get_all, module = "pinfold")]
pub(crate) struct Sample {
    at: f64,
    tasks: Vec<Task>,
    program: BTreeMap<String, Option<u64>>,
}

impl From<SampleView> for Sample {
    fn from(sample: SampleView) -> Self {
        let task = |task: TaskView| Task {
            serial: task.serial,
            process: task.process,
            thread: task.thread,
            name: task.name,
            alive: task.alive,
            cpu_time: task.cpu_time,
            pu: task.pu,
            counts: task.counts,
        };
        Self {
            at: sample.at,
            tasks: sample.tasks.into_iter().map(task).collect(),
            program: sample.program,
        }
    }
}

impl Sample {
    /// The growth of a metric since `earlier`: the program's own count, or the sum over all tasks in both samples.
    fn growth(&self, earlier: &Self, metric: &str) -> Option<f64> {
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.checked_sub(before?)? as f64);
        if let Some(&now) = self.program.get(metric) {
            return grown(now, earlier.program.get(metric).copied().flatten());
        }
        let before: BTreeMap<u64, &Task> = earlier.tasks.iter().map(|task| (task.serial, task)).collect();
        let count = |task: &Task| task.counts.get(metric).copied().flatten();
        let both = self
            .tasks
            .iter()
            .filter_map(|task| Some((task, *before.get(&task.serial)?)));
        let growths: Vec<f64> = both.filter_map(|(now, then)| grown(count(now), count(then))).collect();
        (!growths.is_empty()).then(|| growths.iter().sum())
    }
}

#[pymethods]
impl Sample {
    fn rate(&self, earlier: &Self, metric: &str) -> Option<f64> {
        let seconds = self.at - earlier.at;
        (seconds > 0.0)
            .then(|| self.growth(earlier, metric))?
            .map(|growth| growth / seconds)
    }

    fn __repr__(&self) -> String {
        format!("<Sample at {:.3} s: {} tasks>", self.at, self.tasks.len())
    }
}
